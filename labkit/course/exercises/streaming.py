"""The exercises of lesson 13: an idempotent sink, and a state that lets a job detect gaps."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import exercise
from labkit.course.checking.refused import Refused
from labkit.course.exercises.generated import topics as generated
from labkit.course.runs.topics.stored_batches import COLUMNS, Row, table_of
from labkit.course.runs.topics.stream_trial import (
    WrongRows,
    first_line,
    trial_folder,
    trial_session,
)
from labkit.views.spark.gaps import step

Store = Callable[[DataFrame, int, str], None]
Place = tuple[int, int]
Step = Callable[[Place | None, Place], tuple[Place, int]]


# Exercise 1: the sink


@dataclass(frozen=True, slots=True)
class BatchRun:
    """A sequence of calls to the sink, and the rule that the sequence tests.

    batches: the batch number of each call. If two calls have the same number, a crash happened
    between them.
    cut: the index of the call during which a crash happens, namely after half of the rows have been
    stored.
    partitions: the number of partitions. If there are two, every other batch has the same entry ids
    as the previous batch, but in another ledger.
    """

    rule: str
    batches: tuple[int, ...]
    cut: int = -1
    partitions: int = 1


RUNS = (
    BatchRun("Every row of every batch must be in the folder.", (0, 1, 2)),
    BatchRun(
        "A batch that was stored but not committed is delivered again with the same rows, which"
        " must be in the folder only once.",
        (0, 1, 1, 2),
    ),
    BatchRun(
        "A repeated batch may have been stored only partly: if its folder exists, some of its rows"
        " may still be missing.",
        (0, 1, 1, 2),
        cut=1,
    ),
    BatchRun("The first batch can be repeated, too.", (0, 0, 0, 1)),
    BatchRun(
        "Batch numbers can have several digits, and any batch can be repeated.",
        (8, 9, 10, 10, 20, 20, 110),
        cut=4,
        partitions=2,
    ),
)


@exercise(
    "streaming.sink",
    hints=(
        "A repeated batch has the same number and the same rows. How could you name its files so"
        " that storing it twice has the same effect as storing it once?",
        "Create a folder for each batch, named after its number. Spark reads `batch=7/...` as a"
        " column `batch` with the value 7.",
        "`rows.write.mode('overwrite')` replaces the files of an earlier attempt, complete or not."
        " To which folder must it write so that it replaces nothing else?",
    ),
    needs_spark=True,
)
def sink(learner: Store) -> str:
    """The folder contains every row exactly once, no matter when the sink crashes and restarts."""
    if not callable(learner):
        raise Refused("Expected a function like store(rows, batch_id, folder).")
    for run in RUNS:
        found = _stored(learner, run)
        expected = Counter(row for batch in set(run.batches) for row in _rows_of(run, batch))
        wrong = sorted(entry for entry in expected | found if found[entry] != expected[entry])
        if wrong:
            raise Refused(run.rule, _shown(run, wrong, found))
    return (
        f"Every row was stored once in {len(RUNS)} runs, with crashes before, during and after a"
        " write."
    )


def _rows_of(run: BatchRun, batch: int) -> list[Row]:
    number, partition = divmod(batch, run.partitions)
    return [(partition, 5 + partition, 3 * number + i) for i in range(3)]


def _stored(learner: Store, run: BatchRun) -> Counter[Row]:
    spark = trial_session()
    with trial_folder() as folder:
        for call, batch in enumerate(run.batches):
            rows = _rows_of(run, batch)
            try:
                folder.store(learner, spark.createDataFrame(table_of(rows)), batch)
            except PySparkException as error:
                raise Refused(f"Spark cannot store batch {batch}: {first_line(error)}") from None
            if call == run.cut:
                folder.simulate_crash(rows)
        return Counter(folder.rows())


def _shown(run: BatchRun, wrong: list[Row], found: Counter[Row]) -> WrongRows:
    calls = ", ".join(map(str, run.batches))
    cut = f"; the first batch {run.batches[run.cut]} was cut short" if run.cut >= 0 else ""
    rows = pd.DataFrame(wrong, columns=COLUMNS).assign(times=[found[each] for each in wrong])
    rows = rows[[*COLUMNS[-2:], "times"]]
    words = f"Your function was called with the batches {calls}{cut}. Rows not stored exactly once:"
    return WrongRows(words, rows)


# Exercise 2: the state


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A stream, with its entries in order of arrival, the number of missing entries, and the rule
    that the stream tests.
    """

    rule: str
    entries: tuple[Place, ...]
    missing: int


