"""Step 7: all parts together in one program, which is a client of a live cluster."""

from labkit.course.workshop.client import contract
from labkit.course.workshop.client import program_runs as runs
from labkit.course.workshop.client.generated.appending import payloads_are_appended
from labkit.course.workshop.client.generated.opening import (
    ledgers_are_created,
    ledgers_are_taken_over,
)
from labkit.course.workshop.client.trials import ends_well, first_test, holds, must_fail
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.processes import run_live_trial
from labkit.course.workshop.tracks import ContractLine, Cost, Step

_WRITER = ("w",)
_BOTH = ("w", "r")


class _LiveTrial:
    """Runs the live trial, which tests the program and measures its cost on the same cluster."""

    def __init__(self) -> None:
        self._your_ms = self._our_ms = 0.0

    def __call__(self, learner: Learner) -> str:
        result = run_live_trial("client", 7, learner)
        self._your_ms, self._our_ms = result.your_ms, result.our_ms
        return str(result.report)

    def cost(self, learner: Learner | None) -> float:
        """Return the processor time measured in the last run."""
        return self._our_ms if learner is None else self._your_ms


_LIVE_TRIAL = _LiveTrial()

PROGRAM = Step(
    number=7,
    name="a program in a live cluster",
    parts=("create_ledger", "append_all", "take_over"),
    contract=(
        ContractLine(contract.CREATES),
        ContractLine(contract.STORES),
        ContractLine(contract.WINDOW),
        ContractLine(contract.REPORTS),
        ContractLine(contract.CLOSES),
        ContractLine(contract.FAILS_AT_ONCE),
        ContractLine(contract.TAKES_OVER),
        ContractLine(contract.SUCCEEDS),
        ContractLine(contract.SURVIVES, broken_by=("AcknowledgedIsDurable",)),
        ContractLine(contract.TAKEN_OVER),
        ContractLine(contract.READABLE),
    ),
    write=(
        "three functions (30 to 50 lines). `create_ledger` chooses an ensemble and stores the"
        " metadata; `append_all` keeps a window of adds in flight and reports each entry once it is"
        " confirmed; `take_over` recovers a ledger and reads all of it. Steps 1 to 6 do not change:"
        " only the world around them does. `asyncio.TaskGroup` ends with the first add that fails."
    ),
    hints=(
        "Store the metadata first, and only then create the `Writer` on `ledgers.cluster(...)`.",
        "A semaphore with `window` permits limits the adds in flight: acquire it before you start"
        " an add, and release it when the add is confirmed.",
        "`take_over` reads the metadata, calls `recover`, and reads entries 0 to"
        " `metadata.last_entry_id` with a `Reader` of the closed metadata.",
    ),
    first_test=first_test(
        "A program appends 12 entries, 4 at a time, to 3 of 4 bookies, and closes the ledger.",
        runs.APPENDS,
        _WRITER,
    ),
    generated=(ledgers_are_created, payloads_are_appended, ledgers_are_taken_over),
    trials=(
        ends_well((runs.TAKES_OVER, runs.LOSES_A_BOOKIE), _BOTH, contract.SUCCEEDS),
        must_fail(runs.TOO_FEW_BOOKIES, _WRITER, "BKNotEnoughBookiesException", contract.CREATES),
        holds((runs.IS_TAKEN,), _BOTH),
    ),
    slow_trials=(_LIVE_TRIAL,),
    costs=(
        Cost(
            "processor ms for 1,000 entries on a live cluster, 100 at a time",
            8.0,
            _LIVE_TRIAL.cost,
        ),
    ),
    challenges=(
        "Read ahead in `take_over`, with a window of requests, and return entries as they arrive.",
        "Run your program next to labkit's: start `labkit local`, then `seq 100000 | labkit client"
        " --file myclient.py --zookeeper HOST:PORT write`.",
        "Read your ledgers with BookKeeper's shell: `bookkeeper shell ledgermetadata`,"
        " `readledger`.",
        "Write while `labkit autorecovery` repairs the ledger. Which of its changes can your writer"
        " accept, and which one must end it?",
    ),
    has_storms=False,
    is_live=True,
)
