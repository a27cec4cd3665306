"""Computes the expected results of the jobs over messages independently, with pandas and loops.

Unlike the jobs, this module uses sets and counters instead of packed ids and sorted neighbours.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

Row = tuple[Any, ...]

Limits = dict[str, tuple[int | None, int | None, int | None]]
"""The maximum number of entries, bytes and milliseconds of a ledger, by topic (None: unlimited)."""

STREAM = ["topic", "partition"]
ENTRY = [*STREAM, "ledger", "entry"]
ID = [*ENTRY, "batch_index"]


def make_stream(seed: int, entries_per_stream: int = 120, topics: int = 2) -> pa.Table:
    """Return messages without faults.

    Each topic has three partitions, ledgers of 7 to 30 entries, and batches of 1 to 12 messages or
    no batches; the streams are interleaved at random.
    """
    chance = np.random.default_rng(seed)
    next_ledger = iter(range(100, 10_000))
    streams = [
        _one_stream(chance, next_ledger, f"t{topic}", partition, entries_per_stream)
        for topic in range(topics)
        for partition in range(3)
    ]
    turns = chance.permutation(np.repeat(range(len(streams)), [len(s) for s in streams]))
    heads = [iter(stream) for stream in streams]
    rows = [
        {
            "seq": seq,
            **next(heads[turn]),
            "publish_time_ms": 1_700_000_000_000 + seq * 3 // 7,
            "receive_time_ms": 1_700_000_000_000 + seq * 3 // 7 + int(chance.integers(0, 60)),
            "payload_size": int(chance.integers(20, 400)),
        }
        for seq, turn in enumerate(turns)
    ]
    return pa.Table.from_pylist(rows)


def _one_stream(
    chance: np.random.Generator,
    next_ledger: Iterator[int],
    topic: str,
    partition: int,
    entry_count: int,
) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    ledger, entry, room = next(next_ledger), 0, int(chance.integers(7, 30))
    for _ in range(entry_count):
        if entry == room:
            ledger, entry, room = next(next_ledger), 0, int(chance.integers(7, 30))
        size = int(chance.integers(0, 13))
        where = {"topic": topic, "partition": partition, "ledger": ledger, "entry": entry}
        indexes = range(size) if size else [-1]
        messages += [{**where, "batch_index": index} for index in indexes]
        entry += 1
    return messages


def records(table: pd.DataFrame) -> Iterable[Any]:
    """Return the rows as objects with one attribute per column."""
    return table.itertuples()


def order_violations(messages: pd.DataFrame) -> set[Row]:
    found: set[Row] = set()
    latest: dict[Row, Row] = {}
    for row in records(messages.sort_values("seq")):
        stream, place = (row.topic, row.partition), (row.ledger, row.entry, row.batch_index)
        if stream in latest and place < latest[stream]:
            found.add((*stream, row.seq, *place, *latest[stream]))
        latest[stream] = place
    return found


def duplicates(messages: pd.DataFrame) -> set[Row]:
    seqs = messages.groupby(ID)["seq"].agg(["size", "min", "max"]).reset_index()
    return set(seqs[seqs["size"] > 1].itertuples(index=False, name=None))


def missing_entry_ids(messages: pd.DataFrame) -> set[Row]:
    """Return each missing entry, that is, each entry that did not arrive although a later entry of
    its ledger did.
    """
    missing: set[Row] = set()
    for (topic, partition), stream in messages.groupby(STREAM):
        first_ledger = stream["ledger"].min()
        for ledger, arrived in stream.groupby("ledger")["entry"]:
            first = arrived.min() if ledger == first_ledger else 0
            holes = set(range(first, arrived.max())) - set(arrived)
            missing |= {(topic, partition, ledger, entry) for entry in holes}
    return missing


def rollovers(messages: pd.DataFrame) -> set[Row]:
    found: set[Row] = set()
    for (topic, partition), stream in messages.groupby(STREAM):
        ledgers = sorted(set(stream["ledger"]))
        entries = stream.groupby("ledger")["entry"].max() + 1
        for ledger, following in pairwise(ledgers):
            found.add((topic, partition, ledger, entries[ledger], following))
    return found


def batch_sizes(messages: pd.DataFrame) -> set[Row]:
    found: set[Row] = set()
    for entry, group in messages.groupby(ENTRY):
        size = max(1, group["batch_index"].max() + 1)
        found.add((*entry, size, group["batch_index"].nunique(), group["seq"].min()))
    return found


def batch_size_distribution(messages: pd.DataFrame) -> dict[Row, tuple[int, float]]:
    """Return, by topic and batch size, the number of entries and their share of all messages."""
    sizes = [(entry[0], entry[4]) for entry in batch_sizes(messages)]
    entries = Counter(sizes)
    whole: Counter[object] = Counter()
    for topic, size in sizes:
        whole[topic] += size
    return {(t, s): (count, count * s / whole[t]) for (t, s), count in entries.items()}


def first_latencies(messages: pd.DataFrame) -> dict[object, list[int]]:
    """Return, by topic, the milliseconds from each message's publication to its first arrival."""
    first: dict[Row, int] = {}
    for row in records(messages):
        place = (row.topic, row.partition, row.ledger, row.entry, row.batch_index)
        latency = row.receive_time_ms - row.publish_time_ms
        first[place] = min(latency, first.get(place, latency))
    latencies: dict[object, list[int]] = {}
    for (topic, *_), latency in first.items():
        latencies.setdefault(topic, []).append(latency)
    return latencies


def rollover_reasons(messages: pd.DataFrame, ledgers: pd.DataFrame, limits: Limits) -> set[Row]:
    found: set[Row] = set()
    born = messages.groupby([*STREAM, "ledger"])["publish_time_ms"].min()
    stream: Any  # The topic and the partition.
    for stream, chain in ledgers.sort_values("ledger").groupby(STREAM):
        for link, following in pairwise(records(chain)):
            had = (
                link.entry_count,
                link.size_bytes,
                link.closed_at_ms - born[*stream, link.ledger],
            )
            most = limits.get(stream[0], (None,) * 3)
            names = [
                name
                for name, value, limit in zip(("entries", "size", "age"), had, most, strict=True)
                if limit is not None and value >= limit
            ]
            reason = " and ".join(names) or "neither full nor old"
            found.add((*stream, link.ledger, following.ledger, *had, reason))
    return found


def copies_per_bookie(segments: pd.DataFrame) -> Counter[str]:
    """Count the copies on each bookie, one entry and one copy at a time."""
    copies: Counter[str] = Counter()
    for row in records(segments):
        for entry in range(row.first_entry, row.last_entry + 1):
            for i in range(row.write_quorum):
                copies[row.ensemble[(entry + i) % len(row.ensemble)]] += 1
    return copies


def messages_per_ledger(messages: pd.DataFrame) -> set[Row]:
    found: set[Row] = set()
    for ledger, group in messages.groupby([*STREAM, "ledger"]):
        times = group["publish_time_ms"]
        counts = (len(group), group["entry"].nunique(), group["payload_size"].sum())
        found.add((*ledger, *counts, times.min(), times.max()))
    return found


def publish_rate(messages: pd.DataFrame, bucket_ms: int) -> set[Row]:
    counts: Counter[Row] = Counter()
    sizes: Counter[Row] = Counter()
    for row in records(messages):
        bucket = (row.topic, row.publish_time_ms - row.publish_time_ms % bucket_ms)
        counts[bucket] += 1
        sizes[bucket] += row.payload_size
    return {(*bucket, counts[bucket], sizes[bucket]) for bucket in counts}
