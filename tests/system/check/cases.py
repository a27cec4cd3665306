"""Test cases for the checks. For each check, there is a run that keeps the promise, a run that
breaks it, and a run that does not show whether it is kept.
"""

from dataclasses import dataclass

from labkit.system.check import EPILOGUE, Check
from labkit.system.check.promises.chain import MessageIdsGrow
from labkit.system.check.promises.deletion import (
    DeletedLedgerTakesNoAdd,
    OnlyDeletedLedgersAreCollected,
)
from labkit.system.check.promises.durability import AcknowledgedIsDurable
from labkit.system.check.promises.fencing import (
    FencedBookieRefusesTheWriter,
    FenceIsDurableBeforeItsAnswer,
    OneWriter,
)
from labkit.system.check.promises.reading import (
    ClosedLedgerNeverChanges,
    NothingBeyondLacIsRead,
    ReadersAgree,
)
from labkit.system.check.promises.writing import (
    AckFollowsSync,
    AckQuorumIsReached,
    LacAdvancesInOrder,
    WriteSetIsRight,
)
from tests.system.check.story import B0, B1, B2, B3, R, Story, W, content

TOPIC = "t-partition-0"


@dataclass(frozen=True)
class Case:
    """`says`: phrases that the reason contains; `led`: kinds of events in the lineage; `at`: kind
    and entry of the event that breaks the promise, unless this is the last event.
    """

    check: type[Check]
    valid: Story
    broken: Story
    unknown: Story
    says: tuple[str, ...]
    led: tuple[str, ...] = ()
    at: tuple[str, int] | None = None


def written() -> Story:
    return Story().add(0, 1)


def late() -> Story:
    """Return a story whose trace starts after the ledger was created."""
    return Story(whole=False).add(1, 2).fence(B0, B1).end(2).read(0, B0)


def collected(*bookies: str) -> Story:
    """Delete the ledger after its first entry, and let these bookies collect the ledger."""
    story = Story().add(0).tell(W, "ledger.deleting").tell(W, "ledger.deleted")
    for bookie in bookies:
        story.tell(bookie, "ledger.collected")
    return story


def chain(*batches: tuple[int, int], rolled: tuple[int, ...] = (7, 8), close: bool = True) -> Story:
    story = Story().tell(W, "ledger.rolled", ledger=rolled[0], topic=TOPIC, detail="opened")
    for number in rolled[1:]:
        if close:
            story.close(1)
        story.tell(
            W, "ledger.created", ledger=number, ensemble_size=3, write_quorum=3, ack_quorum=2
        )
        story.tell(W, "ledger.rolled", ledger=number, topic=TOPIC, detail="entries")
    for number, entry in batches:
        story.tell(W, "batch.stored", entry, ledger=number, topic=TOPIC)
    return story


