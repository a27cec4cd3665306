"""Frames: a command, followed in SEND and MESSAGE by a message as it is stored.

    size (u32), BaseCommand, message
    message: 0x0e01, CRC32C (u32) of all that follows, size of the metadata (u32), metadata, payload

In Pulsar: `common/protocol/Commands.java`.
"""

import struct
from contextlib import suppress

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, CommandNotServed, MessageIdData
from labkit.system.topic.chain.chain import Position

_SIZE = struct.Struct(">I")
_SIZE_SIZE = _SIZE.size
_SIGN = 1 << 63
_FIELDS = {field.number: field.name for field in BaseCommand.DESCRIPTOR.fields}
_WITHOUT_TEXT = frozenset(
    (
        BaseCommand.SEND,
        BaseCommand.ACK,
        BaseCommand.FLOW,
        BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES,
    )
)
"""Commands that hold no text; the first two come with every message."""

UNSIGNED = 0xFFFFFFFFFFFFFFFF
"""A number that may be -1, and-ed with this, fits an unsigned field."""
NO_REQUEST = UNSIGNED
"""The request id of a frame that answers no request."""


class FrameError(LabkitError):
    """The bytes are not a frame of Pulsar's."""


class UnknownCommandError(FrameError):
    """A command of a type that this broker does not know, such as a later Pulsar's.

    `request_id` is the request that the client expects an answer to, None if it expects none.
    """

    def __init__(self, kind: int, request_id: int | None) -> None:
        super().__init__(f"commands of type {kind} are not known here")
        self.request_id = request_id


def decode_frame(body: bytes) -> tuple[BaseCommand, bytes]:
    """The command, and the message after it.  Raises `FrameError`, `UnknownCommandError`."""
    try:
        end = _SIZE_SIZE + _SIZE.unpack_from(body)[0]
        if end > len(body):
            raise FrameError(f"a command that ends at byte {end}, in a frame of {len(body)} bytes")
        command = BaseCommand.FromString(body[_SIZE_SIZE:end])
    except (struct.error, DecodeError) as error:
        raise FrameError(f"not a command of Pulsar's: {error}") from None
    # It comes with every message, and to look through all of its fields would take twice as long.
    if command.type == BaseCommand.SEND and command.send.IsInitialized():
        return command, body[end:]
    if not command.HasField("type"):
        raise _unknown(command)
    if not command.IsInitialized():
        raise FrameError("a command without all of its fields")
    _check(command)
    return command, body[end:]


def _unknown(command: BaseCommand) -> FrameError:
    """The error for a command whose type is unknown or missing."""
    unknown = UnknownFieldSet(command)
    fields = {unknown[at].field_number: unknown[at].data for at in range(len(unknown))}
    kind = fields.get(BaseCommand.TYPE_FIELD_NUMBER)
    if not isinstance(kind, int):
        return FrameError("a command without its type")
    request_id = None
    if isinstance(content := fields.get(kind), bytes):
        # All requests added to Pulsar in recent years have their id in the first field.
        with suppress(DecodeError):
            asked = CommandNotServed.FromString(content)
            request_id = asked.request_id if asked.HasField("request_id") else None
    return UnknownCommandError(kind, request_id)


def _check(command: BaseCommand) -> None:
    """Raises `FrameError` for a command without its own field, and for invalid text.

    protobuf returns text that is not UTF-8 as bytes.
    """
    body = _FIELDS[command.type]
    if not command.HasField(body):
        raise FrameError(f"{BaseCommand.Type.Name(command.type)} without its fields")
    if command.type not in _WITHOUT_TEXT and not _is_text(getattr(command, body)):
        raise FrameError(f"{BaseCommand.Type.Name(command.type)} with text that is not UTF-8")


def _is_text(message: Message) -> bool:
    for field, value in message.ListFields():
        values = value if field.is_repeated else (value,)
        if field.type == FieldDescriptor.TYPE_STRING:
            if not all(isinstance(each, str) for each in values):
                return False
        elif field.type == FieldDescriptor.TYPE_MESSAGE and not all(map(_is_text, values)):
            return False
    return True


def encode_frame(command: BaseCommand, message: bytes = b"") -> bytes:
    """The inverse."""
    data = command.SerializeToString()
    return b"".join((_SIZE.pack(len(data)), data, message))


def body_of(command: BaseCommand) -> Message:
    """The command's own message, without the type."""
    body: Message = getattr(command, _FIELDS[command.type])
    return body


def message_id_data(
    position: Position, partition: int = -1, batch_index: int = -1
) -> MessageIdData:
    """A position on the wire, with -1 for "none" or "before the first"; partition and index are
    omitted where they do not apply.
    """
    ledger_id, entry_id = position
    data = MessageIdData(ledgerId=ledger_id & UNSIGNED, entryId=entry_id & UNSIGNED)
    if partition >= 0:
        data.partition = partition
    if batch_index >= 0:
        data.batch_index = batch_index
    return data


def position_of(data: MessageIdData) -> Position:
    """The inverse, without partition and index: -1 is 2**64 - 1 on the wire."""
    return _signed(data.ledgerId), _signed(data.entryId)


def _signed(number: int) -> int:
    return number - UNSIGNED - 1 if number >= _SIGN else number
