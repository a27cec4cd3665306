"""What a dispatcher must know of a stored entry: where it lies, how many messages, their metadata.

The bytes go to the client as they were stored; only a broker's own stamp in front stays behind.

In Pulsar: `AbstractBaseDispatcher.filterEntriesForConsumer`, `common/protocol/Commands.java`.
"""

import struct
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from labkit.model.proto.pulsar_pb2 import MessageMetadata
from labkit.topic.chain import Position
from labkit.topic.chain_reader import StoredEntry

_BROKER_MAGIC = b"\x0e\x02"
_CHECKSUM_MAGIC = b"\x0e\x01"
_CHECKSUM_SIZE = 4
_SIZE = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Entry:
    """`data` is what stands behind the command in a MESSAGE."""

    position: Position
    data: bytes
    metadata: MessageMetadata
    message_count: int


def read_entry(stored: StoredEntry) -> Entry:
    """Look into a stored entry.  One whose metadata cannot be read counts as one message: the
    client finds its checksum wrong and says so.
    """
    data = stored.data
    try:
        if data.startswith(_BROKER_MAGIC):
            after_magic = len(_BROKER_MAGIC)
            data = data[after_magic + _SIZE.size + _SIZE.unpack_from(data, after_magic)[0] :]
        at = len(_CHECKSUM_MAGIC) + _CHECKSUM_SIZE if data.startswith(_CHECKSUM_MAGIC) else 0
        start = at + _SIZE.size
        metadata = MessageMetadata.FromString(data[start : start + _SIZE.unpack_from(data, at)[0]])
    except (DecodeError, struct.error):
        metadata = MessageMetadata()
    return Entry(stored.position, data, metadata, max(metadata.num_messages_in_batch, 1))
