"""My BookKeeper client: the reference solution of the track."""

import asyncio
from collections import deque
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
    return [(entry_id + i) % ensemble_size for i in range(write_quorum)]


@dataclass
class PendingAdd:
    entry: Entry
    confirmed: "asyncio.Future[int]"
    sent_to: dict[int, str] = field(default_factory=dict)
    acked: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)


class Writer:
    def __init__(self, cluster: Cluster, metadata: LedgerMetadata, version: int) -> None:
        self.cluster = cluster
        self.metadata = metadata
        self.version = version
        self.last_add_pushed = NO_ENTRY_ID
        self.last_add_confirmed = NO_ENTRY_ID
        self.length = 0
        self.length_confirmed = 0
        self.pending: deque[PendingAdd] = deque()
        self.failed: list[str] = []
        self.given_up: list[str] = []
        self.is_changing = False
        self.ended_by: LabkitError | None = None

    @property
    def ensemble(self) -> tuple[str, ...]:
        return self.metadata.segments[-1].ensemble

    async def add(self, payload: bytes) -> int:
        if self.ended_by is not None:
            raise self.ended_by
        self.last_add_pushed += 1
        self.length += len(payload)
        entry = Entry(
            self.cluster.ledger_id,
            self.last_add_pushed,
            self.last_add_confirmed,
            self.length,
            payload,
        )
        pending = PendingAdd(entry, asyncio.get_running_loop().create_future())
        self.pending.append(pending)
        for place in self.places(entry.entry_id):
            self.send(pending, place)
        return await pending.confirmed

    def places(self, entry_id: int) -> list[int]:
        return write_set(entry_id, self.metadata.ensemble_size, self.metadata.write_quorum)

    def send(self, pending: PendingAdd, place: int) -> None:
        bookie = pending.sent_to[place] = self.ensemble[place]
        self.cluster.spawn(self.add_to(pending, place, bookie))

    async def add_to(self, pending: PendingAdd, place: int, bookie: str) -> None:
        try:
            await self.cluster.add_entry(bookie, pending.entry)
        except BKLedgerFencedException as error:
            self.end(error)
        except BKException:
            self.bookie_failed(bookie)
            if pending.sent_to[place] == bookie:
                pending.failed.append(place)
        else:
            if pending.sent_to[place] == bookie:
                pending.acked.append(place)
                self.confirm()

    def confirm(self) -> None:
        """Confirm entries in order, while the next one has Qa acknowledgements."""
        if self.is_changing or self.ended_by is not None:
            return
        while self.pending and len(self.pending[0].acked) >= self.metadata.ack_quorum:
            pending = self.pending.popleft()
            self.last_add_confirmed = pending.entry.entry_id
            self.length_confirmed = pending.entry.length
            pending.confirmed.set_result(pending.entry.entry_id)

    # Step 4: ensemble change

    def bookie_failed(self, bookie: str) -> None:
        if self.ended_by is not None or bookie not in self.ensemble or bookie in self.failed:
            return
        self.failed.append(bookie)
        if not self.is_changing:
            self.is_changing = True
            self.cluster.spawn(self.change_ensemble())

    async def change_ensemble(self) -> None:
        try:
            while self.failed and self.ended_by is None:
                # An add that was sent during the last change may have failed on a replaced bookie.
                failed = [each for each in self.failed if each in self.ensemble]
                self.failed = []
                self.given_up += failed
                await self.replace_bookies(failed)
        except LabkitError as error:
            self.end(error)
        self.is_changing = False
        for pending in self.pending:
            for place in self.places(pending.entry.entry_id):
                if self.ensemble[place] != pending.sent_to[place]:
                    self.send_again(pending, place)
        if any(map(self.is_blocked, self.pending)):
            names = ", ".join(self.given_up)
            self.end(BKNotEnoughBookiesException(f"{names} failed, and no other is writable"))
        self.confirm()

    async def replace_bookies(self, failed: list[str]) -> None:
        """Store an ensemble without these bookies, starting at LastAddConfirmed + 1."""
        unwanted = (*self.ensemble, *self.given_up)
        spare = [each for each in await self.cluster.writable_bookies() if each not in unwanted]
        others = dict(zip(failed, spare, strict=False))
        if not others:
            return
        ensemble = tuple(others.get(each, each) for each in self.ensemble)
        first = self.last_add_confirmed + 1
        earlier = [each for each in self.metadata.segments if each.first_entry_id < first]
        changed = replace(self.metadata, segments=(*earlier, Segment(first, ensemble)))
        try:
            self.version = await self.cluster.write_metadata(changed, self.version)
        except BKMetadataVersionException:
            raise BKLedgerFencedException("another client recovers this ledger") from None
        self.metadata = changed

    def send_again(self, pending: PendingAdd, place: int) -> None:
        """Send the entry to the new bookie at that index, and forget the old bookie's response."""
        pending.acked = [each for each in pending.acked if each != place]
        pending.failed = [each for each in pending.failed if each != place]
        self.send(pending, place)

    def is_blocked(self, pending: PendingAdd) -> bool:
        """Return whether fewer than Qa bookies of the entry's write set are left."""
        return len(pending.failed) > self.metadata.write_quorum - self.metadata.ack_quorum

    # Step 5: close the ledger, and handle being fenced

    def end(self, error: LabkitError) -> None:
        if self.ended_by is None:
            self.ended_by = error
        while self.pending:
            self.pending.popleft().confirmed.set_exception(error)

    async def close(self) -> None:
        self.end(BKLedgerClosedException("this writer has closed the ledger"))
        last = self.last_add_confirmed
        metadata = await close_at(
            self.cluster, self.metadata, self.version, last, self.length_confirmed
        )
        if metadata.last_entry_id != last:
            raise BKMetadataVersionException(
                f"another client closed the ledger at entry {metadata.last_entry_id}"
            )


