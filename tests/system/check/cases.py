"""For each check a run that keeps the promise, one that breaks it and one that does not tell."""

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
    """`at`: kind and entry of the event that breaks the promise; `led`: kinds in its lineage;
    `says`: words of the reason.
    """

    check: type[Check]
    valid: Story
    broken: Story
    at: tuple[str, int]
    led: tuple[str, ...]
    says: tuple[str, ...]
    unknown: Story


def written() -> Story:
    return Story().add(0, 1)


def late() -> Story:
    """A trace that begins after the ledger was created."""
    return Story(whole=False).add(1, 2).fence(B0, B1).end(2).read(0, B0)


def collected(*bookies: str) -> Story:
    """Deleted after its first entry, and dropped by these bookies."""
    story = Story().add(0).tell(W, "ledger.deleting").tell(W, "ledger.deleted")
    for bookie in bookies:
        story.tell(bookie, "ledger.collected")
    return story


def chain(*batches: tuple[int, int], rolled: tuple[int, ...] = (7, 8), close: bool = True) -> Story:
    story = Story().tell(W, "ledger.rolled", ledger=rolled[0], note=f"{TOPIC}: it is opened")
    for number in rolled[1:]:
        if close:
            story.close(1)
        story.tell(W, "ledger.created", ledger=number, note="E=3 Qw=3 Qa=2")
        story.tell(W, "ledger.rolled", ledger=number, note=f"{TOPIC}: full")
    for number, entry in batches:
        story.tell(W, "batch.stored", entry, ledger=number, note=TOPIC)
    return story


