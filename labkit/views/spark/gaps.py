"""Finds missing entries while a stream runs; its state is one place for each partition.

The rule: the state is the furthest entry seen so far.  An entry that comes again, as after a
restart, changes nothing; one that jumps ahead shows how many entries are missing before it.

    gaps = messages.groupBy("partition").transformWithStateInPandas(
        GapDetector(), GAPS, outputMode="Append", timeMode="None"
    )

The state stays in the query's checkpoint, where it can be read:
`spark.read.format("statestore").option("stateVarName", STATE).load(checkpoint)`.  It needs Spark's
RocksDB state store (`STATE_STORE`).
"""

from collections.abc import Callable, Iterator

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

Place = tuple[int, int]
"""Ledger and entry."""
StepFunction = Callable[[Place | None, Place], tuple[Place, int]]

STATE = "last"
GAPS = "partition int, entries long, missing long"
STATE_STORE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}


def step(last: Place | None, entry: Place) -> tuple[Place, int]:
    """The furthest place after this entry, and the number of entries missing before it.

    `last` None: no entry was seen yet, and the reader may have begun anywhere.
    """
    if last is None:
        return entry, 0
    if entry <= last:
        return last, 0
    expected = last[1] + 1 if entry[0] == last[0] else 0
    return entry, entry[1] - expected


class GapDetector(StatefulProcessor):
    """One row for each partition and micro-batch: new entries, and how many before them are
    missing.

    Rows need `ledger` and `entry`.  Within a micro-batch Spark gives them in no particular order,
    so they are sorted by their ids.
    """

    def __init__(self, step: StepFunction = step) -> None:
        self._step = step

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called in the worker before any row."""
        self._last = handle.getValueState(STATE, "ledger long, entry long")

    def handleInputRows(  # type: ignore[override]  # noqa: N802 - rows come as pandas' tables
        self,
        key: tuple[int],
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """A micro-batch of one partition."""
        last: Place | None = None
        if (kept := self._last.get()) is not None:
            ledger, entry = kept
            last = ledger, entry
        # The messages of a batch share their entry.
        entries = pd.concat(rows)[["ledger", "entry"]].drop_duplicates()
        new = missing = 0
        for ledger, entry in entries.sort_values(["ledger", "entry"]).itertuples(index=False):
            before = last
            last, jumped = self._step(before, (int(ledger), int(entry)))
            # An entry whose messages are spread over micro-batches is new in the first alone.
            new += last != before
            missing += jumped
        if last is not None:
            self._last.update(last)
        counts = {"partition": key[0], "entries": new, "missing": missing}
        yield pd.DataFrame({name: [value] for name, value in counts.items()})

    def close(self) -> None:
        """Nothing to close: everything is in the state."""