async def close_at(
    cluster: Cluster, metadata: LedgerMetadata, version: int, last: int, length: int
) -> LedgerMetadata:
    """Close the ledger at entry `last` unless another client has closed it; return the closed
    metadata.
    """
    while metadata.state is not LedgerState.CLOSED:
        closed = metadata.closed(last, length)
        try:
            await cluster.write_metadata(closed, version)
            metadata = closed
        except BKMetadataVersionException:
            metadata, version = await cluster.read_metadata()
    return metadata


# Steps 2 and 3: read


class Reader:
    def __init__(self, cluster: Cluster, metadata: LedgerMetadata) -> None:
        self.cluster = cluster
        self.metadata = metadata
        self.last_add_confirmed = NO_ENTRY_ID

    async def read_last_add_confirmed(self) -> int:
        self.metadata, _ = await self.cluster.read_metadata()
        if self.metadata.state is LedgerState.CLOSED:
            return self.metadata.last_entry_id
        lac = await newest_lac(self.cluster, self.metadata)
        self.last_add_confirmed = max(self.last_add_confirmed, lac)
        return self.last_add_confirmed

    async def read_entry(self, entry_id: int) -> Entry:
        sizes = self.metadata.ensemble_size, self.metadata.write_quorum
        ensemble = self.metadata.ensemble_at(entry_id)
        errors: list[BKException] = []
        for place in write_set(entry_id, *sizes):
            try:
                return await self.cluster.read_entry(ensemble[place], entry_id)
            except BKException as error:
                errors.append(error)
        raise next((e for e in errors if not isinstance(e, PROVES_ABSENCE)), errors[0])


async def newest_lac(cluster: Cluster, metadata: LedgerMetadata, *, fence: bool = False) -> int:
    """Return the highest LastAddConfirmed in enough responses of the last ensemble's bookies."""
    ensemble = metadata.segments[-1].ensemble
    answers: asyncio.Queue[tuple[int, int | None]] = asyncio.Queue()

    async def ask(place: int) -> None:
        lac: int | None = None
        try:
            entry = await cluster.read_last_entry(ensemble[place], fence=fence)
            lac = entry.last_add_confirmed
        except PROVES_ABSENCE:
            lac = NO_ENTRY_ID
        except BKException:
            pass
        answers.put_nowait((place, lac))

    for place in range(len(ensemble)):
        cluster.spawn(ask(place))
    known: dict[int, int] = {}
    for _ in ensemble:
        place, lac = await answers.get()
        if lac is not None:
            known[place] = lac
        if is_covered(known, metadata):
            return max(known.values())
    raise BKReadException("too few bookies responded to determine LastAddConfirmed")


def is_covered(known: dict[int, int], metadata: LedgerMetadata) -> bool:
    """Return whether there are too few silent bookies to have acknowledged an entry on their
    own.
    """
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    for first in range(size):
        unknown = [place for place in write_set(first, size, quorum) if place not in known]
        if len(unknown) >= metadata.ack_quorum:
            return False
    return True


# Step 6: recovery


