"""Step 5: close the ledger, and be fenced."""

from labkit.course.workshop.client import runs
from labkit.course.workshop.client.trials import (
    ends_well,
    every_order_of,
    holds,
    in_storms,
    metadata_requests,
    must_fail,
    red,
)
from labkit.course.workshop.step import Figure, Step

_WRITER = ("w",)

CLOSE = Step(
    number=5,
    name="close, and be fenced",
    parts=("Writer",),
    invariants=(
        "A closed ledger ends at its writer's LastAddConfirmed: no add is confirmed behind it, and"
        " each one that is not confirmed fails.",
        "Metadata are changed on the version that was read. After a conflict they are read again"
        " and the decision is made again, on what is stored now.",
        "A ledger that another client has closed stays as it is. If its end is another one, `close`"
        " raises `BKMetadataVersionException`.",
        "`BKLedgerFencedException` is not a failure of the bookie: another client takes over. The"
        " writer ends, and changes no ensemble.",
    ),
    write=(
        "In 20 to 40 lines: `Writer.close`, and what ends a writer: from then on nothing is"
        " confirmed, what is pending fails, and `add` raises what ended it."
        " `metadata.closed(last, length)` gives the closed metadata, `length` counting payload"
        " bytes up to the last entry."
    ),
    red=red(
        "6 entries are confirmed, then `await writer.close()`: the metadata are CLOSED at 5.",
        runs.CLOSED,
        _WRITER,
    ),
    trials=(
        ends_well(
            (runs.CLOSED_AT_ONCE, runs.CLOSED_UNHEARD),
            _WRITER,
            "`close` does not wait for pending adds.",
        ),
        holds((runs.TAKEN, runs.CLOSES_LATE, runs.both_restart()), _WRITER),
        must_fail(
            runs.TAKEN,
            _WRITER,
            "BKLedger",
            "Another client has fenced and closed the ledger: each of the writer's pending adds"
            " must fail, or its caller waits for ever.",
        ),
    ),
    worlds=(
        every_order_of(runs.ONE_TAKES_IT, _WRITER),
        in_storms(
            lambda seeds: runs.storms(seeds, *runs.taken_by("r"), bookies=6, close=True), _WRITER
        ),
    ),
    figures=(
        Figure("requests for metadata of a writer", 1.0, metadata_requests(runs.CLOSED, "w")),
    ),
    challenges=(
        "A writer that learns of a lost ledger only by its next add may serve stale answers until"
        " then. How would you let it know earlier, and can you ever be sure?",
    ),
)
