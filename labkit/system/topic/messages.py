"""The format of a topic's entries: one message or a batch of messages, as Pulsar stores them.

    0x0e01, CRC32C (u32) of the rest, size of the metadata (u32), MessageMetadata, payload

In a batch, `num_messages_in_batch` is set and the payload is a sequence of
    size (u32), SingleMessageMetadata, payload of that message

In Pulsar: `common/protocol/Commands.java`.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from labkit.system.model import crc32c
from labkit.system.model.errors import BKDigestMatchException, BKIncorrectParameterException
from labkit.system.model.message_id import MessageId
from labkit.system.model.proto.pulsar_pb2 import (
    CompressionType,
    MessageMetadata,
    SingleMessageMetadata,
)

_MAGIC = 0x0E01
_BROKER_MAGIC = 0x0E02
"""Marks broker metadata, which may precede a message; labkit's broker adds none."""
_MAGIC_BYTES = _MAGIC.to_bytes(2, "big")
_HEAD = struct.Struct(">HI")
_SIZE = struct.Struct(">I")
_BODY_START = _HEAD.size + _SIZE.size
"""Where the metadata of a message with a checksum starts."""
_REPLICATE_TO = bytes([MessageMetadata.REPLICATE_TO_FIELD_NUMBER << 3 | 2])
"""The tag of `replicate_to`, which precedes each cluster's name."""


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message to be sent. `event_time_ms` is 0 if there is no event time."""

    payload: bytes
    key: str
    event_time_ms: int
    properties: tuple[tuple[str, str], ...]
    sequence_id: int


@dataclass(frozen=True, slots=True)
class Message:
    """A stored message. `batch_size` is 1 if the message was not batched."""

    message_id: MessageId
    payload: bytes
    key: str
    properties: dict[str, str] = field(hash=False)
    publish_time_ms: int
    event_time_ms: int
    sequence_id: int
    producer_name: str
    batch_size: int


def encode_message(message: OutgoingMessage, producer_name: str, publish_time_ms: int) -> bytes:
    """Encode an unbatched message as an entry."""
    metadata = MessageMetadata(
        producer_name=producer_name,
        sequence_id=message.sequence_id,
        publish_time=publish_time_ms,
        partition_key=message.key or None,
        event_time=message.event_time_ms or None,
    )
    for key, value in message.properties:
        metadata.properties.add(key=key, value=value)
    return _frame(metadata, message.payload)


def encode_in_batch(message: OutgoingMessage) -> bytes:
    """Encode a message as part of a batch, for `encode_batch`."""
    single = SingleMessageMetadata(
        payload_size=len(message.payload),
        partition_key=message.key or None,
        event_time=message.event_time_ms or None,
        sequence_id=message.sequence_id,
    )
    for key, value in message.properties:
        single.properties.add(key=key, value=value)
    head = single.SerializeToString()
    return b"".join((_SIZE.pack(len(head)), head, message.payload))


def encode_batch(
    first: OutgoingMessage,
    parts: Sequence[bytes],
    producer_name: str,
    publish_time_ms: int,
    highest_sequence_id: int | None = None,
) -> bytes:
    """Encode a batch as an entry; `first` is the message in the first part.

    `highest_sequence_id` is the last message's sequence id, which deduplication compares.
    """
    metadata = MessageMetadata(
        producer_name=producer_name,
        sequence_id=first.sequence_id,
        publish_time=publish_time_ms,
        partition_key=first.key or None,
        num_messages_in_batch=len(parts),
        highest_sequence_id=highest_sequence_id,
    )
    return _frame(metadata, b"".join(parts))


def has_valid_checksum(message: bytes) -> bool:
    """Return whether the message starts with 0e01 and matches the producer's checksum."""
    return message[: _HEAD.size] == _head_of(message[_HEAD.size :])


def replication_clusters(message: bytes) -> list[str]:
    """Return the clusters to which a message must be replicated; [] means those of the namespace.

    The message must have a valid checksum. Raises `BKDigestMatchException`.
    """
    size = int.from_bytes(message[_HEAD.size : _BODY_START], "big")
    # Most messages do not contain the tag, so they do not have to be decoded.
    if message.find(_REPLICATE_TO, _BODY_START, _BODY_START + size) < 0:
        return []
    return [*decode_metadata(message).replicate_to]


