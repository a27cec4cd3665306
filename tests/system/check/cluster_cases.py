"""The same for what concerns the whole cluster: repairs, single bookies, readers, and errors."""

from labkit.system.check import EPILOGUE
from labkit.system.check.promises.absence import BriefAbsenceIsNoLoss
from labkit.system.check.promises.copies import EveryCopyIsDurable
from labkit.system.check.promises.health import EveryErrorIsExpected
from labkit.system.check.promises.learning import ReadersLearnWhatIsConfirmed
from labkit.system.check.promises.outage import RunningBookiesStayRegistered, SilenceIsNoLoss
from labkit.system.check.promises.repair import RepairIsComplete
from tests.system.check.cases import Case, written
from tests.system.check.story import B0, B1, B2, B3, Story

CANNOT_READ = {"node": EPILOGUE, "why": "BKReadException"}


def repaired() -> Story:
    """b2 is lost, and b3 has taken its place in the closed ledger."""
    story = written().close(1).tell(B2, "node.killed").tell(B0, "replication.started")
    story.sync(0, B3).sync(1, B3).tell(B0, "entry.copied", 0, peer=B3)
    story.tell(B0, "entry.copied", 1, peer=B3).tell(B0, "ensemble.set", 0, note="b0,b1,b3")
    return story.tell(B0, "fragment.replicated", 0, note=B3).tell(B0, "replication.done")


def named_too_early() -> Story:
    story = written().close(1).tell(B2, "node.killed").tell(B0, "replication.started")
    return story.tell(B0, "ensemble.set", 0, note="b0,b1,b3")


def restarted(delay: str) -> Story:
    """b2 goes away, and b0, the auditor, soon takes it for lost."""
    story = written().tell(B2, "bookie.registered").tell(B0, "bookie.registered")
    return story.tell(B0, "auditor.delay", note=delay).tell(B2, "node.killed").close(1).lost(B2)


def hung(for_ms: int = 5000) -> Story:
    """The metadata store hangs, and sessions last four seconds."""
    story = written().tell(B0, "auditor.elected").tell("zk", "metadata.hung", note="4 s")
    return story.wait(for_ms).tell("zk", "metadata.resumed")


def gone(bookie: str = B1) -> Story:
    story = written().tell(bookie, "bookie.registered")
    return story.tell(bookie, "bookie.unregistered", note="expired")


def asked(learned: int, note: str = "") -> Story:
    """Entry 1 tells that 0 is confirmed; a reader asks when 1 is confirmed."""
    story = written().tell("reader", "read.sent", peer=B0)
    return story.tell("reader", "lac.read", learned, note=note)


def found_damaged(after: str = "disk.rotted") -> Story:
    """b0 does not start on what it finds on its disks."""
    story = written().tell(B0, after) if after else written()
    why = "StorageDamagedException: journal 1.txn is missing"
    return story.tell(B0, "node.killed").tell(B0, "node.killed", note=why)


CLUSTER_CASES = [
    Case(
        RepairIsComplete,
        repaired().read(0, B3, node=EPILOGUE),
        named_too_early(),
        ("ensemble.set", 0),
        (),
        ("b0 named b3", "entry 0"),
        written().close(1),
    ),
    Case(
        RepairIsComplete,
        repaired(),
        repaired().deny(1, B3, node=EPILOGUE),
        ("read.failed", 1),
        ("read.sent",),
        (B3, "entry 1", B0),
        Story().store(0, B0, B1).confirm(0).close(0).tell(B0, "replication.done"),
    ),
    Case(
        RepairIsComplete,
        repaired().tell(B2, "node.started"),
        written().close(1).tell(B2, "node.killed").tell(B0, "replication.done"),
        ("replication.done", -1),
        ("node.killed",),
        (B2, "down"),
        written().tell(B0, "replication.done"),
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
        ("replication.done", -1),
        ("node.killed",),
        (B2, "down"),
        written().tell(B0, "replication.started"),
    ),
    Case(
        EveryCopyIsDurable,
        written().close(1).epilogue(0, 1),
        written().close(1).read(0, B0, node=EPILOGUE).deny(0, B1, node=EPILOGUE),
        ("read.failed", 0),
        ("add.acked",),
        ("b1 does not have entry 0",),
        written().close(1).read(0, B0).deny(0, B1),
    ),
    Case(
        EveryCopyIsDurable,
        written().close(1).epilogue(0).tell(B1, "disk.rotted").deny(1, B1, **CANNOT_READ),
        written().close(1).epilogue(0).tell(B2, "disk.rotted").deny(1, B1, **CANNOT_READ),
        ("read.failed", 1),
        ("add.acked",),
        ("b1 cannot read entry 1",),
        written().close(1),
    ),
    Case(
        EveryCopyIsDurable,
        written().epilogue(0).tell(EPILOGUE, "fence.failed", peer=B1, note="unreachable"),
        written().epilogue(0).tell(EPILOGUE, "fence.failed", peer=B1, note=CANNOT_READ["why"]),
        ("fence.failed", -1),
        (),
        ("b1 cannot read its last entry",),
        written().close(1),
    ),
    Case(
        BriefAbsenceIsNoLoss,
        restarted("0.001 s"),
        restarted("600 s"),
        ("bookie.lost", -1),
        ("node.killed", "auditor.delay"),
        (B0, B2, "600 s"),
        restarted("0.001 s").tell(B0, "clock.skewed").lost(B2),
    ),
    Case(
        SilenceIsNoLoss,
        hung().wait(10_000).lost(B2),
        hung().lost(B2),
        ("bookie.lost", -1),
        ("metadata.resumed",),
        (B0, B2, "10 s"),
        hung(for_ms=1000).lost(B2),
    ),
    Case(
        SilenceIsNoLoss,
        hung(),
        written().lost(B0),
        ("bookie.lost", -1),
        (),
        (B0, "the same process"),
        hung().tell(B0, "clock.skewed").lost(B2),
    ),
    Case(
        RunningBookiesStayRegistered,
        gone().tell(B1, "bookie.registered").wait(3000).tell(EPILOGUE, "epilogue.started"),
        gone().wait(3000).tell(EPILOGUE, "epilogue.started"),
        ("epilogue.started", -1),
        ("bookie.unregistered",),
        (B1, "not been registered"),
        gone().wait(3000).tell(B1, "node.killed").tell(EPILOGUE, "epilogue.started"),
    ),
    Case(
        ReadersLearnWhatIsConfirmed,
        asked(0),
        asked(-1),
        ("lac.read", -1),
        ("add.pushed", "lac.advanced"),
        ("reader took -1", "entry 1", "announced 0"),
        asked(-1, "the first answer"),
    ),
    Case(
        EveryErrorIsExpected,
        written().tell(B0, "node.started"),
        written().tell(B0, "node.failed", note="KeyError('x')"),
        ("node.failed", -1),
        (),
        (B0, "KeyError"),
        written(),
    ),
    Case(
        EveryErrorIsExpected,
        found_damaged().tell(B0, "node.started"),
        found_damaged(after=""),
        ("node.killed", -1),
        (),
        (B0, "1.txn is missing"),
        written(),
    ),
]
