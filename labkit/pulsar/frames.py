"""What a frame holds: a command, and in SEND and MESSAGE a message behind it, as it is stored.

    size (u32), BaseCommand, message
    message: 0x0e01, CRC32C (u32) of all that follows, size of the metadata (u32), metadata, payload

In Pulsar: `common/protocol/Commands.java`.
"""

import struct

from google.protobuf.message import DecodeError, Message

from labkit.model.errors import LabkitError
from labkit.model.proto.pulsar_pb2 import BaseCommand, MessageIdData
from labkit.topic.chain import Position

_SIZE = struct.Struct(">I")
_SIZE_SIZE = _SIZE.size
_SIGN = 1 << 63

UNSIGNED = 0xFFFFFFFFFFFFFFFF
"""And-ed with a number that may be -1, gives what an unsigned field holds of it."""
NO_REQUEST = UNSIGNED
"""The request id of what nobody asked for."""


class FrameError(LabkitError):
    """The bytes are no frame of Pulsar's."""


def decode_frame(body: bytes) -> tuple[BaseCommand, bytes]:
    """The command, and the message behind it.  Raises `FrameError`."""
    try:
        end = _SIZE_SIZE + _SIZE.unpack_from(body)[0]
        if end > len(body):
            raise FrameError(f"a command that ends at byte {end}, in a frame of {len(body)} bytes")
        command = BaseCommand.FromString(body[_SIZE_SIZE:end])
    except (struct.error, DecodeError) as error:
        raise FrameError(f"no command of Pulsar's: {error}") from None
    if not command.IsInitialized():
        raise FrameError("a command without all of its fields")
    return command, body[end:]


def encode_frame(command: BaseCommand, message: bytes = b"") -> bytes:
    """The inverse."""
    data = command.SerializeToString()
    return b"".join((_SIZE.pack(len(data)), data, message))


def body_of(command: BaseCommand) -> Message:
    """What the command says, without its type.  Raises `FrameError` if it says nothing."""
    for field, value in command.ListFields():
        if field.number == command.type:
            body: Message = value
            return body
    raise FrameError(f"{BaseCommand.Type.Name(command.type)} without its fields")


def message_id_data(
    position: Position, partition: int = -1, batch_index: int = -1
) -> MessageIdData:
    """A position on the wire, of -1 where Pulsar says "none" or "before the first"; partition and
    index are left out where there is none.
    """
    ledger_id, entry_id = position
    data = MessageIdData(ledgerId=ledger_id & UNSIGNED, entryId=entry_id & UNSIGNED)
    if partition >= 0:
        data.partition = partition
    if batch_index >= 0:
        data.batch_index = batch_index
    return data


def position_of(data: MessageIdData) -> Position:
    """The inverse, without partition and index: on the wire -1 is 2**64 - 1."""
    return _signed(data.ledgerId), _signed(data.entryId)


def _signed(number: int) -> int:
    return number - UNSIGNED - 1 if number >= _SIGN else number
