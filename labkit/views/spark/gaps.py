"""Finds missing entries in a running stream, with one position per partition as the state.

The position is that of the furthest entry seen so far. An entry that arrives again, for example
after a restart, changes nothing. An entry that is not the next one reveals how many entries are
missing before it.

    gaps = messages.groupBy("partition").transformWithStateInPandas(
        GapDetector(), GAPS, outputMode="Append", timeMode="None"
    )

Spark keeps the state in the query's checkpoint, where you can read it with
`spark.read.format("statestore").option("stateVarName", STATE).load(checkpoint)`. The query needs
Spark's RocksDB state store (the setting in `STATE_STORE`).
"""

from collections.abc import Callable, Iterator

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

Position = tuple[int, int]
"""Ledger and entry."""
StepFunction = Callable[[Position | None, Position], tuple[Position, int]]

STATE = "last"
GAPS = "partition int, entries long, missing long"
STATE_STORE = (
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)
"""The name and the value of Spark's setting."""


def step(last: Position | None, entry: Position) -> tuple[Position, int]:
    """Return the furthest position including this entry, and the number of entries missing before
    it.

    If `last` is None, no entry has been seen yet, and the reader may have started anywhere.
    """
    if last is None:
        return entry, 0
    if entry <= last:
        return last, 0
    expected = last[1] + 1 if entry[0] == last[0] else 0
    return entry, entry[1] - expected


class GapDetector(StatefulProcessor):
    """Counts the new and the missing entries of each partition in each micro-batch.

    Input rows need columns `ledger` and `entry`. Spark delivers the rows of a micro-batch in no
    particular order, so they are sorted by id first.
    """

    def __init__(self, step: StepFunction = step) -> None:
        self._step = step

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._last = handle.getValueState(STATE, "ledger long, entry long")

    def handleInputRows(  # type: ignore[override]  # noqa: N802 - rows are pandas DataFrames
        self,
        key: tuple[int],
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        last: Position | None = None
        if (stored := self._last.get()) is not None:
            ledger, entry = stored
            last = ledger, entry
        # The messages of a batch share their entry, so only a few of many rows are kept.
        chunks = [chunk[["ledger", "entry"]].drop_duplicates() for chunk in rows]
        entries = pd.concat(chunks).drop_duplicates()
        new = missing = 0
        for ledger, entry in entries.sort_values(["ledger", "entry"]).itertuples(index=False):
            before = last
            last, skipped = self._step(before, (int(ledger), int(entry)))
            # An entry whose messages span several micro-batches is new only in the first.
            new += last != before
            missing += skipped
        if last is not None:
            self._last.update(last)
        counts = {"partition": key[0], "entries": new, "missing": missing}
        yield pd.DataFrame({name: [value] for name, value in counts.items()})

    def close(self) -> None: ...