PROMISE_CASES = [
    Case(
        AcknowledgedIsDurable,
        written().fence(B0, B1, lac=0).end(1).epilogue(0, 1),
        written().fence(B0, B1, lac=0).end(0),
        ("recovery.ended", 0),
        ("recovery.covered", "lac.advanced", "add.acked", "journal.synced", "add.pushed"),
        ("entry 1", R, W, "ledger 7"),
        written().fence(B0, B1).end(1).deny(1, B0, B1, node=EPILOGUE).read(0, B0, node=EPILOGUE),
    ),
    Case(
        AcknowledgedIsDurable,
        written().close(1).read(0, B1, node=EPILOGUE).read(1, B0, node=EPILOGUE),
        written().close(1).read(0, B1, node=EPILOGUE).deny(1, B0, B1, B2, node=EPILOGUE),
        ("read.failed", 1),
        ("read.sent", "lac.advanced"),
        ("entry 1", "b0, b1, b2"),
        written().deny(0, B0, B1, B2, node=EPILOGUE, why="BKTimeoutException"),
    ),
    Case(
        AcknowledgedIsDurable,
        written().fence(B0, B1, lac=1).end(1).confirm(1).epilogue(0, 1),
        written().fence(B0, B1, lac=1).end(1).store(2).confirm(2),
        ("lac.advanced", 2),
        ("add.acked", "ledger.closed"),
        ("entry 2", R),
        written(),
    ),
    Case(
        ReadersAgree,
        written().read(0, B0).read(0, B1, node=R),
        written().read(0, B0).read(0, B1, node=R, note=content(1)),
        ("read.done", 0),
        ("read.sent", "add.pushed"),
        (R, B1, "entry 0", content(0), content(1)),
        Story().tell(W, "add.pushed", 0),
    ),
    Case(
        NothingBeyondLacIsRead,
        written().store(2).read(1, B0).tell(B1, "bookie.registered").read(2, B0, node=B1),
        written().store(2).read(2, B0),
        ("read.done", 2),
        ("read.sent", "add.pushed"),
        ("reader", B0, "entry 2", "up to 1"),
        Story(whole=False).read(0, B0),
    ),
    Case(
        NothingBeyondLacIsRead,
        written().read(1, B0).fence(B0, B1).read(2, B0, node=R).end(1),
        written().read(1, B0).fence(B0, B1).end(0),
        ("ledger.closed", 0),
        ("read.done", "read.sent"),
        ("entry 0", "reader", "entry 1"),
        Story(),
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
        ("read.done", 2),
        ("read.sent",),
        (R, B2, "entry 2", "up to 1"),
        Story(),
    ),
    Case(
        ClosedLedgerNeverChanges,
        written().close(1).tell(B0, "ensemble.set", 0, note="b0,b1,b3").tell(R, "lac.read", 1),
        written().close(1).close(0, R),
        ("ledger.closed", 0),
        ("ledger.closed",),
        (R, W, "entry 0", "entry 1"),
        written(),
    ),
    Case(
        ClosedLedgerNeverChanges,
        written().close(1),
        written().close(1).tell(W, "ensemble.set", 2, note="b0,b1,b3"),
        ("ensemble.set", 2),
        ("ledger.closed",),
        ("entry 2",),
        written(),
    ),
    Case(
        ClosedLedgerNeverChanges,
        written().close(1),
        written().close(0).tell("reader", "lac.read", 1),
        ("lac.read", 1),
        ("ledger.closed",),
        ("reader", "entry 0"),
        written(),
    ),
    Case(
        OneWriter,
        written().store(2, B0, B1).fence(B0, B1, lac=1).end(2).confirm(2),
        written().fence(B0, B1, lac=1).end(1).store(2).confirm(2),
        ("lac.advanced", 2),
        ("add.acked", "ledger.closed"),
        (W, "entry 2", R, "entry 1"),
        late().push(3),
    ),
    Case(
        OneWriter,
        written().fence(B0, B1, lac=1).push(2, R),
        written().push(2, "intruder"),
        ("add.pushed", 2),
        ("ledger.created",),
        ("intruder", W, "entry 2"),
        late(),
    ),
    Case(
        WriteSetIsRight,
        Story("E=3 Qw=2 Qa=2").push(1).send(1, B1, B2).confirm(1),
        Story("E=3 Qw=2 Qa=2").push(1).send(1, B1, B0),
        ("add.sent", 1),
        ("add.pushed",),
        (W, "entry 1", "to b0", "b1, b2"),
        late(),
    ),
    Case(
        WriteSetIsRight,
        Story()
        .push(0)
        .send(0, B0, B1, B2)
        .tell(W, "ensemble.set", 0, note="b0,b1,b3")
        .send(0, B2, B3)
        .confirm(0),
        Story().push(0).send(0, B0, B1).confirm(0),
        ("lac.advanced", 0),
        (),
        ("entry 0", B2),
        late(),
    ),
    Case(
        WriteSetIsRight,
        written()
        .fence(B0, B1)
        .tell(R, "ensemble.deferred", 2, note="b0,b1,b3")
        .push(2, R)
        .send(2, B0, B1, B3, node=R)
        .confirm(2, R),
        written().fence(B0, B1).push(2, R).send(2, B0, B1, B3, node=R),
        ("add.sent", 2),
        ("add.pushed",),
        (R, "entry 2", B3),
        late(),
    ),
    Case(
        AckFollowsSync,
        written(),
        Story().push(0).send(0, B0).put(0, B0).ack(0, B0).sync(0, B0),
        ("add.acked", 0),
        ("add.sent", "journal.synced", "memtable.put"),
        (B0, "entry 0"),
        Story().push(0).send(0, B0).put(0, B0).ack(0, B0).tell(B0, "node.killed").sync(1, B0),
    ),
    Case(
        AckFollowsSync,
        Story("E=3 Qw=3 Qa=2 deferred sync").ack(0, B0).sync(0, B0).ack(0, B0),
        Story().sync(0, B1).ack(0, B0).tell(B0, "node.paused").sync(1, B0),
        ("add.acked", 0),
        ("journal.synced",),
        (B0,),
        Story().ack(0, B0),
    ),
    Case(
        AckQuorumIsReached,
        Story().store(0, B0, B1).confirm(0),
        Story().store(0, B1).confirm(0),
        ("lac.advanced", 0),
        ("add.acked", "journal.synced", "add.pushed"),
        ("entry 0", "of b1,", "ack quorum is 2", "b0, b1, b2"),
        Story(whole=False).store(0, B0, B1).confirm(0),
    ),
    Case(
        AckQuorumIsReached,
        Story().store(0, B0, B2).tell(W, "ensemble.set", 0, note="b0,b1,b3").ack(0, B3).confirm(0),
        Story().store(0, B0, B2).tell(W, "ensemble.set", 0, note="b0,b1,b3").confirm(0),
        ("lac.advanced", 0),
        ("add.pushed",),
        ("of b0,", "b0, b1, b3"),
        late(),
    ),
    Case(
        LacAdvancesInOrder,
        written().fence(B0, B1, lac=0).confirm(1, R).confirm(2, R),
        Story().add(0).store(1).store(2).confirm(2),
        ("lac.advanced", 2),
        ("add.acked", "lac.advanced", "journal.synced"),
        (W, "entry 2", "was 0"),
        late(),
    ),
    Case(
        LacAdvancesInOrder,
        written(),
        Story().confirm(1),
        ("lac.advanced", 1),
        (),
        ("entry 1", "was -1"),
        written().fence(B0, B1, node=W, lac=0).confirm(1).confirm(2).confirm(2),
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
        ("fence.answered", -1),
        ("ledger.fenced", "fence.sent", "journal.synced"),
        (B0, R, "ledger 7"),
        Story().tell(R, "recovery.started").tell(R, "fence.answered", peer=B0),
    ),
    Case(
        FenceIsDurableBeforeItsAnswer,
        Story().fence(B0, B1).deny(0, B2, node="reader").deny(0, B0, node=R),
        Story().fence(B0, B1).deny(0, B2, node=R).put(0, B2),
        ("read.failed", 0),
        ("read.sent", "memtable.put"),
        (B2, R, "entry 0"),
        Story().fence(B0, B1).tell(B2, "node.killed").deny(0, B2, node=R).put(0, B2),
    ),
    Case(
        FencedBookieRefusesTheWriter,
        Story().add(0).push(1).send(1, B0).fence(B0).push(1, R).send(1, B0, node=R).put(1, B0),
        Story().add(0).push(1).send(1, B0).fence(B0).tell(B0, "node.killed").put(1, B0),
        ("memtable.put", 1),
        ("add.sent", "ledger.fenced", "fence.sent", "recovery.started"),
        (B0, "entry 1", W),
        written(),
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
        ("memtable.put", 1),
        ("ledger.fenced",),
        (B0, "entry 1"),
        Story(),
    ),
    Case(
        OnlyDeletedLedgersAreCollected,
        Story().add(0).tell(W, "ledger.deleting").tell(B0, "ledger.collected").ended(),
        Story().add(0).tell(B0, "ledger.collected").ended(),
        ("ledger.collected", -1),
        ("ledger.created",),
        (B0, "ledger 7"),
        Story().add(0).tell(B0, "ledger.collected"),
    ),
    Case(
        DeletedLedgerTakesNoAdd,
        collected(B0).push(1).send(1, B0),
        collected(B0).push(1).send(1, B0).put(1, B0),
        ("memtable.put", 1),
        ("ledger.collected", "ledger.deleted", "add.sent"),
        (B0, "entry 1", "ledger 7"),
        collected(B1).tell(B1, "node.killed").push(1).send(1, B1).put(1, B0, B1),
    ),
    Case(
        MessageIdsGrow,
        chain((7, 0), (7, 1), (8, 0)),
        chain((7, 0), (8, 0), (7, 1)),
        ("batch.stored", 1),
        ("batch.stored",),
        ("7:1", "8:0", TOPIC),
        written(),
    ),
]
