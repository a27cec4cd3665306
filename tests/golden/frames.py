"""The frames of a simulated run as golden scripts show them, with a name and the bytes of each
field.

A frame is named after its sender, receiver and kind and, if it is sent between a client and a
bookie, its entry: `w>b0 ADD 0`, `b0>w ADD 0` for the response, `x>b0 READ 0`, `p>broker1 SEND`.
"""

import asyncio
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from labkit.system.broker.protocol.frames import body_of, decode_frame, position_of
from labkit.system.model.layout import Span
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, MessageIdData
from labkit.system.model.wire import (
    ADD_REQUEST,
    MASTER_KEY_SIZE,
    READ_REQUEST,
    RESPONSE,
    Flag,
    Opcode,
    packet_header,
)
from labkit.views.xray.file_spans import entry_spans
from labkit.views.xray.message_spans import parse_message
from labkit.views.xray.protobuf_spans import field_spans
from labkit.worlds.sim.machine.links import NetworkLink
from labkit.worlds.sim.machine.loop import SimLoop

_LENGTH = struct.Struct(">I")
_DIGEST_SIZE = 4
_ROW_BYTES = 20
BYTES_WIDTH = 3 * _ROW_BYTES
"""The width in columns of the bytes on each line."""


@dataclass(frozen=True)
class Frame:
    """A frame that one node sent to another; `body` excludes the frame's length field."""

    time_us: int
    source: str
    target: str
    body: bytes

    @property
    def is_pulsars(self) -> bool:
        """Return whether the frame belongs to Pulsar's protocol rather than BookKeeper's."""
        ends = {self.source, self.target}
        brokers = [end for end in ends if end.startswith("broker")]
        return bool(brokers) and not any(end[:1] == "b" for end in ends.difference(brokers))

    @property
    def is_command(self) -> bool:
        """Return whether the frame is a Pulsar command other than the handshake."""
        return self.is_pulsars and not self._what().startswith("CONNECT")

    @property
    def is_request(self) -> bool:
        """Return whether the frame is a request to a bookie."""
        return self.target[:1] == "b" and self.target[1:].isdigit()

    @property
    def name(self) -> str:
        """Return the name that scripts use for the frame."""
        return f"{self.source}>{self.target} {self._what()}"

    def words(self) -> str:
        """Return a one-line description of a Pulsar command."""
        command, message = decode_frame(self.body)
        rest = f" and {len(message)} bytes of message" if message else ""
        return f"{self.name} {_in_words(body_of(command))}{rest}".rstrip()

    def lines(self) -> Iterator[str]:
        """Yield the bytes of the frame with the names and values of its fields."""
        data = _LENGTH.pack(len(self.body)) + self.body
        length = Span("frame length", 0, _LENGTH.size, str(len(self.body)), "")
        spans = [replace(span, offset=span.offset + _LENGTH.size) for span in self._spans()]
        for span in (length, *spans):
            rows = [
                data[at : min(at + _ROW_BYTES, span.offset + span.size)].hex(" ")
                for at in range(span.offset, span.offset + span.size, _ROW_BYTES)
            ]
            yield f"{rows[0]:<{BYTES_WIDTH}}{span.name}: {span.value}"
            yield from rows[1:]

    def _what(self) -> str:
        if self.is_pulsars:
            return BaseCommand.Type.Name(decode_frame(self.body)[0].type)
        opcode = Opcode(self.body[1])
        at = ADD_REQUEST.size if self.is_request and opcode == Opcode.ADD else 0
        layout_at = at + 8 if at else (12 if self.is_request else 16)
        (entry_id,) = struct.unpack_from(">q", self.body, layout_at)
        return f"{opcode.name} {entry_id}"

    def _spans(self) -> Sequence[Span]:
        if self.is_pulsars:
            return self._pulsar_spans()
        opcode = Opcode(self.body[1])
        layout = RESPONSE
        if self.is_request:
            layout = ADD_REQUEST if opcode == Opcode.ADD else READ_REQUEST
        spans = [_in_hex(span) for span in layout.spans(self.body)]
        spans[0] = replace(spans[0], value=_header_in_words(self.body))
        rest = self.body[layout.size :]
        if len(rest) == MASTER_KEY_SIZE:
            return *spans, Span("master key", layout.size, len(rest), "SHA-1 of the password", "")
        return (*spans, *entry_spans(rest, layout.size, _DIGEST_SIZE)) if rest else spans

    def _pulsar_spans(self) -> Sequence[Span]:
        (size,) = _LENGTH.unpack_from(self.body)
        begin = _LENGTH.size
        spans = [Span("command length", 0, begin, str(size), "")]
        spans += field_spans(BaseCommand.DESCRIPTOR, {}, self.body, begin, begin + size)
        if message := self.body[begin + size :]:
            parts = parse_message(message, -1).spans
            spans += [replace(span, offset=span.offset + begin + size) for span in parts]
        return spans


def _in_words(message: Message) -> str:
    """Describe the fields that are set. Message ids are written as ledger:entry."""
    if isinstance(message, MessageIdData):
        return "{}:{}".format(*position_of(message))
    return " ".join(
        f"{field.name}={_value(field, each)}"
        for field, value in message.ListFields()
        for each in (value if field.is_repeated else (value,))
    )


def _value(field: FieldDescriptor, value: Any) -> str:
    if isinstance(value, MessageIdData):
        return _in_words(value)
    if isinstance(value, Message):
        return f"({_in_words(value)})"
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    return str(value)


def _header_in_words(body: bytes) -> str:
    version, opcode = body[0], Opcode(body[1])
    header = int.from_bytes(body[:4], "big")
    flags = [flag.name for flag in Flag if (header & 0xFFFF) & flag]
    assert header == packet_header(opcode, sum(Flag[name] for name in flags))
    return f"version {version}, {opcode.name}, flags {'+'.join(flags) or 'none'}"


def _in_hex(span: Span) -> Span:
    """Describe the master key in words, because its value would only repeat the bytes."""
    return replace(span, value="SHA-1 of the password") if span.name == "master key" else span


@contextmanager
def heard() -> Iterator[list[Frame]]:
    """Collect every frame that the nodes of a simulated run send, in order."""
    frames: list[Frame] = []
    send = NetworkLink.send

    def listen(link: NetworkLink, receiver: Any, bodies: list[Any], context: Any) -> bool:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        now_us = loop.now_us()
        frames.extend(
            # Skip messages of the metadata store, because the simulation passes them as objects,
            # and their real protocol is ZooKeeper's.
            Frame(now_us, link.source, link.target, body)
            for body in bodies
            if isinstance(body, bytes)
        )
        return send(link, receiver, bodies, context)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NetworkLink, "send", listen)
        yield frames
