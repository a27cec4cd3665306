"""Encodes and decodes frames. A frame contains a command, which in SEND and MESSAGE frames is
followed by a message in its stored form.

    size (u32), BaseCommand, message
    message: 0x0e01, CRC32C (u32) of the rest, size of the metadata (u32), metadata, payload

In Pulsar: `common/protocol/Commands.java`.
"""

import struct
from contextlib import suppress

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from labkit.system.model.errors import LabkitError
from labkit.system.model.message_id import signed
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, CommandNotServed, MessageIdData
from labkit.system.topic.chain.ledger_chain import Position

_SIZE = struct.Struct(">I")
_SIZE_BYTES = _SIZE.size
_FIELDS = {field.number: field.name for field in BaseCommand.DESCRIPTOR.fields}
_WITHOUT_TEXT = (
    BaseCommand.SEND,
    BaseCommand.ACK,
    BaseCommand.FLOW,
    BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES,
)
"""Frequent commands, whose text fields the broker does not read."""

UNSIGNED = 0xFFFFFFFFFFFFFFFF
"""A mask that converts -1 to the value of an unsigned 64-bit field."""
NO_REQUEST = UNSIGNED
"""The request id of a frame that is not a response."""


class FrameError(LabkitError):
    """The bytes are not a valid Pulsar frame."""


class UnknownCommandError(FrameError):
    """A command from a later version of Pulsar. `request_id` is None if no response is needed."""

    def __init__(self, kind: int, request_id: int | None) -> None:
        super().__init__(f"unknown command type {kind}")
        self.request_id = request_id


def decode_frame(body: bytes) -> tuple[BaseCommand, bytes]:
    """Return a command and the message that follows it, or raise `FrameError`."""
    try:
        end = _SIZE_BYTES + _SIZE.unpack_from(body)[0]
        if end > len(body):
            raise FrameError(
                f"command ends at byte {end}, but the frame has only {len(body)} bytes"
            )
        command = BaseCommand.FromString(body[_SIZE_BYTES:end])
    except (struct.error, DecodeError) as error:
        raise FrameError(f"not a Pulsar command: {error}") from None
    # SEND is the most frequent command, and checking all its fields would take twice as long.
    if command.type == BaseCommand.SEND and command.send.IsInitialized():
        return command, body[end:]
    if not command.HasField("type"):
        raise _unknown_command_error(command)
    if not command.IsInitialized():
        raise FrameError("command lacks required fields")
    _check_fields(command)
    return command, body[end:]


def _unknown_command_error(command: BaseCommand) -> FrameError:
    unknown = UnknownFieldSet(command)
    fields = {unknown[index].field_number: unknown[index].data for index in range(len(unknown))}
    kind = fields.get(BaseCommand.TYPE_FIELD_NUMBER)
    if not isinstance(kind, int):
        return FrameError("command has no type")
    request_id = None
    if isinstance(content := fields.get(kind), bytes):
        # In all requests that Pulsar has added in recent years, the request id is the first field.
        with suppress(DecodeError):
            request = CommandNotServed.FromString(content)
            request_id = request.request_id if request.HasField("request_id") else None
    return UnknownCommandError(kind, request_id)


def _check_fields(command: BaseCommand) -> None:
    """Raise `FrameError` if the command has no body, or contains invalid UTF-8."""
    body = _FIELDS[command.type]
    if not command.HasField(body):
        raise FrameError(f"{BaseCommand.Type.Name(command.type)} has no body")
    if command.type not in _WITHOUT_TEXT and not _has_valid_text(getattr(command, body)):
        raise FrameError(
            f"{BaseCommand.Type.Name(command.type)} contains text that is not valid UTF-8"
        )


def _has_valid_text(message: Message) -> bool:
    for field, value in message.ListFields():
        values = value if field.is_repeated else (value,)
        if field.type == FieldDescriptor.TYPE_STRING:
            # protobuf returns invalid UTF-8 as bytes.
            if not all(isinstance(each, str) for each in values):
                return False
        elif field.type == FieldDescriptor.TYPE_MESSAGE and not all(map(_has_valid_text, values)):
            return False
    return True


def encode_frame(command: BaseCommand, message: bytes = b"") -> bytes:
    data = command.SerializeToString()
    return b"".join((_SIZE.pack(len(data)), data, message))


def body_of(command: BaseCommand) -> Message:
    body: Message = getattr(command, _FIELDS[command.type])
    return body


def message_id_data(
    position: Position, partition: int = -1, batch_index: int = -1
) -> MessageIdData:
    """Encode a position, where -1 means "none". Negative partitions and indexes are omitted."""
    ledger_id, entry_id = position
    data = MessageIdData(ledgerId=ledger_id & UNSIGNED, entryId=entry_id & UNSIGNED)
    if partition >= 0:
        data.partition = partition
    if batch_index >= 0:
        data.batch_index = batch_index
    return data


def position_of(data: MessageIdData) -> Position:
    return signed(data.ledgerId), signed(data.entryId)
