"""The HTTP paths for individual messages: peek, examine, read by id, get the last message id.

As in Pulsar, the response body is the decompressed payload, and `X-Pulsar-...` headers contain the
metadata. If the entry is a batch, the body is the whole batch, and the client splits it.

In Pulsar: `broker/admin/impl/PersistentTopicsBase.java` (`generateResponseWithEntry`),
`client/admin/internal/TopicsImpl.java`.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, TypeGuard

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.positions import (
    EARLIEST,
    LATEST,
    first_published_from,
    last_message_id,
    nth_unacknowledged,
)
from labkit.system.broker.topics import BrokerTopic
from labkit.system.model.errors import BKDigestMatchException
from labkit.system.model.proto.pulsar_pb2 import CompressionType, MessageMetadata
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.messages import split_entry, text_of
from labkit.worlds.live.admin.call import TOPIC, BadRequestError, Binary, Call, Routes, StatusError
from labkit.worlds.live.admin.partitions import check_not_partitioned

_MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
_PREFIX = "X-Pulsar-"

_TIMES = {
    "publish-time": "publish_time",
    "event-time": "event_time",
    "deliver-at-time": "deliver_at_time",
}
_BASE64 = {
    "Base64-encryption-param": "encryption_param",
    "Base64-schema-version": "schema_version",
    "Base64-ordering-key": "ordering_key",
}
_PLAIN = {
    "num-batch-message": "num_messages_in_batch",
    "null-value": "null_value",
    "producer-name": "producer_name",
    "sequence-id": "sequence_id",
    "replicated-from": "replicated_from",
    "partition-key": "partition_key",
    "uncompressed-size": "uncompressed_size",
    "encryption-algo": "encryption_algo",
    "partition-key-b64-encoded": "partition_key_b64_encoded",
    "marker-type": "marker_type",
    "highest-sequence-id": "highest_sequence_id",
    "uuid": "uuid",
    "num-chunks-from-msg": "num_chunks_from_msg",
    "total-chunk-msg-size": "total_chunk_msg_size",
    "chunk-id": "chunk_id",
    "null-partition-key": "null_partition_key",
}
"""Metadata fields by the name of their header, without the prefix."""


async def _peek(call: Call) -> object:
    """Return the n-th entry that the subscription has not acknowledged.

    The Java client interprets 404 as the end of the backlog, so other errors have a different
    status.
    """
    count = call.path_number(4)
    if count < 1:
        raise BadRequestError(f"the position must be at least 1, got {count}")
    try:
        await check_not_partitioned(call, "peek into")
        topic = await call.open_topic()
        subscription = topic.subscriptions.find(call.subscription)
    except BrokerError as error:
        raise StatusError(HTTPStatus.PRECONDITION_FAILED, str(error)) from None
    position = nth_unacknowledged(topic.ledger, subscription.cursor, count)
    return await _message(topic, position)


async def _examine(call: Call) -> object:
    start = call.options.get("initialPosition", "latest")
    if start not in ("earliest", "latest"):
        raise BadRequestError("initialPosition must be earliest or latest")
    try:
        count = max(1, int(call.options.get("messagePosition", 1)))
    except ValueError:
        raise BadRequestError("messagePosition must be a number") from None
    await check_not_partitioned(call, "examine")
    topic = await call.open_topic()
    chain = topic.ledger.chain
    total = chain.entry_count(chain.start, chain.end)
    if not total:
        raise StatusError(HTTPStatus.PRECONDITION_FAILED, f"{call.topic} has no messages")
    nth = count if start == "earliest" else total - count + 1
    return await _message(topic, chain.nth_after(chain.start, nth) if nth > 0 else None)


async def _message_by_id(call: Call) -> object:
    await check_not_partitioned(call, "read a message of")
    topic = await call.open_topic()
    return await _message(topic, (call.path_number(3), call.path_number(4)))


async def _last_message_id(call: Call) -> object:
    topic = await call.open_topic()
    last = await last_message_id(topic.ledger, topic.partition)
    # An empty topic has no last message, but it does have a last position.
    return {**message_id_json(topic.ledger.last_confirmed, topic), "batchIndex": last.batch_index}


async def _message_id_at(call: Call) -> object:
    """Return the id of the first message published at the given time or later."""
    await check_not_partitioned(call, "ask for the message id of")
    topic = await call.open_topic()
    return message_id_json(await first_published_from(topic.ledger, call.path_number(3)), topic)


def message_id_json(position: Position, topic: BrokerTopic) -> dict[str, int]:
    """Return the id of the entry at `position`, in the JSON format of Pulsar's admin API."""
    return {
        "ledgerId": position[0],
        "entryId": position[1],
        "partitionIndex": topic.partition,
        "batchIndex": -1,
        "batchSize": 0,
    }