STREAMS = (
    Arrivals("No entry is missing if the ids are consecutive.", ((5, 0), (5, 1), (5, 2)), 0),
    Arrivals("Skipped entries are missing.", ((5, 0), (5, 1), (5, 4), (5, 5)), 2),
    Arrivals(
        "A reader may start anywhere, so entries before the first one are not missing.",
        ((5, 7), (5, 8)),
        0,
    ),
    Arrivals(
        "The next ledger starts at entry 0, no matter where the previous one ended.",
        ((5, 8), (5, 9), (7, 0), (7, 1)),
        0,
    ),
    Arrivals(
        "Entries skipped at the start of a later ledger are missing.",
        ((5, 0), (5, 1), (7, 2), (7, 3)),
        2,
    ),
    Arrivals(
        "A redelivered entry is not missing and must not move the state back.",
        ((5, 0), (5, 1), (5, 2), (5, 3), (5, 1), (5, 4)),
        0,
    ),
    Arrivals(
        "A redelivered entry of an earlier ledger changes nothing.",
        ((5, 0), (7, 0), (7, 1), (5, 0), (7, 2)),
        0,
    ),
)


@dataclass(frozen=True, slots=True)
class Calls:
    calls: tuple[tuple[Place | None, Place, tuple[Place, int]], ...]
    missing: int

    def __str__(self) -> str:
        lines = [f"step({last}, {entry}) returned {answer}" for last, entry, answer in self.calls]
        total = sum(answer[1] for *_, answer in self.calls)
        return "\n".join([*lines, f"{self.missing} entries are missing; yours counted {total}"])


def _count_all(learner: Step, entries: list[Place]) -> int:
    """Count the missing entries of a stream by calling the learner's function for each entry."""
    last: Place | None = None
    total = 0
    for entry in entries:
        last, missing = learner(last, entry)
        total += missing
    return total


def _arrival_words(case: Arguments) -> str:
    return f"for each of {', '.join(map(str, case[0]))}, adding up the counts"


@exercise(
    "streaming.gaps",
    hints=(
        "There are four cases: no entry has been seen yet; the entry is not after `last`; it is in"
        " the same ledger as `last`; it is in a later ledger.",
        "Which entry is expected next? `last[1] + 1` in the same ledger, 0 in a later one. The"
        " number of missing entries is the distance from there to the entry that arrived.",
        "Tuples compare by ledger first, so `if last is not None and entry <= last: return last, 0`"
        " leaves the state unchanged for redelivered entries.",
    ),
    like=step,
    cases=Cases(
        generated.arriving_entries,
        step,
        "Skipped entries are missing, counting from entry 0 in every ledger except the first, and"
        " redelivered entries change nothing.",
        run_case=_count_all,
        describe=_arrival_words,
    ),
)
def gaps(learner: Step) -> str:
    """The count is correct no matter how the stream is split and which entries are redelivered."""
    for arrivals in STREAMS:
        _judge(learner, arrivals.entries, arrivals.missing, arrivals.rule)
    return f"Your function counted the missing entries of {len(STREAMS)} streams correctly."


def _judge(learner: Step, entries: tuple[Place, ...], missing: int, rule: str) -> None:
    last: Place | None = None
    calls = []
    for entry in entries:
        answer = learner(last, entry)
        if len(answer) != 2 or not isinstance(answer[0], tuple) or not isinstance(answer[1], int):
            raise Refused(
                "Your function must return two values: the new `last`, which is a pair like"
                " `entry`, and a number."
            )
        calls.append((last, entry, answer))
        last = answer[0]
    if sum(answer[1] for *_, answer in calls) != missing:
        raise Refused(rule, Calls(tuple(calls), missing))
    if any(answer[1] < 0 for *_, answer in calls):
        raise Refused(
            "The number of missing entries must not be negative.", Calls(tuple(calls), missing)
        )
