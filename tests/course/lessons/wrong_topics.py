"""Wrong answers to lessons 11 and 13, each of which is correct in the most obvious cases."""

from collections.abc import Callable
from typing import Any

from labkit.course.exercises.topics import comes_before, is_acknowledged, may_go
from labkit.views.spark.gaps import Position, step

Answer = Callable[..., Any]


def same_partition(key: Callable[[Any], Any]) -> Answer:
    return lambda a, b: None if a.partition != b.partition else key(a) < key(b)


def whole(m: Any) -> tuple[int, int, int]:
    return m.ledger_id, m.entry_id, m.batch_index


ORDER = {
    "as text": same_partition(str),
    "entries alone": same_partition(lambda m: (m.entry_id, m.batch_index)),
    "no batch index": same_partition(lambda m: whole(m)[:2]),
    "no entry": same_partition(lambda m: (m.ledger_id, m.batch_index)),
    "31 bits": same_partition(lambda m: tuple(each % 2**31 for each in whole(m))),
    "added up": same_partition(lambda m: 1000 * m.ledger_id + 10 * m.entry_id + m.batch_index),
    "partition forgotten": lambda a, b: whole(a) < whole(b),
    "partition first": lambda a, b: (a.partition, whole(a)) < (b.partition, whole(b)),
    "or equal": lambda a, b: None if a.partition != b.partition else whole(a) <= whole(b),
    "false for two partitions": lambda a, b: bool(comes_before(a, b)),
    "text of the batch": same_partition(lambda m: (*whole(m)[:2], str(m.batch_index))),
}


def in_a_range(position: Any, ranges: Any) -> bool:
    return any(lower < position <= upper for lower, upper in ranges)


def is_gone(left: int | None, index: int) -> bool:
    return left is not None and not left >> index & 1


ACKNOWLEDGED = {
    "mark-delete alone": lambda at, index, mark, ranges, left: at <= mark,
    "before mark-delete": lambda at, index, mark, ranges, left: (
        at < mark or in_a_range(at, ranges) or is_gone(left, index)
    ),
    "closed below": lambda at, index, mark, ranges, left: (
        is_acknowledged(at, index, mark, ranges, left) or any(at == low for low, _ in ranges)
    ),
    "open above": lambda at, index, mark, ranges, left: (
        at <= mark or any(low < at < up for low, up in ranges) or is_gone(left, index)
    ),
    "entries alone": lambda at, index, mark, ranges, left: (
        at[1] <= mark[1] or in_a_range(at, ranges) or is_gone(left, index)
    ),
    "the first range": lambda at, index, mark, ranges, left: is_acknowledged(
        at, index, mark, ranges[:1], left
    ),
    "no batches": lambda at, index, mark, ranges, left: is_acknowledged(
        at, index, mark, ranges, None
    ),
    "ones are done": lambda at, index, mark, ranges, left: (
        at <= mark or in_a_range(at, ranges) or (left is not None and bool(left >> index & 1))
    ),
    "32 bits": lambda at, index, mark, ranges, left: (
        is_acknowledged(at, index % 32, mark, ranges, left)
        if left is not None
        else is_acknowledged(at, index, mark, ranges, left)
    ),
    "ranges within a ledger": lambda at, index, mark, ranges, left: is_acknowledged(
        at, index, mark, [r for r in ranges if r[0][0] == r[1][0]], left
    ),
    "any of the batch": lambda at, index, mark, ranges, left: (
        is_acknowledged(at, index, mark, ranges, None) or left is not None
    ),
}
RETENTION = {
    "consumed": lambda done, age, left, ms, size: done,
    "no consumer": lambda done, age, left, ms, size: may_go(True, age, left, ms, size),
    "both limits": lambda done, age, left, ms, size: (
        done and ms != -1 and age > ms and size != -1 and left >= size
    ),
    "time alone": lambda done, age, left, ms, size: may_go(done, age, 0, ms, -1),
    "size alone": lambda done, age, left, ms, size: may_go(done, 0, left, -1, size),
    "-1 is passed": lambda done, age, left, ms, size: done and (age > ms or left >= size),
    "as old as": lambda done, age, left, ms, size: (
        done and ((ms != -1 and age >= ms) or (size != -1 and left >= size))
    ),
    "more bytes than": lambda done, age, left, ms, size: (
        done and ((ms != -1 and age > ms) or (size != -1 and left > size))
    ),
    "0 sets no limit": lambda done, age, left, ms, size: (
        done and ((ms > 0 and age > ms) or (size > 0 and left >= size))
    ),
    "one -1 keeps all": lambda done, age, left, ms, size: (
        may_go(done, age, left, ms, size) and -1 not in (ms, size)
    ),
}


def turned_back(last: Position | None, entry: Position) -> tuple[Position, int]:
    return entry, step(last, entry)[1]


def no_rollover(last: Position | None, entry: Position) -> tuple[Position, int]:
    if last is None or entry <= last:
        return last or entry, 0
    return entry, max(entry[1] - last[1] - 1, 0)


def blind_beginnings(last: Position | None, entry: Position) -> tuple[Position, int]:
    is_later = last is not None and entry[0] > last[0]
    return (entry, 0) if is_later else step(last, entry)


def one_at_most(last: Position | None, entry: Position) -> tuple[Position, int]:
    place, missed = step(last, entry)
    return place, min(missed, 1)


def one_digit(last: Position | None, entry: Position) -> tuple[Position, int]:
    place, missed = step(last, entry)
    return place, missed % 10


GAPS = {
    "nothing": lambda last, entry: (entry, 0),
    "from zero": lambda last, entry: step((entry[0], -1) if last is None else last, entry),
    "no rollover": no_rollover,
    "beginnings": blind_beginnings,
    "turned back": turned_back,
    "one at most": one_at_most,
    "one digit": one_digit,
    "31 bits": lambda last, entry: step(last, (entry[0] % 2**31, entry[1])),
    "ledgers are entries": lambda last, entry: (
        (entry, entry[0] - last[0] - 1)
        if last is not None and entry[0] > last[0] + 1
        else step(last, entry)
    ),
    "stays": lambda last, entry: (last or entry, step(last, entry)[1]),
}

WRONG: dict[str, dict[str, Answer]] = {
    "topics.order": ORDER,
    "topics.acknowledged": ACKNOWLEDGED,
    "topics.retention": RETENTION,
    "streaming.gaps": GAPS,
}
