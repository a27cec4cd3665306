"""A stored entry for dispatch: its position, its number of messages, its metadata.

The bytes go to the client as they were stored, without the broker's own metadata in front.

In Pulsar: `AbstractBaseDispatcher.filterEntriesForConsumer`, `common/protocol/Commands.java`.
"""

from dataclasses import dataclass

from labkit.system.model.errors import BKDigestMatchException
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.chain.chain_reader import StoredEntry
from labkit.system.topic.messages import decode_metadata, without_broker_part


@dataclass(frozen=True, slots=True)
class MessageEntry:
    """`data` is what follows the command in a MESSAGE."""

    position: Position
    data: bytes
    metadata: MessageMetadata
    message_count: int


def read_entry(stored: StoredEntry) -> MessageEntry:
    """Decode a stored entry.  If its metadata cannot be read, it counts as one message: the client
    then finds its checksum wrong and reports it.
    """
    data = without_broker_part(stored.data)
    try:
        metadata = decode_metadata(data)
    except BKDigestMatchException:
        metadata = MessageMetadata()
    return MessageEntry(stored.position, data, metadata, max(metadata.num_messages_in_batch, 1))
