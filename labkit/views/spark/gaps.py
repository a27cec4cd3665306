"""Finds missing entries in a running stream, keeping one position per partition as state.

This is the position of the furthest entry seen so far. An entry that arrives again, for example
after a restart, changes nothing. An entry that is not the next one reveals how many entries are
missing before it.

    gaps = messages.groupBy("partition").transformWithStateInPandas(
        GapDetector(), GAPS, outputMode="Append", timeMode="None"
    )

Spark keeps the state in the query's checkpoint, where you can read it with
`spark.read.format("statestore").option("stateVarName", STATE).load(checkpoint)`. The query needs
Spark's RocksDB state store (the setting in `STATE_STORE`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

Position = tuple[int, int]
"""Ledger and entry."""
Runs: TypeAlias = npt.NDArray[np.int64]
"""Runs of consecutive entries. Each row contains the first entry of a run and the entry after its
last one.
"""
StepFunction = Callable[[Position | None, Position], tuple[Position, int]]

STATE = "last"
GAPS = "partition int, entries long, missing long"
STATE_STORE = (
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)
"""The Spark setting that selects the state store: its name and its value."""


def step(last: Position | None, entry: Position) -> tuple[Position, int]:
    """Return the furthest position, now including this entry, and how many entries are missing
    just before this entry.

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

    Input rows need columns `ledger` and `entry`. Spark delivers the rows of a micro-batch in chunks
    and in no particular order, so the entries are collected and sorted before the first step.
    Consecutive entries are stored as one run, so the memory that is needed depends on the number of
    gaps, and not on the number of entries.
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
        new = missing = 0
        for entry in _sorted_entries(rows):
            before = last
            last, skipped = self._step(before, entry)
            # An entry whose messages span several micro-batches is new only in the first.
            new += last != before
            missing += skipped
        if last is not None:
            self._last.update(last)
        counts = {"partition": key[0], "entries": new, "missing": missing}
        yield pd.DataFrame({name: [value] for name, value in counts.items()})

    def close(self) -> None: ...


def _sorted_entries(rows: Iterator[pd.DataFrame]) -> Iterator[Position]:
    """Yield each entry once, in order."""
    runs = defaultdict[int, Runs](lambda: np.empty((0, 2), np.int64))
    for chunk in rows:
        # All messages of a batch share one entry.
        entries = np.unique(chunk[["ledger", "entry"]].to_numpy(np.int64), axis=0)
        ledgers, begins = np.unique(entries[:, 0], return_index=True)
        for ledger, ids in zip(ledgers.tolist(), np.split(entries[:, 1], begins[1:]), strict=True):
            found = np.column_stack([ids, ids + 1])
            runs[ledger] = _merged(np.concatenate([runs[ledger], found]))
    for ledger in sorted(runs):
        for first, end in runs[ledger].tolist():
            for entry in range(first, end):
                yield ledger, entry


def _merged(runs: Runs) -> Runs:
    """Sort the runs, and merge adjacent and overlapping ones."""
    firsts, ends = runs[runs[:, 0].argsort()].T
    begins = np.flatnonzero(firsts[1:] > np.maximum.accumulate(ends)[:-1]) + 1
    begins = np.concatenate([[0], begins])
    return np.column_stack([firsts[begins], np.maximum.reduceat(ends, begins)])
