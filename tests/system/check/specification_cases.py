"""Test cases for the code that checks the invariants of the TLA+ specification."""

from labkit.system.check import EPILOGUE
from labkit.system.check.promises.chain import (
    AllNonEmptyLedgersInLedgerList,
    EntryOrderMaintained,
    OnlyOneLedgerOpenAtATime,
)
from labkit.system.check.promises.specification import (
    AllCommittedEntriesReachAckQuorum,
    LedgerIsClosed,
    NoDirtyReads,
    NoDivergenceBetweenClientAndMetaData,
    OnlyValidFragments,
    TypeOK,
)
from tests.system.check.cases import TOPIC, Case, chain, late, written
from tests.system.check.story import B0, B1, B2, DENIED, R, Story, W


def late_batch() -> Story:
    return Story(whole=False).tell(W, "batch.stored", 1, topic=TOPIC)


SPECIFICATION_CASES = [
    Case(
        AllNonEmptyLedgersInLedgerList,
        chain((7, 0), (8, 0)),
        chain((7, 0), (8, 0), rolled=(7,))
        .tell(W, "ledger.created", ledger=9)
        .tell(W, "batch.stored", 0, ledger=9, topic=TOPIC),
        late_batch(),
        ("ledger 9", TOPIC, "are 7"),
        led=("ledger.created",),
    ),
    Case(
        EntryOrderMaintained,
        chain((9, 0), (9, 1), (8, 0), rolled=(9, 8)),
        chain((9, 0), (8, 0), (9, 1), rolled=(9, 8)),
        late_batch(),
        ("entry 1", "ledger 9"),
        led=("batch.stored",),
    ),
    Case(
        OnlyOneLedgerOpenAtATime,
        chain(),
        chain(close=False),
        written(),
        ("ledger 8", "ledger 7", "open"),
        led=("ledger.created",),
    ),
    Case(
        TypeOK,
        written().close(1),
        Story((3, 2, 3)),
        Story(whole=False).tell(W, "ensemble.set", 0, ensemble=("b0",)),
        ("Qa=3",),
        at=("ledger.created", -1),
    ),
    Case(
        TypeOK,
        Story((2, 2, 2), (B0, B1)),
        Story((2, 2, 2), (B0, B0)),
        Story(whole=False),
        ("b0, b0", "2 different"),
        led=("ledger.created",),
    ),
    Case(
        TypeOK,
        Story().close(-1),
        Story().add(0).close(3),
        Story(whole=False),
        ("entry 3", "is 0"),
    ),
    Case(
        NoDivergenceBetweenClientAndMetaData,
        written().close(1).confirm(1),
        written().store(2).close(1, R).confirm(2),
        written(),
        (W, "entry 2", "last entry in the metadata is 1"),
        led=("ledger.closed", "add.acked"),
    ),
    Case(
        NoDivergenceBetweenClientAndMetaData,
        written().close(1),
        written().close(0, R),
        written(),
        (W, "entry 1"),
    ),
    Case(
        NoDivergenceBetweenClientAndMetaData,
        written().close(1),
        written().close(1).close(1, R),
        written(),
        ("second",),
        led=("ledger.closed",),
    ),
    Case(
        AllCommittedEntriesReachAckQuorum,
        Story().store(0, B0, B2).confirm(0).close(0),
        Story().store(0, B2).close(0, R),
        late(),
        ("entry 0", "on 1 of b0, b1, b2"),
        led=("add.pushed",),
    ),
    Case(
        OnlyValidFragments,
        written()
        .tell(W, "ensemble.set", 2, ensemble=("b0", "b1", "b3"))
        .tell(B0, "ensemble.set", 0, ensemble=("?",)),
        written()
        .tell(W, "ensemble.set", 2, ensemble=("b0", "b1", "b3"))
        .tell(R, "ensemble.set", 1, ensemble=("b3",)),
        Story(whole=False),
        (R, "entry 1", "entry 2"),
        led=("ensemble.set", "ledger.created"),
    ),
    Case(
        NoDirtyReads,
        written().tell("reader", "lac.read", 1).fence(B0, lac=1),
        written().store(2).fence(B0, lac=2),
        Story(whole=False).tell("reader", "lac.read", 1),
        (R, B0, "entry 2", "to 1"),
        led=("ledger.fenced", "add.pushed"),
        at=("fence.answered", 2),
    ),
    Case(
        LedgerIsClosed,
        written().fence(B0, B1, node=EPILOGUE).end(1, EPILOGUE),
        written().fence(B0, B1, node=EPILOGUE),
        written(),
        ("ledger 7",),
        at=("recovery.started", -1),
    ),
    Case(
        LedgerIsClosed,
        written().fence(B0, B1, node=EPILOGUE).end(1, EPILOGUE),
        written().fence(B0, B1, node=EPILOGUE).tell(EPILOGUE, "recovery.ended", 1),
        # The reader's request to close the ledger was delayed, and the reader received no response
        # to it.
        written().fence(B0).fence(B0, B1, node=EPILOGUE).tell(EPILOGUE, "recovery.ended", 1),
        ("ledger 7",),
        at=("recovery.started", -1),
    ),
    Case(
        LedgerIsClosed,
        written().close(1),
        written().deny(0, B0, node=EPILOGUE, why=DENIED).fence(node=EPILOGUE),
        written().fence(B0, node=EPILOGUE).tell(EPILOGUE, "fence.failed", peer=B1, error="?"),
        ("ledger 7",),
        at=("recovery.started", -1),
    ),
]
