"""Labels the bytes of a topic's entry with field names, for one message of the entry.

A batch can contain thousands of messages, so only the selected message is broken down: one span
covers all messages before it, and another span covers all messages after it.

In Pulsar: `common/protocol/Commands.java`, `PulsarApi.proto`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from labkit.system.model.errors import BKDigestMatchException, BKIncorrectParameterException
from labkit.system.model.layout import Span
from labkit.system.model.proto.pulsar_pb2 import (
    BrokerEntryMetadata,
    CompressionType,
    MessageMetadata,
    SingleMessageMetadata,
)
from labkit.views.xray.protobuf_spans import field_spans

_BROKER_MAGIC, _MAGIC = b"\x0e\x02", b"\x0e\x01"
_SIZE = struct.Struct(">I")
_SHOWN_BYTES = 256
_NAMES = {
    "producer_name": "the producer that sent the message",
    "sequence_id": "the producer's own counter, used for deduplication",
    "publish_time": "the producer's clock, in milliseconds since 1970",
    "properties": "a key and a value set by the application",
    "partition_key": "determines the partition, and the consumer of a Key_Shared subscription",
    "num_messages_in_batch": "if present, the payload is a batch, even of one message",
    "event_time": "a time set by the application",
    "compression": "applies to the whole payload; the broker does not decompress it",
    "uncompressed_size": "size of the decompressed payload in bytes",
    "payload_size": "size of this message's payload in bytes",
    "broker_timestamp": "the broker's clock",
    "index": "a counter without gaps, like Kafka's offset",
}


@dataclass(frozen=True, slots=True)
class MessageFrame:
    """The fields of an entry's payload, and the bytes of the selected message.

    `message_count` is 0 if the entry is a single message instead of a batch. The selected message
    starts at `offset` and is `size` bytes long; in a batch, this includes the message's metadata.
    """

    spans: tuple[Span, ...]
    message_count: int
    offset: int
    size: int


def parse_message(payload: bytes, batch_index: int) -> MessageFrame:
    """Label the bytes of an entry's payload; a `batch_index` of -1 selects the whole entry.

    Raises `BKDigestMatchException` if the payload is not in Pulsar's message format, and
    `BKIncorrectParameterException` if the entry has no message with that index.
    """
    try:
        spans = list(_head_spans(payload))
        begin = spans[-1].offset + spans[-1].size
        (size,) = _SIZE.unpack_from(payload, begin - _SIZE.size)
        metadata = MessageMetadata.FromString(payload[begin : begin + size])
        spans += field_spans(MessageMetadata.DESCRIPTOR, _NAMES, payload, begin, begin + size)
        begin += size
        # A batch of one message sets this field to 1; a message outside a batch does not set it.
        count = metadata.num_messages_in_batch * metadata.HasField("num_messages_in_batch")
        _check_index(count, batch_index)
        packed = CompressionType.Name(metadata.compression) if metadata.compression else ""
        packed = metadata.encryption_algo or packed
        if batch_index >= 0 and not packed:
            return _in_batch(payload, begin, spans, count, batch_index)
        meaning = "the application's data" if not count else f"{count} messages in one batch"
        meaning += f", packed with {packed}" if packed else ""
        rest = payload[begin:]
        spans.append(Span("payload", begin, len(rest), _shown(rest), meaning))
        return MessageFrame(tuple(spans), count, begin, len(rest))
    except (struct.error, DecodeError) as error:
        raise BKDigestMatchException(f"this entry is not a Pulsar message: {error}") from None


def _head_spans(payload: bytes) -> Iterator[Span]:
    """Yield the spans up to and including the size of the message metadata."""
    at = 0
    if payload.startswith(_BROKER_MAGIC):
        yield Span("broker magic", 0, 2, "0e02", "metadata of the broker follows")
        (size,) = _SIZE.unpack_from(payload, 2)
        yield Span("broker metadata size", 2, 4, str(size), "bytes of the broker's metadata")
        at = 6 + size
        yield from field_spans(BrokerEntryMetadata.DESCRIPTOR, _NAMES, payload, 6, at)
    if payload[at : at + 2] != _MAGIC:
        raise BKDigestMatchException(
            f"this entry is not a Pulsar message: expected 0e01 at offset {at} of its payload, got"
            f" {payload[at : at + 2].hex() or 'nothing'}"
        )
    yield Span("magic", at, 2, "0e01", "Pulsar's: a checksum follows")
    checksum = payload[at + 2 : at + 6].hex()
    yield Span("checksum", at + 2, 4, checksum, "CRC32C of all that follows, made by the producer")
    (size,) = _SIZE.unpack_from(payload, at + 6)
    yield Span("metadata size", at + 6, 4, str(size), "bytes of the message's metadata")


def _check_index(count: int, batch_index: int) -> None:
    if batch_index >= 0 and not count:
        raise BKIncorrectParameterException(
            f"there is no message {batch_index} in this entry: it is one message, not a batch, so"
            " its batch index is -1"
        )
    if batch_index >= count > 0:
        raise BKIncorrectParameterException(
            f"there is no message {batch_index} in this entry: its batch contains messages 0"
            f" to {count - 1}"
        )


def _in_batch(
    payload: bytes, begin: int, spans: list[Span], count: int, batch_index: int
) -> MessageFrame:
    bounds = [begin]
    for _ in range(count):
        bounds.append(_end_of(payload, bounds[-1]))
    if bounds[-1] > len(payload):
        raise BKDigestMatchException(
            f"this entry is truncated: its batch should end at offset {bounds[-1]} of its payload,"
            f" but the payload ends at {len(payload)}"
        )
    start, end = bounds[batch_index : batch_index + 2]
    (size,) = _SIZE.unpack_from(payload, start)
    head = start + _SIZE.size
    own = payload[head + size : end]
    spans += _others(payload, begin, start, 0, batch_index - 1)
    spans.append(
        Span("message's size", start, 4, str(size), "size of this message's metadata in bytes")
    )
    spans += field_spans(SingleMessageMetadata.DESCRIPTOR, _NAMES, payload, head, head + size)
    spans.append(Span("payload", head + size, len(own), _shown(own), "the application's data"))
    spans += _others(payload, end, bounds[-1], batch_index + 1, count - 1)
    return MessageFrame(tuple(spans), count, start, end - start)


def _end_of(payload: bytes, start: int) -> int:
    head = start + _SIZE.size
    own: int = head + _SIZE.unpack_from(payload, start)[0]
    return own + SingleMessageMetadata.FromString(payload[head:own]).payload_size


def _others(payload: bytes, begin: int, end: int, first: int, last: int) -> Iterator[Span]:
    if begin < end:
        name = f"message {first}" if first == last else f"messages {first} to {last}"
        yield Span(name, begin, end - begin, f"{end - begin} bytes", "other messages of the batch")


def _shown(data: bytes) -> str:
    return ascii(data[:_SHOWN_BYTES])[1:]