PROMISE_CASES = [
    Case(
        AcknowledgedIsDurable,
        written().fence(B0, B1, lac=0).end(1).epilogue(0, 1),
        written().fence(B0, B1, lac=0).end(0),
        written().fence(B0, B1).end(1).deny(1, B0, B1, node=EPILOGUE).read(0, B0, node=EPILOGUE),
        ("entry 1", R, W, "ledger 7"),
        led=("recovery.covered", "lac.advanced", "add.acked", "journal.synced", "add.pushed"),
        at=("ledger.closed", 0),
    ),
    Case(
        AcknowledgedIsDurable,
        written().close(1).read(0, B1, node=EPILOGUE).read(1, B0, node=EPILOGUE),
        written().close(1).read(0, B1, node=EPILOGUE).deny(1, B0, B1, B2, node=EPILOGUE),
        written().deny(0, B0, B1, B2, node=EPILOGUE, why="BKTimeoutException"),
        ("entry 1", "b0, b1, b2"),
        led=("read.sent", "lac.advanced"),
    ),
    Case(
        AcknowledgedIsDurable,
        written().fence(B0, B1, lac=1).end(1).confirm(1).epilogue(0, 1),
        written().fence(B0, B1, lac=1).end(1).store(2).confirm(2),
        written(),
        ("entry 2", R),
        led=("add.acked", "ledger.closed"),
    ),
    Case(
        ReadersAgree,
        written().read(0, B0).read(0, B1, node=R),
        written().read(0, B0).read(0, B1, node=R, checksum=content(1)),
        Story().tell(W, "add.pushed", 0),
        (R, B1, "entry 0", content(0), content(1)),
        led=("read.sent", "add.pushed"),
    ),
    Case(
        NothingBeyondLacIsRead,
        written().store(2).read(1, B0).tell(B1, "bookie.registered").read(2, B0, node=B1),
        written().store(2).read(2, B0),
        Story(whole=False).read(0, B0),
        ("reader", B0, "entry 2", "up to 1"),
        led=("read.sent", "add.pushed"),
    ),
    Case(
        NothingBeyondLacIsRead,
        written().read(1, B0).fence(B0, B1).read(2, B0, node=R).end(1),
        written().read(1, B0).fence(B0, B1).close(0, R),
        Story(),
        ("entry 0", "reader", "entry 1"),
        led=("read.done", "read.sent"),
    ),
    Case(
        NothingBeyondLacIsRead,
        written()
        .fence(B0, B1)
        .tell(R, "read.sent", 2, peer=B2)
        .end(1)
        .tell(R, "read.done", 2, peer=B2)
        .read(1, B0),
        written().fence(B0, B1).end(1).read(2, B2, node=R),
        Story(),
        (R, B2, "entry 2", "up to 1"),
        led=("read.sent",),
    ),
    Case(
        ClosedLedgerNeverChanges,
        written()
        .close(1)
        .tell(B0, "ensemble.set", 0, ensemble=("b0", "b1", "b3"))
        .tell(R, "lac.read", 1),
        written().close(1).close(0, R),
        written(),
        (R, W, "entry 0", "entry 1"),
        led=("ledger.closed",),
    ),
    Case(
        ClosedLedgerNeverChanges,
        written().close(1),
        written().close(1).tell(W, "ensemble.set", 2, ensemble=("b0", "b1", "b3")),
        written(),
        ("entry 2",),
        led=("ledger.closed",),
    ),
    Case(
        ClosedLedgerNeverChanges,
        written().close(1),
        written().close(0).tell("reader", "lac.read", 1),
        written(),
        ("reader", "entry 0"),
        led=("ledger.closed",),
    ),
    Case(
        OneWriter,
        written().store(2, B0, B1).fence(B0, B1, lac=1).end(2).confirm(2),
        written().fence(B0, B1, lac=1).end(1).store(2).confirm(2),
        late().push(3),
        (W, "entry 2", R, "entry 1"),
        led=("add.acked", "ledger.closed"),
    ),
    Case(
        OneWriter,
        written().fence(B0, B1, lac=1).push(2, R),
        written().push(2, "intruder"),
        late(),
        ("intruder", W, "entry 2"),
        led=("ledger.created",),
    ),
    Case(
        WriteSetIsRight,
        Story((3, 2, 2)).push(1).send(1, B1, B2).confirm(1),
        Story((3, 2, 2)).push(1).send(1, B1, B0),
        late(),
        (W, "entry 1", "to b0", "b1, b2"),
        led=("add.pushed",),
    ),
    Case(
        WriteSetIsRight,
        Story()
        .push(0)
        .send(0, B0, B1, B2)
        .tell(W, "ensemble.set", 0, ensemble=("b0", "b1", "b3"))
        .send(0, B2, B3)
        .confirm(0),
        Story().push(0).send(0, B0, B1).confirm(0),
        late(),
        ("entry 0", B2),
    ),
    Case(
        WriteSetIsRight,
        written()
        .fence(B0, B1)
        .tell(R, "ensemble.deferred", 2, ensemble=("b0", "b1", "b3"))
        .push(2, R)
        .send(2, B0, B1, B3, node=R)
        .confirm(2, R),
        written().fence(B0, B1).push(2, R).send(2, B0, B1, B3, node=R),
        late(),
        (R, "entry 2", B3),
        led=("add.pushed",),
    ),
    Case(
        AckFollowsSync,
        written(),
        Story().push(0).send(0, B0).put(0, B0).ack(0, B0).sync(0, B0),
        Story().push(0).send(0, B0).put(0, B0).ack(0, B0).tell(B0, "node.killed").sync(1, B0),
        (B0, "entry 0"),
        led=("add.sent", "journal.synced", "memtable.put"),
        at=("add.acked", 0),
    ),
    Case(
        AckFollowsSync,
        Story(deferred_sync=True).ack(0, B0).sync(0, B0).ack(0, B0),
        Story().sync(0, B1).ack(0, B0).tell(B0, "node.paused").sync(1, B0),
        Story().ack(0, B0),
        (B0,),
        led=("journal.synced",),
        at=("add.acked", 0),
    ),
    Case(
        AckQuorumIsReached,
        Story().store(0, B0, B1).confirm(0),
        Story().store(0, B1).confirm(0),
        Story(whole=False).store(0, B0, B1).confirm(0),
        ("entry 0", "of b1,", "ack quorum is 2", "b0, b1, b2"),
        led=("add.acked", "journal.synced", "add.pushed"),
    ),
    Case(
        AckQuorumIsReached,
        Story()
        .store(0, B0, B2)
        .tell(W, "ensemble.set", 0, ensemble=("b0", "b1", "b3"))
        .ack(0, B3)
        .confirm(0),
        Story().store(0, B0, B2).tell(W, "ensemble.set", 0, ensemble=("b0", "b1", "b3")).confirm(0),
        late(),
        ("of b0,", "b0, b1, b3"),
        led=("add.pushed",),
    ),
    Case(
        LacAdvancesInOrder,
        written().fence(B0, B1, lac=0).confirm(1, R).confirm(2, R),
        Story().add(0).store(1).store(2).confirm(2),
        late(),
        (W, "entry 2", "not confirmed entry 1 yet"),
        led=("add.acked", "lac.advanced", "journal.synced"),
    ),
    Case(
        LacAdvancesInOrder,
        written(),
        Story().confirm(1),
        written().fence(B0, B1, node=W, lac=0).confirm(1).confirm(2).confirm(2),
        ("entry 1", "not confirmed entry 0 yet"),
    ),
    Case(
        FenceIsDurableBeforeItsAnswer,
        Story().fence(B0, B1).read(0, B0, node=R).deny(1, B1, node=R).deny(1, B2, node=R, why="?"),
        Story()
        .tell(R, "recovery.started")
        .tell(R, "fence.sent", peer=B0)
        .tell(B0, "ledger.fenced")
        .tell(B0, "journal.fence_appended")
        .tell(R, "fence.answered", peer=B0)
        .sync(-1, B0),
        Story().tell(R, "recovery.started").tell(R, "fence.answered", peer=B0),
        (B0, R, "ledger 7"),
        led=("ledger.fenced", "fence.sent", "journal.synced"),
        at=("fence.answered", -1),
    ),
    Case(
        FenceIsDurableBeforeItsAnswer,
        Story().fence(B0, B1).deny(0, B2, node="reader").deny(0, B0, node=R),
        Story().fence(B0, B1).deny(0, B2, node=R).put(0, B2),
        Story().fence(B0, B1).tell(B2, "node.killed").deny(0, B2, node=R).put(0, B2),
        (B2, R, "entry 0"),
        led=("read.sent", "memtable.put"),
        at=("read.failed", 0),
    ),
    Case(
        FencedBookieRefusesTheWriter,
        Story().add(0).push(1).send(1, B0).fence(B0).push(1, R).send(1, B0, node=R).put(1, B0),
        Story().add(0).push(1).send(1, B0).fence(B0).tell(B0, "node.killed").put(1, B0),
        written(),
        (B0, "entry 1", W),
        led=("add.sent", "ledger.fenced", "fence.sent", "recovery.started"),
        at=("memtable.put", 1),
    ),
    Case(
        FencedBookieRefusesTheWriter,
        Story()
        .add(0)
        .push(1)
        .fence(B1)
        .tell(B0, "ledger.fenced")
        .tell(B0, "node.killed")
        .put(1, B0)
        .put(0, B1),
        Story().add(0).push(1).tell(B0, "ledger.fenced").put(1, B0),
        Story(),
        (B0, "entry 1"),
        led=("ledger.fenced",),
        at=("memtable.put", 1),
    ),
    Case(
        OnlyDeletedLedgersAreCollected,
        Story().add(0).tell(W, "ledger.deleting").tell(B0, "ledger.collected").ended(),
        Story().add(0).tell(B0, "ledger.collected").ended(),
        Story().add(0).tell(B0, "ledger.collected"),
        (B0, "ledger 7"),
        led=("ledger.created",),
        at=("ledger.collected", -1),
    ),
    Case(
        DeletedLedgerTakesNoAdd,
        collected(B0).push(1).send(1, B0),
        collected(B0).push(1).send(1, B0).put(1, B0),
        collected(B1).tell(B1, "node.killed").push(1).send(1, B1).put(1, B0, B1),
        (B0, "entry 1", "ledger 7"),
        led=("ledger.collected", "ledger.deleted", "add.sent"),
        at=("memtable.put", 1),
    ),
    Case(
        MessageIdsGrow,
        chain((7, 0), (7, 1), (8, 0)),
        chain((7, 0), (8, 0), (7, 1)),
        written(),
        ("7:1", "8:0", TOPIC),
        led=("batch.stored",),
    ),
]
