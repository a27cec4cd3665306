"""Where a message lies, from its MessageID down to bytes in files: what was found, as values."""

from dataclasses import dataclass

from labkit.system.model.byte_region import Piece
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.model.message_id import MessageId


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A ledger of the partition's chain; `entry_count` is None while it is open."""

    ledger_id: int
    entry_count: int | None


@dataclass(frozen=True, slots=True)
class EntryCopy:
    """The entry on a bookie of its write set.

    `piece` is where it lies, length word first; without data it says in `absent` why there is none.
    """

    bookie: str
    piece: Piece


@dataclass(frozen=True, slots=True)
class Lineage:
    """A message's way from its id to the disks.

    `topic` is the full name of the partition, or of the topic that has none (`partition_count` 0).
    `last_entry_id` is the newest entry of the ledger that is known.  `batch_size` is 0 where the
    entry is one message and no batch.  The message has `size` bytes from `offset` of each copy on.
    `copies` are in the order of the write set.
    """

    message_id: MessageId
    topic: str
    partition_count: int
    chain: tuple[ChainLink, ...]
    metadata: LedgerMetadata
    last_entry_id: int
    batch_size: int
    offset: int
    size: int
    copies: tuple[EntryCopy, ...]
