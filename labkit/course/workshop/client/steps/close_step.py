"""Step 5: close the ledger, and handle being fenced."""

from labkit.course.workshop.client import contract, runs
from labkit.course.workshop.client.generated.writing import writers_end
from labkit.course.workshop.client.trials import (
    ends_well,
    every_order_of,
    first_test,
    holds,
    in_storms,
    metadata_requests,
    must_fail,
)
from labkit.course.workshop.tracks import ContractLine, Cost, Step

_WRITER = ("w",)

CLOSE = Step(
    number=5,
    name="close, and be fenced",
    parts=("Writer",),
    contract=(
        ContractLine(contract.ENDS_AT, broken_by=("AcknowledgedIsDurable",)),
        ContractLine(contract.CLOSED_LENGTH, broken_by=("ClosedLengthIsRight",)),
        ContractLine(contract.PENDING_FAIL),
        ContractLine(contract.CONFLICT),
        ContractLine(
            contract.OTHER_END,
            broken_by=("NoDivergenceBetweenClientAndMetaData", "ClosedLedgerNeverChanges"),
        ),
        ContractLine(contract.FENCED, broken_by=("OneWriter",)),
    ),
    write=(
        "`Writer.close`, and the end of a writer (20 to 40 lines): from then on nothing is"
        " confirmed, pending adds fail, and `add` raises the error that ended the writer."
        " `metadata.closed(last, length)` returns the closed metadata; `length` is the total size"
        " of the payloads up to the last entry."
    ),
    hints=(
        "Write a method that ends the writer with an error: it keeps the error, and fails every"
        " pending add with it. `add` and `confirm` look at the kept error first.",
        "`close` ends the writer with `BKLedgerClosedException`, and then stores"
        " `metadata.closed(last, length)`. After `BKMetadataVersionException`, read the metadata"
        " and try again, unless the ledger is CLOSED by now.",
        "If another client closed the ledger, compare its last entry with your LastAddConfirmed:"
        " return if they are the same, otherwise raise `BKMetadataVersionException`.",
    ),
    first_test=first_test(
        "6 entries are confirmed, then `await writer.close()`: the metadata are CLOSED at 5.",
        runs.CLOSED,
        _WRITER,
    ),
    generated=(writers_end,),
    trials=(
        ends_well(
            (runs.CLOSED_AT_ONCE, runs.CLOSED_UNHEARD),
            _WRITER,
            f"{contract.PENDING_FAIL} `close` does not wait for them.",
        ),
        holds((runs.TAKEN, runs.CLOSES_LATE, runs.both_restart()), _WRITER),
        must_fail(
            runs.TAKEN,
            _WRITER,
            "BKLedger",
            f"{contract.PENDING_FAIL} This also holds after another client has fenced the ledger.",
        ),
    ),
    slow_trials=(
        every_order_of(runs.ONE_TAKES_IT, _WRITER),
        in_storms(
            lambda seeds: runs.storms(seeds, *runs.recoveries_by("r"), bookies=6, close=True),
            _WRITER,
        ),
    ),
    costs=(Cost("metadata requests of a writer", 1.0, metadata_requests(runs.CLOSED, "w")),),
    challenges=(
        "A writer learns that it has lost its ledger only from its next add, and may serve stale"
        " responses until then. How could it learn earlier, and can it ever be sure?",
    ),
)
