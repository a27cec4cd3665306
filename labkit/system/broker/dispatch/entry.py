"""A stored entry with its decoded metadata.

If the broker cannot decode an entry's metadata, no client can decode the entry either, so
dispatchers acknowledge it instead of sending it.

Consumers receive the bytes as they were stored, without the broker's own metadata prefix.

In Pulsar: `AbstractBaseDispatcher.filterEntriesForConsumer`, `common/protocol/Commands.java`.
"""

from dataclasses import dataclass

from labkit.system.model.errors import BKDigestMatchException
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata
from labkit.system.topic.chain.chain_reader import StoredEntry
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.messages import decode_metadata, strip_broker_metadata


@dataclass(frozen=True, slots=True)
class MessageEntry:
    """`data` is the part of a MESSAGE frame that follows the command. If its metadata cannot be
    decoded, `error` is set, and the entry counts as one message without metadata.
    """

    position: Position
    data: bytes
    metadata: MessageMetadata
    message_count: int
    error: BKDigestMatchException | None


def bytes_of(text: str | bytes) -> bytes:
    """Encode a string field, unless protobuf has left it as bytes because it is not UTF-8."""
    return text if isinstance(text, bytes) else text.encode()


def read_entry(stored: StoredEntry) -> MessageEntry:
    data, problem = strip_broker_metadata(stored.data), None
    try:
        metadata = decode_metadata(data)
    except BKDigestMatchException as error:
        metadata, problem = MessageMetadata(), error
    count = max(metadata.num_messages_in_batch, 1)
    return MessageEntry(stored.position, data, metadata, count, problem)
