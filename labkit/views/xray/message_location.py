"""Classes that describe where a message is stored, from its MessageID down to bytes in files."""

from dataclasses import dataclass

from labkit.system.model.ledger import LedgerMetadata
from labkit.system.model.message_id import MessageId
from labkit.views.xray.byte_region import Piece


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A ledger in the partition's chain; `entry_count` is None while the ledger is open."""

    ledger_id: int
    entry_count: int | None


@dataclass(frozen=True, slots=True)
class EntryCopy:
    """A bookie's copy of an entry. `piece` contains the stored bytes, starting with the entry's
    length field. If the copy is missing, `piece.absent` says why.
    """

    bookie: str
    piece: Piece


@dataclass(frozen=True, slots=True)
class Lineage:
    """Every step from a message's id to its bytes on the bookies' disks.

    `topic` is the full name of the partition, or of a topic that is not partitioned
    (`partition_count` is 0). `batch_size` is 0 if the entry is a single message instead of a
    batch. In each copy, the message occupies `size` bytes, starting at `offset`. `copies` are in
    the order of the write set.
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
