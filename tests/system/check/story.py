"""A hand-written run, in which each call appends the events of one step, one millisecond apart."""

from zlib import crc32

from labkit.system.check import EPILOGUE, Verdict, check_all
from labkit.system.check.promise import Check
from labkit.system.trace.answers import (
    AddReturned,
    Answer,
    Content,
    EntriesRead,
    MarksFound,
    StepOutlastedRun,
)
from labkit.system.trace.events import Event, unnumbered_event
from labkit.system.trace.log import TraceLog

W, R = "writer", "recoverer"
B0, B1, B2, B3 = "b0", "b1", "b2", "b3"
LEDGER = 7
DENIED = "BKNoSuchEntryException"


def content(entry: int) -> str:
    """Return the checksum of the payload that the writer stores as this entry."""
    return f"{crc32(b'%d' % entry):08x}"


class Story:
    """Ledger 7, created by `writer` on b0, b1 and b2, with E = 3, Qw = 3 and Qa = 2 by default."""

    def __init__(
        self,
        ensemble_size: int = 3,
        write_quorum: int = 3,
        ack_quorum: int = 2,
        *ensemble: str,
        deferred_sync: bool = False,
        whole: bool = True,
    ) -> None:
        """With `whole`, the trace includes the creation of the ledger."""
        self.rows: list[Event] = []
        self.answers: list[Answer] = []
        self.waited_us = 0
        self.ensemble = ensemble or (B0, B1, B2)
        if whole:
            self.tell(
                W,
                "ledger.created",
                ensemble_size=ensemble_size,
                write_quorum=write_quorum,
                ack_quorum=ack_quorum,
                deferred_sync=deferred_sync,
            )
            self.tell(W, "ensemble.set", 0, ensemble=self.ensemble)

    def tell(self, node: str, kind: str, entry: int = -1, **fields: object) -> "Story":
        """Append one event."""
        number = fields.pop("ledger", -1 if kind.startswith("node.") else LEDGER)
        time_us = 1000 * (len(self.rows) + 1) + self.waited_us
        self.rows.append(unnumbered_event(time_us, node, kind, number, entry, **fields))  # type: ignore[arg-type]
        return self

    def wait(self, ms: int) -> "Story":
        """Let this time pass without any events."""
        self.waited_us += 1000 * ms
        return self

    def push(self, entry: int, node: str = W) -> "Story":
        return self.tell(node, "add.pushed", entry, checksum=content(entry))

    def send(self, entry: int, *bookies: str, node: str = W) -> "Story":
        for bookie in bookies:
            self.tell(node, "add.sent", entry, peer=bookie)
        return self

    def put(self, entry: int, *bookies: str) -> "Story":
        for bookie in bookies:
            self.tell(bookie, "memtable.put", entry)
            self.tell(bookie, "journal.appended", entry)
        return self

    def sync(self, entry: int, *bookies: str) -> "Story":
        for bookie in bookies:
            self.tell(bookie, "journal.synced", entry)
        return self

    def ack(self, entry: int, *bookies: str, node: str = W) -> "Story":
        for bookie in bookies:
            self.tell(node, "add.acked", entry, peer=bookie)
        return self

    def confirm(self, entry: int, node: str = W) -> "Story":
        return self.tell(node, "lac.advanced", entry)

    def store(self, entry: int, *bookies: str, node: str = W) -> "Story":
        """Push the entry to the whole ensemble; only `bookies` (default: all) store and acknowledge
        it.
        """
        on = bookies or self.ensemble
        self.push(entry, node).send(entry, *self.ensemble, node=node)
        return self.put(entry, *on).sync(entry, *on).ack(entry, *on, node=node)

    def add(self, *entries: int) -> "Story":
        """Store each entry on the whole ensemble and confirm it."""
        for entry in entries:
            self.store(entry).confirm(entry)
        return self

    def close(self, last: int, node: str = W, size: int = 100) -> "Story":
        return self.tell(node, "ledger.closed", last, size=0 if last < 0 else size)

    def recover(self, node: str = R) -> "Story":
        """Start a recovery whose client knows the first segment."""
        return self.tell(node, "recovery.started", segments=((0, self.ensemble),))

    def fence(self, *bookies: str, node: str = R, lac: int = -1) -> "Story":
        """Let each bookie fence the ledger, sync the fence and respond."""
        self.recover(node)
        for bookie in bookies:
            self.tell(node, "fence.sent", peer=bookie)
            self.tell(bookie, "ledger.fenced").tell(bookie, "journal.fence_appended")
            self.sync(-1, bookie)
            self.tell(node, "fence.answered", lac, peer=bookie)
        return self.tell(node, "recovery.covered", lac)

    def end(self, last: int, node: str = R) -> "Story":
        """Close the ledger and end the recovery."""
        return self.close(last, node).tell(node, "recovery.ended", last)

    def read(self, entry: int, *bookies: str, node: str = "reader", checksum: str = "") -> "Story":
        for bookie in bookies:
            self.tell(node, "read.sent", entry, peer=bookie)
            self.tell(node, "read.done", entry, peer=bookie, checksum=checksum or content(entry))
        return self

    def deny(self, entry: int, *bookies: str, node: str = "reader", why: str = DENIED) -> "Story":
        for bookie in bookies:
            self.tell(node, "read.sent", entry, peer=bookie)
            self.tell(node, "read.failed", entry, peer=bookie, error=why)
        return self

    def lost(self, bookie: str) -> "Story":
        """Let b0 declare the bookie lost."""
        return self.tell(B0, "bookie.lost", ledger=-1, peer=bookie)

    def ended(self) -> "Story":
        """Start the epilogue of a simulated run, in which no more faults happen."""
        return self.tell(EPILOGUE, "epilogue.started", ledger=-1)

    def epilogue(self, *entries: int) -> "Story":
        """Read these entries from every bookie of the ensemble."""
        for entry in entries:
            self.read(entry, *self.ensemble, node=EPILOGUE)
        return self

    # What calls returned to their callers

    def add_is(self, entry: int, given: int) -> None:
        """Let the add of the payload of entry `given` return entry id `entry`."""
        answer = Content(entry, -1, content(given))
        self.answers.append(AddReturned(len(self.rows), W, LEDGER, answer))

    def returns(self, *entries: int, given: tuple[int, ...] = ()) -> None:
        """Let a read of entries 0 and 1 return `entries`, with the payloads of the entries
        `given`.
        """
        contents = (
            Content(entry, -1, content(other))
            for entry, other in zip(entries, given or entries, strict=True)
        )
        at = len(self.rows)
        self.answers.append(EntriesRead(at, "reader", LEDGER, 0, 1, tuple(contents)))

    def outlasts(self, *, has_ended: bool) -> None:
        """Let the writer's step still be in progress at the end of the run."""
        at = len(self.rows)
        self.answers.append(StepOutlastedRun(at, W, "write", 30.0, has_ended))

    def finds_marks(self, *ledgers: int) -> None:
        self.answers.append(MarksFound(len(self.rows), 30.0, ledgers))

    @property
    def events(self) -> list[Event]:
        log = TraceLog()
        log.add(self.rows)
        log.settle()
        return log.events

    def verdict(self, check: type[Check]) -> Verdict:
        [verdict] = check_all(self, [check])
        return verdict

    def last(self, kind: str) -> int:
        """Return the number of the last event of this kind."""
        return max(event.seq for event in self.events if event.kind == kind)
