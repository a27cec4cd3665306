"""Step 7: all parts in one process of a live cluster."""

from labkit.course.workshop.bookie.steps import (
    checkpoint_step,
    entry_log_step,
    index_step,
    journal_step,
    memtable_step,
    replay_step,
)
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.processes import in_processes
from labkit.course.workshop.step import RedTest, Step

BEFORE = (
    *(journal_step.STEP, memtable_step.STEP, entry_log_step.STEP),
    *(index_step.STEP, checkpoint_step.STEP, replay_step.STEP),
)


def _red(learner: Learner) -> None:
    for step in BEFORE:
        step.red.run(learner)


STEP = Step(
    number=7,
    name="a real process",
    parts=(),
    invariants=(
        "What a client got an answer for is there after SIGKILL.",
        "Your files are BookKeeper's: its shell and its client read them.",
    ),
    write="nothing new: all six parts become one process of a live cluster.",
    red=RedTest(
        "    labkit bookie --store mybookie.py --id bookie-1 --data ... --zookeeper ...", _red
    ),
    trials=(),
    worlds=(
        in_processes(
            "labkit.course.workshop.bookie.served", "serves_a_cluster", "labkit workshop bookie 7"
        ),
    ),
    figures=(),
    challenges=(
        "Run it beside labkit's own: `labkit local`, then `labkit bookie --store mybookie.py` with"
        " the address of its ZooKeeper.",
        "Let BookKeeper's own shell read it: `bookkeeper shell readjournal`, `readlog`, `ledger`.",
        "Serve the same directories with Apache BookKeeper's bookie, then with yours again.",
    ),
    is_live=True,
)
