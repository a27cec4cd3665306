"""My client of BookKeeper.

    labkit workshop client        the steps
    labkit workshop client 1      what step 1 asks for, and whether this file does it

What your client can ask for is `Cluster`: requests to single bookies, and the ledger's metadata
with their version; `help(Cluster)` shows the contract of each call. Which bookies to ask, how many
answers are enough and what an error proves is yours to write. What is written here may be changed
as you go on, all but the names and arguments.

`asyncio` works as usual, in simulated time. A set of texts has another order in each process: go
through lists and dictionaries instead, or a run is not the same twice.
"""

import asyncio
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass, field

from labkit.course.workshop.client.api import (  # noqa: F401 - the steps use them one after the other
    NO_ENTRY_ID,
    PROVES_ABSENCE,
    BKException,
    BKLedgerClosedException,
    BKLedgerFencedException,
    BKLedgerRecoveryException,
    BKMetadataVersionException,
    BKNotEnoughBookiesException,
    BKReadException,
    Cluster,
    Entry,
    LabkitError,
    LedgerMetadata,
    Ledgers,
    LedgerState,
    Segment,
)

# Step 1: append to a quorum


def write_set(entry_id: int, ensemble_size: int, write_quorum: int) -> list[int]:
    """The places, from 0, in the ensemble of the bookies that store the entry."""
    raise NotImplementedError


@dataclass
class PendingAdd:
    """An entry that is not confirmed yet; `confirmed` is what its `add` waits for."""

    entry: Entry
    confirmed: "asyncio.Future[int]"
    acked: list[int] = field(default_factory=list)


class Writer:
    """The one writer of a ledger."""

    def __init__(self, cluster: Cluster, metadata: LedgerMetadata, version: int) -> None:
        self.cluster = cluster
        self.metadata = metadata
        self.version = version
        self.last_add_pushed = NO_ENTRY_ID
        self.last_add_confirmed = NO_ENTRY_ID
        self.length = 0
        self.pending: list[PendingAdd] = []

    @property
    def ensemble(self) -> tuple[str, ...]:
        """The bookies that new entries go to."""
        return self.metadata.segments[-1].ensemble

    async def add(self, payload: bytes) -> int:
        """Append an entry; returns its id once it is confirmed.

        `Entry(ledger_id, entry_id, last_add_confirmed, length, payload)`: `length` counts the
        ledger's payload bytes up to and with this entry.
        """
        raise NotImplementedError

    # Step 4: another bookie takes the place of one that failed

    # Step 5: close, and be fenced

    async def close(self) -> None:
        """Fix the ledger's end at LastAddConfirmed; adds that are not confirmed by then fail."""
        raise NotImplementedError


# Step 2: how far a ledger can be read


class Reader:
    """Reads a ledger that may still grow."""

    def __init__(self, cluster: Cluster, metadata: LedgerMetadata) -> None:
        self.cluster = cluster
        self.metadata = metadata

    async def read_last_add_confirmed(self) -> int:
        """The id of the last entry that can be read; -1: none yet."""
        raise NotImplementedError

    # Step 3: read an entry, and know what an answer proves

    async def read_entry(self, entry_id: int) -> Entry:
        """An entry up to LastAddConfirmed, from the first bookie that gives it."""
        raise NotImplementedError


# Step 6: recover a ledger whose writer is gone


async def recover(cluster: Cluster) -> LedgerMetadata:
    """Close the ledger `cluster.ledger_id` behind its last entry; returns its closed metadata."""
    raise NotImplementedError


# Step 7: a program on a live cluster


async def create_ledger(
    ledgers: Ledgers, ensemble_size: int, write_quorum: int, ack_quorum: int
) -> Writer:
    """Store a new ledger's metadata; returns its writer.

    Raises `BKNotEnoughBookiesException` where fewer than `ensemble_size` bookies take writes.
    """
    raise NotImplementedError


async def append_all(
    writer: Writer,
    payloads: AsyncIterable[bytes],
    confirmed: Callable[[int], None],
    window: int,
) -> None:
    """Add all payloads, at most `window` of them unconfirmed at a time, and close the ledger.

    Calls `confirmed` with the id of each entry once it is confirmed, in the order of the ids. Where
    an add fails it raises that error at once, also while it waits for the next payload, and leaves
    the ledger as it is.
    """
    raise NotImplementedError


async def take_over(ledgers: Ledgers, ledger_id: int) -> list[Entry]:
    """Recover the ledger, whatever its writer does, and read all of it."""
    raise NotImplementedError
