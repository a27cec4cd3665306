"""Helpers shared by the tests of topics."""

from typing import Any

from labkit.system.model.message_id import MessageId
from labkit.system.topic.consumer import Consumer
from labkit.system.topic.messages import Message
from labkit.system.topic.producing.producer import Producer

HOUR_MS = 3_600_000


async def send_all(producer: Producer, payloads: list[bytes]) -> list[MessageId]:
    futures = [producer.send(payload) for payload in payloads]
    await producer.flush()
    return [future.result() for future in futures]


async def receive_all(consumer: Consumer, at_once: int = 1000) -> list[Message]:
    messages: list[Message] = []
    while received := await consumer.receive(at_once):
        messages += received
    return messages


def numbered(first: int, last: int) -> list[bytes]:
    return [b"message %d" % number for number in range(first, last)]


def varint(value: int) -> bytes:
    more = bytearray()
    while value > 0x7F:
        more.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*more, value])


def field(number: int, value: Any) -> bytes:
    """Encode a protobuf field: bytes and text are length-delimited, numbers are varints."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data
