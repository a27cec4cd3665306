"""Lesson 13: a sink that survives a crash, and a state that survives a restart."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import topics as drawn
from labkit.course.runs.stored_batches import COLUMNS, Row, table_of
from labkit.course.runs.stream_trial import WrongRows, folder_of_trials, session_of_trials
from labkit.views.spark.gaps import step

Store = Callable[[DataFrame, int, str], None]
Place = tuple[int, int]
Step = Callable[[Place | None, Place], tuple[Place, int]]


def store(rows: DataFrame, batch_id: int, folder: str) -> None:
    """What the answer to the first exercise looks like."""


# Exercise 1: the sink


@dataclass(frozen=True, slots=True)
class BatchRun:
    """What happens to the batches, and the rule that a quick answer breaks there.

    `batches` gives for each call its number; a crash lies between two calls of the same one, and
    `cut` names the call during which it happened: half of its rows are in the batch's folder then.
    With two `partitions` every other batch has the entry ids of the one before, in another ledger.
    """

    rule: str
    batches: tuple[int, ...]
    cut: int = -1
    partitions: int = 1


RUNS = (
    BatchRun("Every row of every batch must be in the folder.", (0, 1, 2)),
    BatchRun(
        "A batch that was stored, but not committed, comes again with the same rows: they must be"
        " in the folder once.",
        (0, 1, 1, 2),
    ),
    BatchRun(
        "A batch that comes again may have been stored in part: that its folder exists does not"
        " mean that its rows are there.",
        (0, 1, 1, 2),
        cut=1,
    ),
    BatchRun("The first batch can come again, too.", (0, 0, 0, 1)),
    BatchRun(
        "Batches have numbers of two digits as well, and any of them can come again.",
        (8, 9, 10, 10, 20, 20, 110),
        cut=4,
        partitions=2,
    ),
)


@exercise(
    "streaming.sink",
    hints=(
        "A batch that comes again has the same number and the same rows. What name could its files"
        " have, so that storing it twice is storing it once?",
        "A folder for each batch below the given one, named by its number. Spark reads"
        " `batch=7/...` as a column `batch` with the value 7.",
        "`rows.write.mode('overwrite')` replaces what an earlier attempt left, whole or in part."
        " Into which folder must it write to replace nothing else?",
    ),
    needs_spark=True,
)
def sink(learner: Store) -> str:
    """After any crash and restart, every row is in the folder exactly once."""
    if not callable(learner):
        raise Refused("The answer must be a function like store(rows, batch_id, folder).")
    for run in RUNS:
        found = _stored(learner, run)
        expected = Counter(row for batch in set(run.batches) for row in _rows_of(run, batch))
        wrong = sorted(entry for entry in expected | found if found[entry] != expected[entry])
        if wrong:
            raise Refused(run.rule, _shown(run, wrong, found))
    return f"Every row once, in {len(RUNS)} runs with crashes after, before and in a write."


def _rows_of(run: BatchRun, batch: int) -> list[Row]:
    number, partition = divmod(batch, run.partitions)
    return [(partition, 5 + partition, 3 * number + i) for i in range(3)]


def _stored(learner: Store, run: BatchRun) -> Counter[Row]:
    spark = session_of_trials()
    with folder_of_trials() as folder:
        for call, batch in enumerate(run.batches):
            rows = _rows_of(run, batch)
            try:
                folder.store(learner, spark.createDataFrame(table_of(rows)), batch)
            except PySparkException as error:
                first_line = str(error).partition("\n")[0].partition(" SQLSTATE")[0]
                raise Refused(f"Spark cannot store batch {batch}: {first_line}") from None
            if call == run.cut:
                folder.halve(rows)
        return Counter(folder.rows())


def _shown(run: BatchRun, wrong: list[Row], found: Counter[Row]) -> WrongRows:
    calls = ", ".join(map(str, run.batches))
    cut = f"; the first batch {run.batches[run.cut]} was cut short" if run.cut >= 0 else ""
    rows = pd.DataFrame(wrong, columns=COLUMNS).assign(times=[found[each] for each in wrong])
    rows = rows[[*COLUMNS[-2:], "times"]]
    words = f"Your function was called with the batches {calls}{cut}. Not there once:"
    return WrongRows(words, rows)


# Exercise 2: the state


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Entries in the order of their arrival, how many are missing, and the rule that tells."""

    rule: str
    entries: tuple[Place, ...]
    missing: int


