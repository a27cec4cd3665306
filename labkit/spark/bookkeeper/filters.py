"""Which conditions of a query spare reading, and which only spare handing rows on.

A condition on ledger, entry or partition leaves out what cannot fit before it is read.  One on the
time of publication leaves out ledgers that were closed before: their messages were stored, and so
published, earlier.  Producers stamp messages by clocks of their own, so that rule waits for
`clock_skew_ms`.  The other way round there is no rule: a message may be stored long after its
stamp, when its producer had to send it again.

Then every condition is put to every row, so none is left to Spark.

This is off unless option `pushFilters` is on.  Spark 4.3 keeps what the source answered to the last
conditions with the DataFrame that `load()` gave, and gives it to every other query over that, so
these silently lack rows (it was mended later, in SPARK-58551).  With the option on, load anew for
each query; never join or unite two of one load.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from labkit.spark.bookkeeper.rows import Numbers, Rows
from labkit.spark.bookkeeper.spans import Span
from labkit.topic.chain import LedgerInfo

PUBLISH_TIME = "publish_time"
_COLUMNS = ("ledger", "entry", "partition", PUBLISH_TIME)
"""None of them is ever null."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Condition:
    """`column` lies between `lowest` and `highest`, and is one of `values` where there are any.

    Times are microseconds since 1970.
    """

    column: str
    lowest: int = _LOWEST
    highest: int = _HIGHEST
    values: tuple[int, ...] = ()

    def holds(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """For each of the column's values."""
        if self.values:
            return np.isin(numbers, self.values)
        return (numbers >= self.lowest) & (numbers <= self.highest)

    def allows(self, number: int) -> bool:
        """Whether this value fits."""
        return bool(self.holds(np.array([number]))[0])


def take_filters(filters: Iterable[Filter], conditions: list[Condition]) -> Iterator[Filter]:
    """Add to `conditions` what can be tested here; yields the filters that Spark has to test."""
    for each in filters:
        column = getattr(each, "attribute", ("",))
        make = _MAKERS.get(type(each))
        if len(column) != 1 or column[0] not in _COLUMNS or make is None:
            yield each
        elif not isinstance(each, IsNotNull):
            conditions.append(make(column[0], each))


def may_have_some(
    conditions: Iterable[Condition], partition: int, info: LedgerInfo, clock_skew_ms: int
) -> bool:
    """Whether a row of the ledger can fit."""
    for condition in conditions:
        if condition.column == PUBLISH_TIME:
            closed_at_us = (info.closed_at_ms + clock_skew_ms) * 1000
            fits = not info.closed_at_ms or closed_at_us >= condition.lowest
        elif condition.column == "entry":
            continue
        else:
            fits = condition.allows(
                partition if condition.column == "partition" else info.ledger_id
            )
        if not fits:
            return False
    return True


def narrowed(span: Span, conditions: Iterable[Condition]) -> Span | None:
    """What of the span can fit; None for nothing."""
    first, last = span.first, span.last
    for condition in conditions:
        if condition.column == "entry":
            first, last = max(first, condition.lowest), min(last, condition.highest)
    return span.part(first, last) if first <= last else None


def fitting(conditions: Iterable[Condition], rows: Rows) -> npt.NDArray[np.bool_] | None:
    """Which rows fit; None for all."""
    fits: npt.NDArray[np.bool_] | None = None
    for condition in conditions:
        # The span has what the other conditions ask for.
        if condition.column in (PUBLISH_TIME, "entry"):
            numbers = (
                rows.publish_times_us() if condition.column == PUBLISH_TIME else rows.entry_ids()
            )
            holds = condition.holds(numbers)
            fits = holds if fits is None else fits & holds
    return None if fits is None or fits.all() else fits


def _number(value: Any) -> int:
    if isinstance(value, datetime):
        since = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (since - _EPOCH) // timedelta(microseconds=1)
    return int(value)


def _equal(column: str, each: Any) -> Condition:
    number = _number(each.value)
    return Condition(column, number, number)


def _in(column: str, each: Any) -> Condition:
    numbers = sorted(_number(value) for value in each.value if value is not None)
    if not numbers:
        return Condition(column, lowest=1, highest=0)
    return Condition(column, numbers[0], numbers[-1], tuple(numbers))


_MAKERS: dict[type[Filter], Callable[[str, Any], Condition]] = {
    EqualTo: _equal,
    In: _in,
    GreaterThan: lambda column, each: Condition(column, lowest=_number(each.value) + 1),
    GreaterThanOrEqual: lambda column, each: Condition(column, lowest=_number(each.value)),
    LessThan: lambda column, each: Condition(column, highest=_number(each.value) - 1),
    LessThanOrEqual: lambda column, each: Condition(column, highest=_number(each.value)),
    IsNotNull: lambda column, each: Condition(column),
}
