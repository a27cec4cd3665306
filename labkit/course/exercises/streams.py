"""The exercises of lesson 12: Spark jobs that analyse a stream, tested with cases for which naive
jobs return wrong results.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from labkit.course.checking.exercise import exercise
from labkit.course.checking.generated_cases import generated_cases
from labkit.course.checking.refused import Refused
from labkit.course.exercises.generated.topics import Arrival, Sender, arriving_messages
from labkit.course.runs.topics.stream_trial import (
    SHOWN,
    Job,
    WrongRows,
    answer,
    one_stream,
    stream_of,
)
from labkit.course.runs.topics.stream_trial import neighbours as before_and
from labkit.views.spark.faults import plant_faults
from labkit.views.spark.flights import SAMPLE

RECORDED_COUNT = 24_000
DRAWN_COUNT = 300
SEEDS = (1, 2)
STREAM = ["topic", "partition"]
ID = ["ledger", "entry", "batch_index"]
SENT = [*STREAM, "producer", "sequence_id"]


def job(messages: DataFrame) -> DataFrame:
    """Show the signature of every job."""
    return messages


@dataclass(frozen=True, slots=True)
class Case:
    """A stream for which a naive job returns a wrong result, and the rule that the naive job
    breaks.
    """

    rule: str
    messages: pa.Table = field(compare=False)


def _recorded(rule: str) -> list[Case]:
    """For each seed, return a case that contains the recorded stream with planted faults of every
    kind.
    """
    stream = pq.read_table(SAMPLE)[-RECORDED_COUNT:]
    faults = {"swaps": 7, "redeliveries": 5, "lost_entries": 4}
    return [Case(rule, plant_faults(stream, **faults, seed=seed)) for seed in SEEDS]


def _run(learner: Job, cases: list[Case], judge: Callable[[Job, Case], None]) -> str:
    stories, recorded = cases[: -len(SEEDS)], cases[-len(SEEDS) :]
    for case in stories:
        judge(learner, case)
    _judge_drawn(learner, recorded[0].rule, judge)
    for case in recorded:
        judge(learner, case)
    counts = sum(case.messages.num_rows for case in cases[-len(SEEDS) :])
    return (
        f"Your job is correct for {len(cases) - len(SEEDS)} small streams and for {counts:,}"
        " recorded messages with planted faults."
    )


Topics = list[list[tuple[Arrival, Sender]]]


def _judge_drawn(learner: Job, rule: str, judge: Callable[[Job, Case], None]) -> None:
    """Run the job on hundreds of generated topics at once. If it fails, find one topic that makes
    it fail.
    """
    recipes = (partial(arriving_messages, topic=f"t{i:03}") for i in range(DRAWN_COUNT))
    topics = [next(generated_cases(recipe, 1, seed))[0] for seed, recipe in enumerate(recipes)]
    wrong = _refusal(learner, rule, judge, topics)
    while wrong and len(topics) > 1:
        middle = len(topics) // 2
        for half in (topics[:middle], topics[middle:]):
            if found := _refusal(learner, rule, judge, half):
                topics, wrong = half, found
                break
        else:
            break  # The job fails only for a combination of topics from both halves.
    if wrong:
        raise wrong


def _refusal(
    learner: Job, rule: str, judge: Callable[[Job, Case], None], topics: Topics
) -> Refused | None:
    rows = [row for topic in topics for row in topic]
    try:
        judge(learner, Case(rule, stream_of([row[0] for row in rows], [row[1] for row in rows])))
    except Refused as refused:
        return refused
    return None


# Exercise 1: order

ORDER = [
    Case(
        "Find every message that arrives right after one with a greater id, and no others.",
        stream_of(one_stream((5, 0, -1), (5, 2, -1), (5, 1, -1), (5, 3, -1))),
    ),
    Case(
        "Messages of one entry are ordered, too, by their batch indexes.",
        stream_of(one_stream((5, 0, 0), (5, 0, 2), (5, 0, 1), (5, 1, 0))),
    ),
    Case(
        "Compare the ledgers first: entry 0 of the next ledger is not out of order.",
        stream_of(one_stream((5, 8, -1), (5, 9, -1), (7, 0, -1), (7, 1, -1))),
    ),
    Case(
        "Ids of different partitions have no order: compare only within a partition.",
        stream_of(("t", p, 5 + p, entry, -1) for entry in range(3) for p in (1, 0)),
    ),
    Case(
        "A partition number means nothing without its topic: every topic has a partition 0.",
        stream_of((t, 0, ledger, e, -1) for e in range(3) for t, ledger in (("u", 9), ("t", 5))),
    ),
    Case(
        "Compare the parts of an id as numbers: 10 comes after 9.",
        stream_of(one_stream((9, 9, -1), (9, 10, -1), (10, 0, -1), (10, 1, -1))),
    ),
    Case(
        "A repeated id is a duplicate, but it is not out of order.",
        stream_of(one_stream((5, 0, -1), (5, 1, -1), (5, 1, -1), (5, 2, -1))),
    ),
]


@exercise(
    "streams.order",
    hints=(
        "Compare each message with the one that arrived before it in the same stream. A stream is"
        " one partition of one topic.",
        "`fn.lag(x).over(Window.partitionBy(...).orderBy(...))` is the x of the previous row."
        " Partition by the columns that identify a stream, and order by the one that counts"
        " arrivals.",
        "A struct compares field by field. Let position = fn.struct('ledger', 'entry',"
        " 'batch_index'), and keep the rows where position < fn.lag(position).over(arrival).",
    ),
    like=job,
    needs_spark=True,
)
def order(learner: Job) -> str:
    """A job finds exactly those messages that arrived right after a message of the same stream with
    a greater id.
    """
    recorded = _recorded("Find every message that arrives right after one with a greater id.")
    return _run(learner, ORDER + recorded, _judge_order)


def _judge_order(learner: Job, case: Case) -> None:
    messages = case.messages.to_pandas()
    told = answer(learner, case.messages, ["seq"])["seq"].tolist()
    right = _out_of_order(messages)
    wrong = sorted(set(told) ^ right)
    if wrong:
        found = wrong[0] in right
        words = "Your job did not find this message:" if found else "This is not out of order:"
        raise Refused(case.rule, WrongRows(words, before_and(messages, wrong[0])))
    if len(told) != len(right):
        raise Refused("Return each message that is out of order only once.")


def _out_of_order(messages: pd.DataFrame) -> set[int]:
    found: set[int] = set()
    for _, stream in messages.groupby(STREAM):
        last = (-1, -1, -1)
        for seq, *place in stream.sort_values("seq")[["seq", *ID]].itertuples(index=False):
            if tuple(place) < last:
                found.add(seq)
            last = tuple(place)
    return found


# Exercise 2: ledgers with holes

HOLES = [
    Case(
        "Entry ids in a ledger increase by one, so a skipped entry is missing.",
        stream_of(one_stream((5, 0, -1), (5, 1, -1), (5, 4, -1), (5, 5, -1))),
    ),
    Case(
        "Count entries, not messages: several messages may be in one entry.",
        stream_of(one_stream((5, 0, 0), (5, 0, 1), (5, 0, 2), (5, 2, 0), (5, 2, 1))),
    ),
    Case(
        "A redelivered message does not fill a hole.",
        stream_of(one_stream((5, 0, -1), (5, 1, -1), (5, 3, -1), (5, 1, -1))),
    ),
    Case(
        "An entry that arrives late, after later ones, is not missing.",
        stream_of(one_stream((5, 0, -1), (5, 2, -1), (5, 1, -1), (5, 3, -1))),
    ),
    Case(
        "Gaps between ledger ids mean nothing: ledger ids come from one counter for the whole"
        " cluster.",
        stream_of(one_stream((5, 0, -1), (5, 1, -1), (9, 0, -1), (9, 1, -1))),
    ),
    Case(
        "A reader that continues in the next ledger must receive it from entry 0 on.",
        stream_of(one_stream((5, 0, -1), (5, 1, -1), (9, 2, -1), (9, 3, -1))),
    ),
    Case(
        "A reader may start in the middle: in the first ledger of its stream, entries before the"
        " first one that arrived are not missing.",
        stream_of(one_stream((5, 7, -1), (5, 8, -1), (9, 0, -1))),
    ),
    Case(
        "Each stream has its own first ledger.",
        stream_of([("t", p, 5 + p, entry, -1) for entry in (3, 4) for p in (0, 1)]),
    ),
]
HOLE = [*STREAM, "ledger", "missing"]


@exercise(
    "streams.holes",
    hints=(
        "Three numbers per ledger are enough: the first and the last entry that arrived, and the"
        " number of different entries.",
        "There are last + 1 entries from entry 0 to the last one. `missing` is the number of these"
        " that did not arrive. Leave out ledgers with 0 missing entries.",
        "Only the first ledger of a stream counts from its first entry instead of 0."
        " `fn.row_number().over(Window.partitionBy('topic', 'partition').orderBy('ledger'))` is 1"
        " for it.",
    ),
    like=job,
    needs_spark=True,
)
def holes(learner: Job) -> str:
    """A job counts the missing entries of each ledger that has holes."""
    recorded = _recorded("Count every missing entry of a ledger, and no others.")
    return _run(learner, HOLES + recorded, _judge_holes)


def _judge_holes(learner: Job, case: Case) -> None:
    messages = case.messages.to_pandas()
    rows = list(answer(learner, case.messages, HOLE).itertuples(index=False, name=None))
    told = {tuple(place): int(missing) for *place, missing in rows}
    right = _missing(messages)
    wrong = sorted(place for place in told.keys() | right if told.get(place) != right.get(place))
    if wrong:
        words = (
            f"Ledger {wrong[0][-1]}: {right.get(wrong[0], 0)} entries are missing, your job counted"
            f" {told.get(wrong[0], 0)}."
        )
        topic, partition, ledger = wrong[0]
        is_stream = (messages["topic"] == topic) & (messages["partition"] == partition)
        shown = messages[is_stream & (messages["ledger"] <= ledger)].sort_values("seq")
        raise Refused(case.rule, WrongRows(words, shown[SHOWN].tail(5)))
    if len(rows) != len(right):
        raise Refused("Return each ledger with holes only once.")


def _missing(messages: pd.DataFrame) -> dict[tuple[str, int, int], int]:
    there: dict[tuple[str, int, int], set[int]] = {}
    for *place, entry in messages[[*STREAM, "ledger", "entry"]].itertuples(index=False):
        there.setdefault((place[0], place[1], place[2]), set()).add(entry)
    found: dict[tuple[str, int, int], int] = {}
    streams: set[tuple[str, int]] = set()
    for topic, partition, ledger in sorted(there):
        entries = there[topic, partition, ledger]
        start = 0 if (topic, partition) in streams else min(entries)
        streams.add((topic, partition))
        if missing := max(entries) + 1 - start - len(entries):
            found[topic, partition, ledger] = missing
    return found


# Exercise 3: messages that were stored twice

TWICE = [
    Case(
        "Find a message that is stored under two ids: both have the same sequence id.",
        stream_of(
            one_stream((5, 0, -1), (5, 1, -1), (6, 0, -1), (6, 1, -1)),
            [("p", 0), ("p", 1), ("p", 1), ("p", 2)],
        ),
    ),
    Case(
        "A repeated id is the same copy, delivered twice but stored only once.",
        stream_of(one_stream((5, 0, -1), (5, 1, -1), (5, 0, -1)), [("p", 0), ("p", 1), ("p", 0)]),
    ),
    Case(
        "Every producer numbers its own messages: a sequence id is valid only for its producer.",
        stream_of(one_stream((5, 0, -1), (5, 1, -1), (5, 2, -1)), [("p", 0), ("q", 0), ("q", 1)]),
    ),
    Case(
        "A producer numbers its messages separately in each partition, starting from 0.",
        stream_of([("t", p, 5 + p, 0, -1) for p in (0, 1)], [("p", 0), ("p", 0)]),
    ),
    Case(
        "A producer name is unique only within a topic.",
        stream_of([(t, 0, ledger, 0, -1) for t, ledger in (("t", 5), ("u", 6))], [("p", 0)] * 2),
    ),
    Case(
        "Two messages in one entry also have two different ids.",
        stream_of(one_stream((5, 0, 0), (5, 0, 1), (5, 1, 0)), [("p", 0), ("p", 0), ("p", 1)]),
    ),
]


@exercise(
    "streams.stored_twice",
    hints=(
        "`duplicates` looks for an id that arrived twice. Here the ids are different. What else is"
        " in every message, and is the same in both copies?",
        "`producer` and `sequence_id`, within one partition of one topic. Group by these four.",
        "Count the different ids in each group: `fn.count_distinct('ledger', 'entry',"
        " 'batch_index')`. If a group has more than one id, the message was stored twice.",
    ),
    like=job,
    needs_spark=True,
)
def stored_twice(learner: Job) -> str:
    """A job finds the messages that were sent once and stored under several ids."""
    rule = "Find every message that was stored under several ids, and no others."
    recorded = [Case(rule, _stored_again(case.messages)) for case in _recorded(rule)]
    return _run(learner, TWICE + recorded, _judge_twice)


def _stored_again(messages: pa.Table) -> pa.Table:
    """Store some messages again, each in a new ledger whose id is greater than all other ids."""
    again = messages.take(list(range(0, messages.num_rows, messages.num_rows // 5)))
    count, behind = again.num_rows, max(messages["ledger"].to_pylist())
    changed = {
        "seq": [messages.num_rows + i for i in range(count)],
        "ledger": [behind + 1 + i for i in range(count)],
        "entry": [0] * count,
        "batch_index": [-1] * count,
    }
    for name, values in changed.items():
        column = again.schema.get_field_index(name)
        again = again.set_column(column, name, pa.array(values, again.schema.field(name).type))
    return pa.concat_tables([messages, again])


def _judge_twice(learner: Job, case: Case) -> None:
    messages = case.messages.to_pandas()
    told = list(answer(learner, case.messages, SENT).itertuples(index=False, name=None))
    copies = messages.drop_duplicates([*SENT, *ID]).groupby(SENT).size()
    wrong = sorted(set(told) ^ set(copies[copies > 1].index))
    if wrong:
        is_it = (messages[SENT] == list(wrong[0])).all(axis=1)
        shown = messages[is_it].sort_values("seq")[[*SHOWN, *SENT[2:]]]
        found = copies[wrong[0]] > 1
        words = "Your job did not find this:" if found else "This was not stored twice:"
        raise Refused(case.rule, WrongRows(words, shown))
    if len(told) != len(set(told)):
        raise Refused("Return each message that was stored twice only once.")