STREAMS = (
    Arrivals("Nothing is missing where each entry follows the last.", ((5, 0), (5, 1), (5, 2)), 0),
    Arrivals("Entries that are skipped are missing.", ((5, 0), (5, 1), (5, 4), (5, 5)), 2),
    Arrivals(
        "A reader may begin anywhere: nothing before its first entry is missing.",
        ((5, 7), (5, 8)),
        0,
    ),
    Arrivals(
        "The next ledger begins at entry 0, whatever the last entry of the previous one was.",
        ((5, 8), (5, 9), (7, 0), (7, 1)),
        0,
    ),
    Arrivals(
        "What is missing at the beginning of a later ledger is missing.",
        ((5, 0), (5, 1), (7, 2), (7, 3)),
        2,
    ),
    Arrivals(
        "An entry that comes again was not missing, and does not move the state back.",
        ((5, 0), (5, 1), (5, 2), (5, 3), (5, 1), (5, 4)),
        0,
    ),
    Arrivals(
        "An entry of an earlier ledger that comes again changes nothing.",
        ((5, 0), (7, 0), (7, 1), (5, 0), (7, 2)),
        0,
    ),
)


@dataclass(frozen=True, slots=True)
class Calls:
    """The learner's function, called entry by entry."""

    told: tuple[tuple[Place | None, Place, tuple[Place, int]], ...]
    missing: int

    def __str__(self) -> str:
        lines = [f"step({last}, {entry}) gave {answer}" for last, entry, answer in self.told]
        total = sum(answer[1] for *_, answer in self.told)
        return "\n".join([*lines, f"{self.missing} entries are missing, yours counts {total}"])


def _count_all(learner: Step, entries: list[Place]) -> int:
    """How many entries of a stream are missing, by a function that is called for each."""
    last: Place | None = None
    total = 0
    for entry in entries:
        last, missing = learner(last, entry)
        total += missing
    return total


def _arrival_words(case: Arguments) -> str:
    return f"for each of {', '.join(map(str, case[0]))}; all that it counted"


@exercise(
    "streaming.gaps",
    hints=(
        "Four cases: nothing was seen yet; the entry is not beyond `last`; it is in the same ledger"
        " as `last`; it is in a later one.",
        "Which entry is expected next? In the same ledger `last[1] + 1`, in a later one 0. What is"
        " missing is the distance from there to the entry that came.",
        "Tuples compare by ledger first: `if last is not None and entry <= last: return last, 0`"
        " keeps the state where it is when something comes again.",
    ),
    like=step,
    cases=Cases(
        drawn.arriving_entries,
        step,
        "What is missing is what was jumped over, in each ledger but the first from entry 0 on, and"
        " what comes again changes nothing.",
        ask=_count_all,
        words=_arrival_words,
    ),
)
def gaps(learner: Step) -> str:
    """The count is right however the stream is cut, and whatever is delivered again."""
    for arrivals in STREAMS:
        _judge(learner, arrivals.entries, arrivals.missing, arrivals.rule)
    return f"Right in {len(STREAMS)} streams."


def _judge(learner: Step, entries: tuple[Place, ...], missing: int, rule: str) -> None:
    last: Place | None = None
    told = []
    for entry in entries:
        answer = learner(last, entry)
        if len(answer) != 2 or not isinstance(answer[0], tuple) or not isinstance(answer[1], int):
            raise Refused(
                "Your function must return two values: the new `last`, which is a pair as `entry`"
                " is, and a number."
            )
        told.append((last, entry, answer))
        last = answer[0]
    if sum(answer[1] for *_, answer in told) != missing:
        raise Refused(rule, Calls(tuple(told), missing))
    if any(answer[1] < 0 for *_, answer in told):
        raise Refused(
            "The number of missing entries is never below 0.", Calls(tuple(told), missing)
        )
