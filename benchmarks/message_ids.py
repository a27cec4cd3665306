"""Generates millions of MessageIDs with planted faults, and analyses them with pandas.

The topic has eight partitions, batches of 1 to 19 messages, and ledgers of 5,000 entries. All
partitions have the same number of messages, unless the first one has a larger share. The faults are
swapped messages, redelivered messages and lost entries.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

PARTITIONS = 8
TOPIC = "flights"
_MEAN_BATCH = 10
_ENTRIES_PER_LEDGER = 5_000
_MESSAGES_PER_FAULT = 10_000
_LATE_BY = 7
_ROW_GROUP = 250_000
PARTS = ["ledger", "entry", "partition", "batch_index"]

Row = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """The results that every engine must find, as sets of rows.

    violations: partition, seq
    duplicates: partition, ledger, entry, batch index, number of arrivals
    holes: partition, ledger, first and last missing entry
    rollovers: partition, number of rollovers
    sizes: batch size, number of entries
    """

    violations: frozenset[Row]
    duplicates: frozenset[Row]
    holes: frozenset[Row]
    rollovers: frozenset[Row]
    sizes: frozenset[Row]

    def __str__(self) -> str:
        missing = sum(last - first + 1 for *_, first, last in self.holes)
        rolled = sum(count for _, count in self.rollovers)
        return (
            f"{len(self.violations)} order violations, {len(self.duplicates)} duplicates,"
            f" {missing} missing entries, {rolled} rollovers"
        )


def write_messages(
    path: Path, message_count: int, seed: int = 0, share_of_first: float = 1 / PARTITIONS
) -> int:
    """Write the columns `seq`, `topic` and `message_id` (as text) to a Parquet file; return the
    number of rows.
    """
    rng = np.random.default_rng(seed)
    first = int(message_count * share_of_first)
    counts = [first] + [(message_count - first) // (PARTITIONS - 1)] * (PARTITIONS - 1)
    streams = [_stream(rng, partition, count) for partition, count in enumerate(counts)]
    lengths = [len(stream) for stream in streams]
    turns = rng.permutation(np.repeat(np.arange(PARTITIONS, dtype=np.int8), lengths))
    # Interleave the streams without reordering the messages within a stream.
    seq = np.argsort(turns, kind="stable")
    ids = np.empty((len(turns), len(PARTS)), dtype=np.int32)
    ids[seq] = np.concatenate(streams)
    schema = pa.schema({"seq": pa.int32(), "topic": pa.string(), "message_id": pa.string()})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        # As Python strings, tens of millions of ids would take several times as much memory.
        for start in range(0, len(ids), _ROW_GROUP):
            rows = ids[start : start + _ROW_GROUP]
            text = [pc.cast(pa.array(column), pa.string()) for column in rows.T]
            columns = [
                pa.array(np.arange(start, start + len(rows), dtype=np.int32)),
                pa.repeat(TOPIC, len(rows)),
                pc.binary_join_element_wise(*text, ":"),
            ]
            writer.write_table(pa.table(columns, schema))
    return len(ids)


def _stream(rng: np.random.Generator, partition: int, count: int) -> np.ndarray:
    """Return the partition's ids in arrival order, one row of four numbers per message."""
    sizes = rng.integers(1, 2 * _MEAN_BATCH, count // _MEAN_BATCH, dtype=np.int32)
    entry_of_message = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    first = np.repeat(np.cumsum(sizes, dtype=np.int32) - sizes, sizes)
    ids = np.empty((len(entry_of_message), len(PARTS)), dtype=np.int32)
    # All partitions get their ledger ids from one counter, so assign the ids to the partitions in
    # turn.
    ids[:, 0] = entry_of_message // _ENTRIES_PER_LEDGER * PARTITIONS + partition
    ids[:, 1] = entry_of_message % _ENTRIES_PER_LEDGER
    ids[:, 2] = partition
    ids[:, 3] = np.arange(len(ids), dtype=np.int32) - first
    return _with_faults(rng, ids, len(sizes), entry_of_message)


def _with_faults(
    rng: np.random.Generator, ids: np.ndarray, entry_count: int, entry_of_message: np.ndarray
) -> np.ndarray:
    fault_count = len(ids) // _MESSAGES_PER_FAULT
    places = rng.choice(np.arange(_LATE_BY, len(ids) - 2 * _LATE_BY, 20), 2 * fault_count, False)
    swapped, repeated = places[:fault_count], places[fault_count:]
    order = np.arange(len(ids), dtype=np.float64)
    order[swapped], order[swapped + 1] = order[swapped + 1], order[swapped].copy()
    lost = rng.choice(np.arange(1, entry_count - 1), fault_count // 5, False)
    arrives = ~np.isin(entry_of_message, lost)
    rows = np.concatenate([ids[arrives], ids[repeated]])
    order = np.concatenate([order[arrives], repeated + _LATE_BY + 0.5])
    return rows[np.argsort(order, kind="stable")]


def by_pandas(path: Path) -> Answers:
    """Compute the results from the file, without Spark or packed ids."""
    table = pq.read_table(path)
    parts = pc.split_pattern(table["message_id"].combine_chunks(), ":")
    numbers = {name: pc.cast(pc.list_element(parts, i), "int64") for i, name in enumerate(PARTS)}
    frame = pa.table({"seq": table["seq"].combine_chunks(), **numbers}).to_pandas()
    frame = frame.sort_values("seq", kind="stable")
    place = ["ledger", "entry", "batch_index"]
    before = frame.groupby("partition")[place].shift()
    is_less = pd.Series(False, frame.index)
    is_equal = pd.Series(True, frame.index)
    for name in place:
        is_less |= is_equal & (frame[name] < before[name])
        is_equal &= frame[name] == before[name]
    arrivals = frame.groupby(["partition", *place]).size()
    again = arrivals[arrivals > 1].reset_index()
    entries = frame.groupby(["partition", "ledger", "entry"])["batch_index"].max().reset_index()
    ledgers = entries.groupby("partition")["ledger"].nunique() - 1
    sizes = (entries["batch_index"] + 1).value_counts()
    return Answers(
        _rows(frame.loc[is_less, ["partition", "seq"]]),
        _rows(again),
        _rows(_holes(entries)),
        _rows(ledgers.reset_index()),
        frozenset((int(size), int(count)) for size, count in sizes.items()),
    )


def _holes(entries: pd.DataFrame) -> pd.DataFrame:
    entries = entries.sort_values(["partition", "ledger", "entry"])
    before = entries.groupby(["partition", "ledger"])["entry"].shift()
    # In a stream's first ledger, entries before the first one that arrived do not count as missing.
    first = entries.groupby("partition")["ledger"].transform("min") == entries["ledger"]
    before = before.where(before.notna() | first, -1).fillna(entries["entry"])
    gap = entries[entries["entry"] > before + 1]
    begin = (before + 1).astype("int64")[gap.index]
    return pd.DataFrame(
        {
            "partition": gap["partition"],
            "ledger": gap["ledger"],
            "first": begin,
            "last": gap["entry"] - 1,
        }
    )


def _rows(frame: pd.DataFrame) -> frozenset[Row]:
    return frozenset(tuple(map(int, row)) for row in frame.itertuples(index=False, name=None))
