"""Step 6: recover a ledger whose writer is gone."""

from labkit.course.workshop.client import contract, runs
from labkit.course.workshop.client.generated.recovering import recovery_follows_the_contract
from labkit.course.workshop.client.trials import (
    count_of,
    ends_well,
    every_order_of,
    first_test,
    holds,
    in_storms,
    must_fail,
    time_between,
)
from labkit.course.workshop.tracks import ContractLine, Cost, Milestone, Step

_RECOVERER = ("r",)
_RECOVERERS = ("r", "s")
_ALL = ("w", "q", "r", "s")

RECOVER = Step(
    number=6,
    name="recover a ledger",
    parts=("recover",),
    contract=(
        ContractLine(contract.MARKED),
        ContractLine(contract.RETRIES),
        ContractLine(contract.FENCES),
        ContractLine(contract.FENCING_READS, broken_by=("FenceIsDurableBeforeTheResponse",)),
        ContractLine(contract.PROVEN, broken_by=("AcknowledgedIsDurable",)),
        ContractLine(contract.DECIDES),
        ContractLine(contract.LOWER_BOUND),
        ContractLine(contract.WRITTEN_BACK, broken_by=("AllCommittedEntriesReachAckQuorum",)),
        ContractLine(contract.CARRIES, broken_by=("NothingBeyondLacIsRead", "NoDirtyReads")),
        ContractLine(contract.CLOSED_LENGTH, broken_by=("ClosedLengthIsRight",)),
        ContractLine(
            contract.FIRST_CLOSES,
            broken_by=("NoDivergenceBetweenClientAndMetaData", "ClosedLedgerNeverChanges"),
        ),
    ),
    write=(
        "`recover(cluster)`, which returns the closed metadata (60 to 80 lines). Mark the metadata,"
        " fence the last ensemble and learn LastAddConfirmed, keep reading and writing back from"
        " there, and close by compare-and-set. Raise `BKLedgerRecoveryException` if the responses"
        " decide nothing."
    ),
    hints=(
        "You have most of it: `read_last_add_confirmed` of step 2 with `fence=True`, and the close"
        " of step 5. Start with a ledger that is already closed, then with one that has no"
        " entries.",
        "Write a function that looks for one entry: it asks the whole write set with `fence=True`,"
        " returns the first entry, returns None after Qw - Qa + 1 denials, and raises if all have"
        " responded and neither happened.",
        "LastAddConfirmed is the maximum of what the bookies know and the start of the last segment"
        " minus 1. Replace it in each entry that you write back (`dataclasses.replace`).",
    ),
    first_test=first_test(
        "The writer dies after entry 3 is confirmed; `await recover(cluster)` closes the ledger.",
        runs.DIES,
        _RECOVERER,
        line=contract.DECIDES,
    ),
    milestones=(
        Milestone(
            "a ledger that is already closed",
            ends_well((runs.CLOSED_BEFORE,), _RECOVERER, contract.DECIDES),
        ),
        Milestone(
            "a ledger without entries",
            ends_well((runs.NOTHING_WRITTEN,), _RECOVERER, contract.DECIDES),
        ),
        Milestone(
            "a writer that died with many adds in flight",
            ends_well((runs.LONG_DEAD,), _RECOVERER, contract.DECIDES),
        ),
        Milestone(
            "one of three bookies is down",
            ends_well((runs.one_is_down_for_good(),), _RECOVERER, contract.DECIDES),
        ),
        Milestone(
            "a single bookie has the last entry",
            ends_well((runs.found_once(),), _RECOVERER, contract.WRITTEN_BACK),
        ),
        Milestone(
            "the last ensemble has received nothing",
            ends_well(
                (runs.fresh_ensemble(), runs.old_bookie_is_gone()), _RECOVERER, contract.LOWER_BOUND
            ),
        ),
        Milestone(
            "two bookies are silent, so the recovery must fail",
            must_fail(
                runs.silent_bookie(),
                _RECOVERER,
                "BK",
                f"{contract.PROVEN} Here, two bookies do not respond, and they could have"
                " acknowledged the entry without the third.",
            ),
        ),
        Milestone(
            "fences that arrive late, a writer that resumes, a second recovery",
            holds(
                (
                    *(runs.TAKEN, runs.CLOSES_LATE, runs.lost_fence(), runs.one_fence_is_slow()),
                    *(runs.both_restart(), runs.cut_off_by_another()),
                ),
                _RECOVERER,
            ),
        ),
    ),
    generated=(recovery_follows_the_contract,),
    trials=(),
    slow_trials=(
        every_order_of(runs.ONE_IS_TAKEN, _RECOVERER),
        in_storms(
            lambda seeds: runs.storms(seeds, *runs.recoveries_by("r", "s"), bookies=5), _RECOVERERS
        ),
        in_storms(
            lambda seeds: runs.storms(seeds // 2, *runs.recoveries_by("r", "s"), bookies=6), _ALL
        ),
    ),
    costs=(
        Cost(
            "requests of a recovery",
            1.1,
            count_of(runs.LONG_DEAD, _RECOVERER, "fence.sent", "read.sent", "add.sent"),
        ),
        Cost(
            "simulated ms of a recovery",
            3.0,
            time_between(runs.LONG_DEAD, _RECOVERER, "recovery.started", "recovery.ended"),
        ),
    ),
    challenges=(
        "Continue to read while you write back, and read ahead. How close do you come to half of"
        " labkit's simulated time, and what must still happen in order?",
        "If a bookie fails while you write back, replace it. The metadata may name the new ensemble"
        " only when the ledger is closed: find the run that shows why.",
    ),
)
