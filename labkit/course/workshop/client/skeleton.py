"""My BookKeeper client.

    labkit workshop client        the steps
    labkit workshop client 1      describes step 1 and tests this file

Your client can use `Cluster` to send requests to individual bookies, and to read and write the
ledger's metadata with their version. You decide which bookies to ask, how many responses are enough
and what an error proves. You can change anything in this file except the names and parameters.

What you can do with `cluster`; `help(Cluster)` says which errors each call raises:

    cluster.ledger_id
    cluster.spawn(coroutine)                                runs it concurrently
    await cluster.add_entry(bookie, entry)                  returns once the entry is durable there
    await cluster.read_entry(bookie, entry_id)              returns the bookie's copy
    await cluster.read_last_entry(bookie)                   the copy with the highest id
    await cluster.writable_bookies()                        names, sorted
    await cluster.read_metadata()                           (metadata, version)
    await cluster.write_metadata(metadata, version)         returns the new version

With `fence=True`, the two reads also fence the ledger on that bookie. With `recovery=True`,
`add_entry` is accepted by a fenced bookie.

What a ledger's metadata contain; they never change, so make new ones with `replace`:

    metadata.ensemble_size, .write_quorum, .ack_quorum      E, Qw, Qa
    metadata.segments                                       Segment(first_entry_id, ensemble), ...
    metadata.ensemble_at(entry_id)                          the ensemble of the entry's segment
    metadata.state                                          LedgerState.OPEN, IN_RECOVERY or CLOSED
    metadata.last_entry_id, .length                         of a closed ledger
    replace(metadata, segments=...)                         the same, but with other segments
    metadata.closed(last_entry_id, length)                  the same, but closed

`asyncio` works as usual, in simulated time. A set of strings has a different order in each
process, so iterate over lists and dictionaries instead; otherwise runs are not reproducible.
"""

import asyncio
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass, field, replace

from labkit.course.workshop.client.api import (
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
    """Return the ensemble indexes (from 0) of the bookies that store the entry."""
    raise NotImplementedError


@dataclass
class PendingAdd:
    """An entry that is not confirmed yet; its `add` waits for `confirmed`."""

    entry: Entry
    confirmed: "asyncio.Future[int]"
    acked: list[int] = field(default_factory=list)


class Writer:
    """The only writer of a ledger."""

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
        """The bookies that store new entries."""
        return self.metadata.segments[-1].ensemble

    async def add(self, payload: bytes) -> int:
        """Append an entry, and return its id once it is confirmed.

        `Entry(ledger_id, entry_id, last_add_confirmed, length, payload)`: `length` is the total
        size in bytes of the ledger's payloads up to and including this entry.
        """
        raise NotImplementedError

    # Step 4: replace a bookie that failed

    # Step 5: close the ledger, and handle being fenced

    async def close(self) -> None:
        """Close the ledger at LastAddConfirmed; adds that are not confirmed yet fail."""
        raise NotImplementedError


# Step 2: how far a ledger can be read


class Reader:
    """Reads a ledger that may still be growing."""

    def __init__(self, cluster: Cluster, metadata: LedgerMetadata) -> None:
        self.cluster = cluster
        self.metadata = metadata
        self.last_add_confirmed = NO_ENTRY_ID

    async def read_last_add_confirmed(self) -> int:
        """Return the id of the last entry that can be read, or -1 if there is none yet."""
        raise NotImplementedError

    # Step 3: read an entry, and know what a response proves

    async def read_entry(self, entry_id: int) -> Entry:
        """Return an entry up to LastAddConfirmed, from the first bookie that returns it."""
        raise NotImplementedError


# Step 6: recover a ledger whose writer is gone


async def recover(cluster: Cluster) -> LedgerMetadata:
    """Close the ledger `cluster.ledger_id` at its last entry, and return its closed metadata."""
    raise NotImplementedError


# Step 7: a program on a live cluster


async def create_ledger(
    ledgers: Ledgers, ensemble_size: int, write_quorum: int, ack_quorum: int
) -> Writer:
    """Store a new ledger's metadata, and return its writer.

    Raises `BKNotEnoughBookiesException` if fewer than `ensemble_size` bookies are writable.
    """
    raise NotImplementedError


async def append_all(
    writer: Writer,
    payloads: AsyncIterable[bytes],
    confirmed: Callable[[int], None],
    window: int,
) -> None:
    """Add all payloads, with at most `window` of them unconfirmed at a time, and close the ledger.

    Calls `confirmed` with the id of each entry once it is confirmed, in order of the ids. If an
    add fails, raises that error at once, even while waiting for the next payload, and leaves the
    ledger open.
    """
    raise NotImplementedError


async def take_over(ledgers: Ledgers, ledger_id: int) -> list[Entry]:
    """Recover the ledger, no matter what its writer does, and read all of it."""
    raise NotImplementedError
