"""Step 2: LastAddConfirmed, which every entry carries, and which tells readers how far they may
read.
"""

from labkit.course.workshop.client import contract, runs
from labkit.course.workshop.client.generated.lac_reading import readers_learn_lac
from labkit.course.workshop.client.generated.writing import entries_carry_lac
from labkit.course.workshop.client.trials import (
    count_of,
    ends_well,
    every_order_of,
    first_test,
    in_storms,
    must_fail,
    time_between,
)
from labkit.course.workshop.tracks import ContractLine, Cost, Step
from labkit.worlds.sim.workload.steps import Read

_BOTH = ("w", "q")
_READER = ("q",)
_FOLLOW = Read(client="q", polls=5, poll_ms=8.0)

LAST_ADD_CONFIRMED = Step(
    number=2,
    name="how far a ledger can be read",
    parts=("Writer", "Reader"),
    contract=(
        ContractLine(contract.ANNOUNCES),
        ContractLine(contract.IS_CONFIRMED, broken_by=("NoDirtyReads", "NothingBeyondLacIsRead")),
        ContractLine(contract.LEARNS_ANY, broken_by=("ReadersLearnWhatIsConfirmed",)),
        ContractLine(contract.NEVER_BACK),
        ContractLine(contract.LAST_ENSEMBLE),
        ContractLine(contract.CURRENT),
        ContractLine(contract.LEARNS),
        ContractLine(contract.TOO_FEW),
    ),
    write=(
        "`last_add_confirmed` in `Writer.add`, and `Reader.read_last_add_confirmed` (25 to 40"
        " lines). It asks all bookies of the last ensemble for their last entry, and finds out from"
        " the responses how far the ledger is confirmed. It returns as soon as the bookies that"
        " have not responded are too few to acknowledge an entry alone. `PROVES_ABSENCE` is also a"
        " response: that bookie has nothing. Any other error is no response. The last entry of a"
        " closed ledger is in its metadata, so read the metadata each time."
    ),
    hints=(
        "Spawn one task per bookie of the last ensemble. Each puts its index and its"
        " LastAddConfirmed, -1 or None into an `asyncio.Queue`.",
        "Take responses from the queue until they cover the ensemble. `write_set(first, E, Qw)` for"
        " first = 0 to E - 1 gives all write sets; fewer than Qa bookies of each may be missing. A"
        " reported LastAddConfirmed is valid no matter what the other bookies report.",
        "If all tasks have responded and some write set still has Qa bookies that you know nothing"
        " about, raise `BKReadException`.",
    ),
    first_test=first_test(
        "8 entries are confirmed, one after the other; then `read_last_add_confirmed()` returns at"
        " most 7; it may return less, because no later entry carries the last LastAddConfirmed.",
        runs.READ_LATE,
        _BOTH,
        reads=False,
        checks=(),
    ),
    generated=(entries_carry_lac, readers_learn_lac),
    trials=(
        ends_well(
            (
                runs.READ_BEFORE_ALL,
                runs.FOLLOWED,
                runs.FOLLOWED_STRIPED,
                runs.one_knows_nothing(),
                runs.one_knows_the_last(),
            ),
            _BOTH,
            contract.LEARNS,
            reads=False,
        ),
        must_fail(
            runs.some_are_silent(),
            _BOTH,
            "BKReadException",
            f"{contract.TOO_FEW} Here, two of three bookies are down, and Qa is 2, so the third"
            " bookie's response does not show how far the ledger is confirmed.",
            reads=False,
        ),
    ),
    slow_trials=(
        every_order_of(runs.READ_AT_ANY_MOMENT, _BOTH, reads=False),
        in_storms(lambda seeds: runs.storms(seeds, _FOLLOW), _BOTH, reads=False),
    ),
    costs=(
        Cost(
            "requests to learn LastAddConfirmed six times",
            1.0,
            count_of(runs.FOLLOWED, _READER, "read.sent", reads=False),
        ),
        Cost(
            "simulated ms to learn LastAddConfirmed while one of three bookies is slow",
            1.5,
            time_between(runs.ONE_ANSWERS_LATE, _READER, "read.sent", "lac.read", reads=False),
        ),
    ),
    challenges=(
        "Readers learn that the newest entry is confirmed only from the next entry. If the writer"
        " is idle, send its LastAddConfirmed without an entry (`explicitLacInterval`), and say what"
        " that costs.",
        "`tryReadLastAddConfirmed` returns the first response that is higher than what it knows."
        " What can its caller rely on?",
    ),
)
