"""Step 8: all parts together in one process of a live cluster."""

from functools import partial

from labkit.course.checking.refused import Refused
from labkit.course.workshop.bookie.steps import (
    checkpoint_step,
    entry_log_step,
    index_step,
    journal_step,
    memtable_step,
    records_step,
    replay_step,
)
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.processes import run_live_trial
from labkit.course.workshop.tracks import ContractLine, FirstTest, Step

SURVIVES = "Every add that a client saw acknowledged survives SIGKILL and a restart."
READABLE = "Your files have BookKeeper's formats, so labkit's shell reads every entry from them."

BEFORE = (
    *(journal_step.STEP, records_step.STEP, memtable_step.STEP, entry_log_step.STEP),
    *(index_step.STEP, checkpoint_step.STEP, replay_step.STEP),
)


def _run_earlier_first_tests(learner: Learner) -> None:
    for step in BEFORE:
        step.first_test.run(learner)


def earlier_steps_are_right(learner: Learner) -> str:
    """Check all parts once more, because the live trial kills the process at only a few moments."""
    for step in BEFORE:
        for trial in step.trials:
            try:
                trial(learner)
            except Refused as refused:
                raise Refused(
                    f"Step {step.number}, {step.name}: {refused.message}", refused.counterexample
                ) from None
    return f"The quick tests of steps 1 to {len(BEFORE)} passed again."


STEP = Step(
    number=8,
    name="a real process",
    parts=(),
    contract=(ContractLine(SURVIVES), ContractLine(READABLE)),
    write="nothing new: all parts become one process of a live cluster.",
    hints=(
        "Run `labkit workshop bookie` first: steps 1 to 7 find most mistakes faster than a process"
        " can.",
        "The card shows the end of the bookie's log. A traceback in it names a line of your file.",
        "If entries are missing after SIGKILL, look at what is synced before `write` and"
        " `move_mark` return.",
    ),
    first_test=FirstTest(
        "    labkit bookie --store mybookie.py --id b0 --data ... --zookeeper ...",
        _run_earlier_first_tests,
    ),
    trials=(earlier_steps_are_right,),
    slow_trials=(partial(run_live_trial, "bookie", 8),),
    costs=(),
    challenges=(
        "Run your bookie next to labkit's: start `labkit local`, then `labkit bookie --store"
        " mybookie.py` with the address of its ZooKeeper.",
        "Read your files with BookKeeper's shell: `bookkeeper shell readjournal`, `readlog`,"
        " `ledger`.",
        "Serve the same directories with Apache BookKeeper's bookie, then with yours again.",
    ),
    has_storms=False,
    is_live=True,
)
