"""Step 6: recover a ledger whose writer is gone."""

from labkit.course.workshop.client import runs
from labkit.course.workshop.client.trials import (
    count_of,
    ends_well,
    every_order_of,
    holds,
    in_storms,
    must_fail,
    red,
    time_between,
)
from labkit.course.workshop.step import Figure, Step

_RECOVERER = ("r",)
_RECOVERERS = ("r", "s")
_ALL = ("w", "q", "r", "s")

RECOVER = Step(
    number=6,
    name="recover a ledger",
    parts=("recover",),
    invariants=(
        "The metadata are IN_RECOVERY before any bookie is asked: the writer changes its ensemble"
        " no more.",
        "Bookies are fenced until the others are too few to acknowledge an add. Each read that"
        " looks for the end fences, too: a bookie that has denied an entry never takes it.",
        "An entry that may have been confirmed is found, or the recovery fails and the ledger stays"
        " IN_RECOVERY. It is behind the end only if Qw - Qa + 1 bookies prove that they have none.",
        "An entry found once is written back, with the recovery flag, to Qa bookies of its write"
        " set before the ledger is closed behind it.",
        "The first client that closes the ledger decides where it ends.",
    ),
    write=(
        "In 60 to 80 lines: `recover(cluster)`, which returns the closed metadata. Mark, fence the"
        " last ensemble and learn LastAddConfirmed, read on from there and write back, close by"
        " compare-and-set. The last segment begins behind confirmed entries, whatever its bookies"
        " know. Raise `BKLedgerRecoveryException` where the answers decide nothing. Recovered"
        " entries carry the LastAddConfirmed with which you began: readers must not see entries"
        " that another recovery may cut off."
    ),
    red=red(
        "The writer dies after entry 3 is confirmed; `await recover(cluster)` closes the ledger.",
        runs.DIES,
        _RECOVERER,
    ),
    trials=(
        ends_well(
            (
                runs.fresh_ensemble(),
                runs.LONG_DEAD,
                runs.NOTHING_WRITTEN,
                runs.CLOSED_BEFORE,
                runs.one_is_down_for_good(),
                runs.found_once(),
            ),
            _RECOVERER,
            "Enough bookies answer to know where the ledger ends: then recovery closes it.",
        ),
        must_fail(
            runs.silent_bookie(),
            _RECOVERER,
            "BK",
            "Two bookies are silent, and these two alone can have acknowledged an entry: that"
            " nothing is there is not proven.",
        ),
        holds(
            (runs.TAKEN, runs.lost_fence(), runs.both_restart(), runs.cut_off_by_another()),
            _RECOVERER,
        ),
    ),
    worlds=(
        every_order_of(runs.ONE_TAKES_IT, _RECOVERER),
        in_storms(
            lambda seeds: runs.storms(seeds, *runs.taken_by("r", "s"), bookies=5), _RECOVERERS
        ),
        in_storms(lambda seeds: runs.storms(seeds // 2, *runs.taken_by("r", "s"), bookies=6), _ALL),
    ),
    figures=(
        Figure(
            "requests of a recovery",
            1.1,
            count_of(runs.LONG_DEAD, _RECOVERER, "fence.sent", "read.sent", "add.sent"),
        ),
        Figure(
            "simulated ms of a recovery",
            2.5,
            time_between(runs.LONG_DEAD, _RECOVERER, "recovery.started", "recovery.ended"),
        ),
    ),
    challenges=(
        "Write back while you read on, and read ahead: how close do you come to half of labkit's"
        " simulated time, and what must still be in order?",
        "Where a bookie fails while you write back, replace it. The metadata may name the new"
        " ensemble only when the ledger is closed: find the run that shows why.",
    ),
)
