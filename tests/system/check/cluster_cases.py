"""Test cases for the checks of repairs, bookies, readers and errors."""

from labkit.system.check import EPILOGUE
from labkit.system.check.promises.durability import EveryCopyIsDurable
from labkit.system.check.promises.health import EveryErrorIsExpected
from labkit.system.check.promises.learning import ReadersLearnWhatIsConfirmed
from labkit.system.check.promises.outage import (
    BriefAbsenceIsNoLoss,
    RunningBookiesStayRegistered,
    SilenceIsNoLoss,
)
from labkit.system.check.promises.repair import RepairIsComplete
from labkit.system.trace.events import Fields
from tests.system.check.cases import Case, written
from tests.system.check.story import B0, B1, B2, B3, Story

CANNOT_READ = {"node": EPILOGUE, "why": "BKReadException"}


def repaired() -> Story:
    """Lose b2, and replace it by b3 in the closed ledger."""
    story = written().close(1).tell(B2, "node.killed").tell(B0, "replication.started")
    story.sync(0, B3).sync(1, B3).tell(B0, "entry.copied", 0, peer=B3)
    story.tell(B0, "entry.copied", 1, peer=B3).tell(
        B0, "ensemble.set", 0, ensemble=("b0", "b1", "b3")
    )
    return story.tell(B0, "fragment.replicated", 0, bookies=(B3,)).tell(B0, "replication.done")


def named_too_early() -> Story:
    story = written().close(1).tell(B2, "node.killed").tell(B0, "replication.started")
    return story.tell(B0, "ensemble.set", 0, ensemble=("b0", "b1", "b3"))


def restarted(delay_s: float) -> Story:
    """Stop b2, and let b0, the auditor, declare it lost soon afterwards."""
    story = written().tell(B2, "bookie.registered").tell(B0, "bookie.registered")
    return (
        story.tell(B0, "auditor.delay", seconds=delay_s).tell(B2, "node.killed").close(1).lost(B2)
    )


def hung(for_ms: int = 5000) -> Story:
    """Let the metadata store hang. The session timeout is four seconds."""
    story = written().tell(B0, "auditor.elected").tell("zk", "metadata.hung", seconds=4.0)
    return story.wait(for_ms).tell("zk", "metadata.resumed")


def gone(bookie: str = B1) -> Story:
    story = written().tell(bookie, "bookie.registered")
    return story.tell(bookie, "bookie.unregistered", explanation="expired")


def asked(learned: int, detail: str = "") -> Story:
    """Let a reader ask for the last confirmed entry after entry 1, which carries LAC 0, has been
    written.
    """
    story = written().tell("reader", "read.sent", peer=B0)
    return story.tell("reader", "lac.read", learned, detail=detail)


def found_damaged(after: str = "disk.rotted") -> Story:
    """Let b0 refuse to start because of the contents of its disks."""
    story = written().tell(B0, after) if after else written()
    why = Fields(error="StorageDamagedException", explanation="journal 1.txn is missing")
    return story.tell(B0, "node.killed").tell(B0, "node.killed", **why)


CLUSTER_CASES = [
    Case(
        RepairIsComplete,
        repaired().read(0, B3, node=EPILOGUE),
        named_too_early(),
        written().close(1),
        ("b0 listed b3", "entry 0"),
    ),
    Case(
        RepairIsComplete,
        repaired(),
        repaired().deny(1, B3, node=EPILOGUE),
        Story().store(0, B0, B1).confirm(0).close(0).tell(B0, "replication.done"),
        (B3, "entry 1", B0),
        led=("read.sent",),
    ),
    Case(
        RepairIsComplete,
        repaired().tell(B2, "node.started"),
        written().close(1).tell(B2, "node.killed").tell(B0, "replication.done"),
        written().tell(B0, "replication.done"),
        (B2, "down"),
        led=("node.killed",),
    ),
    Case(
        RepairIsComplete,
        written()
        .close(1)
        .tell(B0, "replication.started")
        .tell(B2, "node.killed")
        .tell(B0, "replication.done"),
        written()
        .close(1)
        .tell(B2, "node.killed")
        .tell(B0, "replication.started")
        .tell(B0, "replication.done"),
        written().tell(B0, "replication.started"),
        (B2, "down"),
        led=("node.killed",),
    ),
    Case(
        EveryCopyIsDurable,
        written().close(1).epilogue(0, 1),
        written().close(1).read(0, B0, node=EPILOGUE).deny(0, B1, node=EPILOGUE),
        written().close(1).read(0, B0).deny(0, B1),
        ("b1 does not have entry 0",),
        led=("add.acked",),
    ),
    Case(
        EveryCopyIsDurable,
        written().close(1).epilogue(0).tell(B1, "disk.rotted").deny(1, B1, **CANNOT_READ),
        written().close(1).epilogue(0).tell(B2, "disk.rotted").deny(1, B1, **CANNOT_READ),
        written().close(1),
        ("b1 cannot read entry 1",),
        led=("add.acked",),
    ),
    Case(
        EveryCopyIsDurable,
        written().epilogue(0).tell(EPILOGUE, "fence.failed", peer=B1, error="unreachable"),
        written().epilogue(0).tell(EPILOGUE, "fence.failed", peer=B1, error=CANNOT_READ["why"]),
        written().close(1),
        ("b1 cannot read its last entry",),
    ),
    Case(
        BriefAbsenceIsNoLoss,
        restarted(0.001),
        restarted(600.0),
        restarted(0.001).tell(B0, "clock.skewed").lost(B2),
        (B0, B2, "600 s"),
        led=("node.killed", "auditor.delay"),
    ),
    Case(
        SilenceIsNoLoss,
        hung().wait(10_000).lost(B2),
        hung().lost(B2),
        hung(for_ms=1000).lost(B2),
        (B0, B2, "10 s"),
        led=("metadata.resumed",),
    ),
    Case(
        SilenceIsNoLoss,
        hung(),
        written().lost(B0),
        hung().tell(B0, "clock.skewed").lost(B2),
        (B0, "in its own process"),
    ),
    Case(
        RunningBookiesStayRegistered,
        gone().tell(B1, "bookie.registered").wait(3000).tell(EPILOGUE, "epilogue.started"),
        gone().wait(3000).tell(EPILOGUE, "epilogue.started"),
        gone().wait(3000).tell(B1, "node.killed").tell(EPILOGUE, "epilogue.started"),
        (B1, "not been registered"),
        led=("bookie.unregistered",),
    ),
    Case(
        ReadersLearnWhatIsConfirmed,
        asked(0),
        asked(-1),
        asked(-1, "the first response"),
        ("reader read LastAddConfirmed -1", "entry 1", "carried 0"),
        led=("add.pushed", "lac.advanced"),
    ),
    Case(
        EveryErrorIsExpected,
        written().tell(B0, "node.started"),
        written().tell(B0, "node.failed", explanation="KeyError('x')"),
        written(),
        (B0, "KeyError"),
    ),
    Case(
        EveryErrorIsExpected,
        found_damaged().tell(B0, "node.started"),
        found_damaged(after=""),
        written(),
        (B0, "1.txn is missing"),
    ),
]
