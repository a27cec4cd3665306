"""Step 7: all parts in one program, which is a process of a live cluster's client."""

from importlib import import_module

from labkit.course.workshop.client import program_runs as runs
from labkit.course.workshop.client.trials import ends_well, holds, must_fail, red
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.processes import in_processes
from labkit.course.workshop.step import Figure, Step

_WRITER = ("w",)
_BOTH = ("w", "r")


class _SideBySide:
    """Both clients in turn on the same bookies: figures of two clusters say little.

    `labkit.course.workshop.check` asks for the learner's figure first.
    """

    def __init__(self) -> None:
        self._ours = 0.0

    def __call__(self, learner: Learner | None) -> float:
        if learner is None:
            return self._ours
        # A browser tab has no `labkit.worlds.live`, and the other steps run there.
        served = import_module("labkit.course.workshop.client.served")
        yours, self._ours = served.processor_times(learner)
        return float(yours)


PROGRAM = Step(
    number=7,
    name="a program of a live cluster",
    parts=("create_ledger", "append_all", "take_over"),
    invariants=(
        "What your program reported as confirmed is in the ledger, whichever client closes it and"
        " whichever bookie is killed.",
        "A program whose ledger was taken over confirms nothing that is not in the ledger, and ends"
        " with an error.",
        "The metadata in ZooKeeper name the bookies that have the entries, and where the ledger"
        " ends: labkit's client and shell, and BookKeeper's own, read it.",
    ),
    write=(
        "In 30 to 50 lines: `create_ledger` chooses an ensemble and stores the metadata;"
        " `append_all` keeps a window of adds under way and reports each entry once it is"
        " confirmed; `take_over` recovers a ledger and reads all of it. Steps 1 to 6 stay as they"
        " are: only the world is another one. `asyncio.TaskGroup` ends with the first add that"
        " fails."
    ),
    red=red(
        "A program appends 12 entries, 4 at a time, to 3 of 4 bookies, and closes the ledger.",
        runs.APPENDS,
        _WRITER,
    ),
    trials=(
        ends_well(
            (runs.TAKES_OVER, runs.LOSES_A_BOOKIE),
            _BOTH,
            "Enough bookies take writes: then the program ends well.",
        ),
        must_fail(
            runs.TOO_FEW_BOOKIES,
            _WRITER,
            "BKNotEnoughBookiesException",
            "Three bookies are needed, and two take writes: no ledger is made of them.",
        ),
        holds((runs.IS_TAKEN,), _BOTH),
    ),
    worlds=(
        in_processes(
            "labkit.course.workshop.client.served", "serves_a_cluster", "labkit workshop client 7"
        ),
    ),
    figures=(
        Figure(
            "processor ms for 1,000 entries on a live cluster, 100 at a time", 8.0, _SideBySide()
        ),
    ),
    challenges=(
        "Read ahead in `take_over`, with a window of requests, and give entries as they come.",
        "Run it beside labkit's own: `labkit local`, then `seq 100000 | labkit client --file"
        " myclient.py --zookeeper HOST:PORT write`.",
        "Let BookKeeper's own shell read it: `bookkeeper shell ledgermetadata`, `readledger`.",
        "Write while `labkit autorecovery` repairs: which of its changes may your writer accept,"
        " and which one ends it?",
    ),
    is_live=True,
)