def parse_position(body: object) -> Position:
    """Parse a message id in JSON, or `"earliest"` or `"latest"`. Raises `BadRequestError`."""
    if body == "earliest":
        return EARLIEST
    if body == "latest":
        return LATEST
    fields = body if isinstance(body, dict) else {}
    ledger_id, entry_id = fields.get("ledgerId"), fields.get("entryId")
    if not _is_long(ledger_id) or not _is_long(entry_id):
        raise BadRequestError(
            'a position must be "earliest", "latest" or a message id, such as {"ledgerId": 17,'
            ' "entryId": 3, "partitionIndex": -1}'
        )
    return ledger_id, entry_id


def _is_long(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool) and -(2**63) <= number < 2**63


async def _message(topic: BrokerTopic, position: Position | None) -> Binary:
    """Read the entry at the position. Raises `StatusError` if there is no such entry."""
    if position is None or topic.ledger.chain.first_from(position) != position:
        raise StatusError(HTTPStatus.NOT_FOUND, "Message not found")
    stored = await topic.ledger.read(position, 1, 1)
    if not stored or stored[0].position != position:
        raise StatusError(HTTPStatus.NOT_FOUND, "Message not found")  # It has been trimmed.
    data = stored[0].data
    try:
        metadata, payload = split_entry(data, *position)
    except BKDigestMatchException as error:
        raise StatusError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from None
    # As in Pulsar, this is the size of the entry, excluding the metadata.
    size = len(data) - metadata.ByteSize()
    payload = _decompress(metadata, payload, position)
    return Binary(message_headers(metadata, position, size), payload)


def _decompress(metadata: MessageMetadata, payload: bytes, position: Position) -> bytes:
    """Decompress the payload, unless the message is encrypted or a chunk.

    An encrypted payload must be decrypted first, and chunks must be joined.
    """
    if not metadata.compression or _is_encrypted(metadata) or metadata.HasField("chunk_id"):
        return payload
    # Imported here because it takes 50 MB of memory, and most brokers never need it.
    from labkit.system.topic.compression import DecompressionError, decompress_payload  # noqa: PLC0415

    size = metadata.uncompressed_size
    if size > _MAX_PAYLOAD_BYTES:
        raise StatusError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the message is {size} bytes, which exceeds the limit of {_MAX_PAYLOAD_BYTES}",
        )
    try:
        return decompress_payload(metadata.compression, payload, size)
    except DecompressionError as error:
        raise StatusError(
            HTTPStatus.INTERNAL_SERVER_ERROR, f"message {position[0]}:{position[1]}: {error}"
        ) from None


def message_headers(
    metadata: MessageMetadata, position: Position, size: int
) -> list[tuple[str, str]]:
    headers = {
        "Message-ID": f"{position[0]}:{position[1]}",
        "Is-Encrypted": _text(_is_encrypted(metadata)),
        # Use JSON, because it can represent every character in ASCII.
        "PROPERTY": json.dumps(_properties(metadata)),
    }
    if metadata.HasField("num_messages_in_batch"):
        headers["batch-size"] = str(size)
    if metadata.HasField("compression"):
        headers["compression"] = CompressionType.Name(metadata.compression)
    for fields, to_text in _FORMATS:
        for name, field in fields.items():
            if metadata.HasField(field):
                headers[name] = to_text(getattr(metadata, field))
    repeated = [("replicated-to", _text(cluster)) for cluster in metadata.replicate_to]
    return [(f"{_PREFIX}{name}", value) for name, value in (*headers.items(), *repeated) if value]


def _properties(metadata: MessageMetadata) -> dict[str, str]:
    pairs: Any = metadata.properties
    properties = {text_of(each.key): text_of(each.value) for each in pairs}
    if metadata.HasField("num_chunks_from_msg"):
        properties["TOTAL-CHUNKS"] = str(metadata.num_chunks_from_msg)
        properties["CHUNK-ID"] = str(metadata.chunk_id)
    return properties


def _is_encrypted(metadata: MessageMetadata) -> bool:
    return metadata.HasField("encryption_param") or metadata.HasField("encryption_algo")


def _time(time_ms: int) -> str:
    """Format a time as Java's `DateTimeFormatter` does, or "" if Python cannot represent it."""
    try:
        time = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


def _text(value: object) -> str:
    """Format a header value. As in Pulsar, characters not allowed in a header become spaces."""
    if isinstance(value, bool):
        return str(value).lower()
    return re.sub(r"[^ -~\xa0-\xff]", " ", str(value))


_FORMATS: Sequence[tuple[Mapping[str, str], Callable[[Any], str]]] = (
    (_TIMES, _time),
    (_BASE64, lambda data: base64.b64encode(data).decode()),
    (_PLAIN, _text),
)
"""The formatting function of each group of fields."""

_TOPIC = f"/admin/v2/persistent/{TOPIC}"

MESSAGE_ROUTES: Routes = {
    f"{_TOPIC}/subscription/([^/]+)/position/([^/]+)": {"GET": _peek},
    f"{_TOPIC}/examinemessage": {"GET": _examine},
    f"{_TOPIC}/ledger/([^/]+)/entry/([^/]+)": {"GET": _message_by_id},
    f"{_TOPIC}/lastMessageId": {"GET": _last_message_id},
    f"{_TOPIC}/messageid/([^/]+)": {"GET": _message_id_at},
}
