"""Tests for the byte layout of a frame."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.broker.protocol.frames import (
    FrameError,
    UnknownCommandError,
    decode_frame,
    encode_frame,
    message_id_data,
    position_of,
)
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandLookupTopic,
    CommandPing,
    CommandProducer,
    CommandSend,
)
from labkit.system.topic.messages import OutgoingMessage, encode_message

MESSAGE = encode_message(OutgoingMessage(b"hello", "", 0, (), 7), "producer", 1)
SEND = BaseCommand(type=BaseCommand.SEND, send=CommandSend(producer_id=1, sequence_id=7))


def test_a_frame_is_the_size_of_its_command_the_command_and_a_message() -> None:
    ping = BaseCommand(type=BaseCommand.PING, ping=CommandPing())
    assert encode_frame(ping) == bytes.fromhex("00000005 0812 920100")
    assert encode_frame(SEND, MESSAGE).endswith(MESSAGE)


@given(st.binary(max_size=100))
def test_a_frame_comes_back_as_it_was(message: bytes) -> None:
    assert decode_frame(encode_frame(SEND, message)) == (SEND, message)


@given(st.binary(max_size=60))
def test_bytes_that_are_not_a_frame_are_rejected_by_name(data: bytes) -> None:
    try:
        command, rest = decode_frame(data)
    except FrameError:
        return
    assert encode_frame(command, rest)[-len(rest) or len(data) :] == rest


@pytest.mark.parametrize("size", [0, 100, 2**32 - 1])
def test_a_command_that_is_not_there_is_rejected(size: int) -> None:
    with pytest.raises(FrameError):
        decode_frame(struct.pack(">I", size))


def test_a_command_without_its_fields_is_rejected() -> None:
    with pytest.raises(FrameError, match="SEND has no body"):
        decode_frame(encode_frame(BaseCommand(type=BaseCommand.SEND)))


def test_invalid_text_is_rejected() -> None:
    lookup = CommandLookupTopic(topic="topic", request_id=1)
    listed = CommandProducer(topic="t", producer_id=1, request_id=2)
    listed.metadata.add(key="colour", value="blue")
    for command, text in (
        (BaseCommand(type=BaseCommand.LOOKUP, lookupTopic=lookup), b"topic"),
        (BaseCommand(type=BaseCommand.PRODUCER, producer=listed), b"blue"),
    ):
        frame = encode_frame(command)
        assert decode_frame(frame) == (command, b"")
        with pytest.raises(FrameError, match="text that is not valid UTF-8"):
            decode_frame(frame.replace(text, b"\xff" * len(text)))


@pytest.mark.parametrize(
    ("content", "request_id"), [(b"\x08\x07\x10\x01", 7), (b"\x12\x01a", None)]
)
def test_a_later_command_is_known_by_its_request(content: bytes, request_id: int | None) -> None:
    command = b"\x08\x64" + b"\xa2\x06" + bytes([len(content)]) + content
    with pytest.raises(UnknownCommandError, match="type 100") as unknown:
        decode_frame(struct.pack(">I", len(command)) + command)
    assert unknown.value.request_id == request_id


@pytest.mark.parametrize("position", [(0, 0), (5, -1), (-1, -1), (2**63 - 1, 2**63 - 1)])
def test_a_position_comes_back_from_unsigned_fields(position: tuple[int, int]) -> None:
    data = message_id_data(position, 2, 3)
    assert position_of(data) == position
    assert (data.partition, data.batch_index) == (2, 3)


def test_absent_fields_are_left_out() -> None:
    assert message_id_data((7, 8)).SerializeToString() == bytes.fromhex("0807 1008")