async def recover(cluster: Cluster) -> LedgerMetadata:
    metadata, version = await cluster.read_metadata()
    while metadata.state is LedgerState.OPEN:
        marked = replace(metadata, state=LedgerState.IN_RECOVERY)
        try:
            version = await cluster.write_metadata(marked, version)
            metadata = marked
        except BKMetadataVersionException:
            metadata, version = await cluster.read_metadata()
    if metadata.state is LedgerState.CLOSED:
        return metadata
    lac = await newest_lac(cluster, metadata, fence=True)
    lac = max(lac, metadata.segments[-1].first_entry_id - 1)
    last, length = lac, 0
    if lac != NO_ENTRY_ID:
        entry = await find(cluster, metadata, lac)
        if entry is None:
            raise BKLedgerRecoveryException(f"entry {lac} was confirmed but cannot be read")
        length = entry.length
    while (entry := await find(cluster, metadata, last + 1)) is not None:
        await write_back(cluster, metadata, replace(entry, last_add_confirmed=lac))
        last, length = entry.entry_id, entry.length
    return await close_at(cluster, metadata, version, last, length)


async def find(cluster: Cluster, metadata: LedgerMetadata, entry_id: int) -> Entry | None:
    """Return the entry, or None if it cannot have been confirmed."""
    ensemble = metadata.ensemble_at(entry_id)
    places = write_set(entry_id, metadata.ensemble_size, metadata.write_quorum)
    answers: asyncio.Queue[Entry | BKException] = asyncio.Queue()

    async def ask(bookie: str) -> None:
        try:
            answers.put_nowait(await cluster.read_entry(bookie, entry_id, fence=True))
        except BKException as error:
            answers.put_nowait(error)

    for place in places:
        cluster.spawn(ask(ensemble[place]))
    denied = 0
    for _ in places:
        answer = await answers.get()
        if isinstance(answer, Entry):
            return answer
        denied += isinstance(answer, PROVES_ABSENCE)
        if denied > metadata.write_quorum - metadata.ack_quorum:
            return None
    raise BKLedgerRecoveryException(f"it is unknown whether entry {entry_id} was stored")


async def write_back(cluster: Cluster, metadata: LedgerMetadata, entry: Entry) -> None:
    """Store a recovered entry on its write set again; return when Qa bookies have it."""
    ensemble = metadata.ensemble_at(entry.entry_id)
    places = write_set(entry.entry_id, metadata.ensemble_size, metadata.write_quorum)
    answers: asyncio.Queue[bool] = asyncio.Queue()

    async def store(bookie: str) -> None:
        try:
            await cluster.add_entry(bookie, entry, recovery=True)
        except BKException:
            answers.put_nowait(False)
        else:
            answers.put_nowait(True)

    for place in places:
        cluster.spawn(store(ensemble[place]))
    acked = 0
    for _ in places:
        acked += await answers.get()
        if acked == metadata.ack_quorum:
            return
    raise BKLedgerRecoveryException(f"entry {entry.entry_id} could not be written back")


# Step 7: a program on a live cluster


async def create_ledger(
    ledgers: Ledgers, ensemble_size: int, write_quorum: int, ack_quorum: int
) -> Writer:
    bookies = await ledgers.writable_bookies()
    if len(bookies) < ensemble_size:
        raise BKNotEnoughBookiesException(f"{len(bookies)} of {ensemble_size} are writable")
    ledger_id = await ledgers.new_ledger_id()
    first = ledger_id % len(bookies)
    ensemble = tuple((bookies[first:] + bookies[:first])[:ensemble_size])
    metadata = LedgerMetadata(ensemble_size, write_quorum, ack_quorum, (Segment(0, ensemble),))
    version = await ledgers.create_metadata(ledger_id, metadata)
    return Writer(ledgers.cluster(ledger_id, metadata), metadata, version)


async def append_all(
    writer: Writer,
    payloads: AsyncIterable[bytes],
    confirmed: Callable[[int], None],
    window: int,
) -> None:
    room = asyncio.Semaphore(window)

    async def add(payload: bytes) -> None:
        confirmed(await writer.add(payload))
        room.release()

    try:
        async with asyncio.TaskGroup() as adds:
            async for payload in payloads:
                await room.acquire()
                adds.create_task(add(payload))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    await writer.close()


async def take_over(ledgers: Ledgers, ledger_id: int) -> list[Entry]:
    metadata, _ = await ledgers.read_metadata(ledger_id)
    cluster = ledgers.cluster(ledger_id, metadata)
    reader = Reader(cluster, await recover(cluster))
    return [await reader.read_entry(each) for each in range(reader.metadata.last_entry_id + 1)]