def split_entry(data: bytes, ledger_id: int, entry_id: int) -> tuple[MessageMetadata, bytes]:
    """Return an entry's metadata and its payload as stored, or raise `BKDigestMatchException`."""
    message = strip_broker_metadata(data)
    if not has_valid_checksum(message):
        raise BKDigestMatchException(
            f"entry {entry_id} of ledger {ledger_id} is not a valid message: expected 0e01 and"
            f" the checksum of the rest, got {message[: _HEAD.size].hex()}"
        )
    try:
        metadata = decode_metadata(message)
    except BKDigestMatchException as error:
        raise BKDigestMatchException(f"entry {entry_id} of ledger {ledger_id}: {error}") from None
    return metadata, message[_BODY_START + _SIZE.unpack_from(message, _HEAD.size)[0] :]


def decode_messages(data: bytes, ledger_id: int, entry_id: int, partition: int) -> list[Message]:
    """Raise `BKDigestMatchException` if the producer's checksum does not match or a batch is
    malformed. Raise `BKIncorrectParameterException` if the payload is compressed.
    """
    metadata, payload = split_entry(data, ledger_id, entry_id)
    if metadata.compression != CompressionType.NONE:
        raise BKIncorrectParameterException(
            f"entry {entry_id} of ledger {ledger_id} is compressed with"
            f" {CompressionType.Name(metadata.compression)}; labkit's own consumer reads only"
            " uncompressed messages: use one of Pulsar's clients, or Spark"
        )
    if metadata.HasField("num_messages_in_batch"):
        try:
            return _decode_batch(metadata, payload, ledger_id, entry_id, partition)
        except (struct.error, DecodeError) as error:
            raise BKDigestMatchException(
                f"entry {entry_id} of ledger {ledger_id} is not a valid batch: {error}"
            ) from None
    message_id = MessageId(ledger_id, entry_id, partition, -1)
    return [_message(message_id, metadata, metadata, payload, 1)]


def decode_metadata(data: bytes) -> MessageMetadata:
    """Raise `BKDigestMatchException` if the entry is not a message. Ignore the checksum, which very
    old clients omit.
    """
    message = strip_broker_metadata(data)
    at = _HEAD.size if message.startswith(_MAGIC_BYTES) else 0
    try:
        start, size = at + _SIZE.size, _SIZE.unpack_from(message, at)[0]
        metadata = MessageMetadata.FromString(message[start : start + size])
    except (struct.error, DecodeError) as error:
        raise BKDigestMatchException(f"the entry is not a message: {error}") from None
    if not metadata.IsInitialized():
        raise BKDigestMatchException("the entry is not a message: a required field is missing")
    return metadata


def strip_broker_metadata(data: bytes) -> bytes:
    if len(data) < _HEAD.size:
        return data
    magic, size = _HEAD.unpack_from(data)
    return data[_HEAD.size + size :] if magic == _BROKER_MAGIC else data


def _decode_batch(
    metadata: MessageMetadata, payload: bytes, ledger_id: int, entry_id: int, partition: int
) -> list[Message]:
    messages, at = [], 0
    count = metadata.num_messages_in_batch
    for batch_index in range(count):
        start = at + _SIZE.size
        end = start + _SIZE.unpack_from(payload, at)[0]
        single = SingleMessageMetadata.FromString(payload[start:end])
        at = end + single.payload_size
        message_id = MessageId(ledger_id, entry_id, partition, batch_index)
        messages.append(_message(message_id, metadata, single, payload[end:at], count))
    return messages


def _message(
    message_id: MessageId,
    metadata: MessageMetadata,
    own: MessageMetadata | SingleMessageMetadata,
    payload: bytes,
    batch_size: int,
) -> Message:
    return Message(
        message_id=message_id,
        payload=payload,
        key=text_of(own.partition_key),
        properties={text_of(item.key): text_of(item.value) for item in own.properties},
        publish_time_ms=metadata.publish_time,
        event_time_ms=own.event_time,
        sequence_id=own.sequence_id,
        producer_name=text_of(metadata.producer_name),
        batch_size=batch_size,
    )


def text_of(field: str | bytes) -> str:
    """Like Java, replace invalid UTF-8 in a string field, which protobuf returns as bytes."""
    return field.decode(errors="replace") if isinstance(field, bytes) else field


def _frame(metadata: MessageMetadata, payload: bytes) -> bytes:
    head = metadata.SerializeToString()
    rest = _SIZE.pack(len(head)) + head + payload
    return _head_of(rest) + rest


def _head_of(rest: bytes) -> bytes:
    return _HEAD.pack(_MAGIC, crc32c.value(rest))
