"""Plants faults into a table of received messages, so that a job's right answer is known.

The real stream has no faults. The planted ones are those that networks, retries and lost data cause
for a reader: two messages change places, a message comes a second time, an entry never comes.
"""

import random
from collections import defaultdict
from collections.abc import Iterable

import pyarrow as pa

LATE_BY = 5
"""A redelivered message comes again after the next five messages of its stream."""

SPACING = 2 * LATE_BY
"""Faults keep this distance in their stream, so that no two of them touch."""


def plant_faults(
    messages: pa.Table, *, swaps: int, redeliveries: int, lost_entries: int, seed: int
) -> pa.Table:
    """Return the messages with exactly these faults, and `seq` numbered again.

    - a swap: two messages that follow each other in their stream change places;
    - a redelivery: a message arrives a second time, a little later;
    - a lost entry: none of its messages arrives. Never a ledger's last entry, nor the first of a
      stream: the ids that arrive would not show that one is missing.

    The same seed gives the same table. `messages` must be in order of arrival and free of faults.

    Raises:
        ValueError: the streams are too short for that many faults.
    """
    chance = random.Random(seed)
    streams = _streams(messages)
    sites = [
        (stream, i) for stream in streams for i in range(0, len(stream) - SPACING + 1, SPACING)
    ]
    chosen = _sample(chance, sites, swaps + redeliveries, "places")
    arrival: dict[int, float] = {row: row for row in range(messages.num_rows)}
    again: list[tuple[float, int]] = []
    for stream, i in chosen[:swaps]:
        arrival[stream[i]], arrival[stream[i + 1]] = stream[i + 1], stream[i]
    for stream, i in chosen[swaps:]:
        again.append((stream[i + LATE_BY] + 0.5, stream[i]))
    touched = {row for stream, i in chosen for row in stream[i : i + SPACING]}
    lost = _rows_of_lost_entries(messages, streams, touched, lost_entries, chance)
    arrived = sorted([(at, row) for row, at in arrival.items() if row not in lost] + again)
    faulty = messages.take([row for _, row in arrived])
    column = messages.schema.get_field_index("seq")
    seq = pa.array(range(len(arrived)), messages.schema.field(column).type)
    return faulty.set_column(column, "seq", seq)


def _streams(messages: pa.Table) -> list[list[int]]:
    """The row numbers of each stream, in order of arrival."""
    rows: dict[tuple[str, int], list[int]] = defaultdict(list)
    columns = (messages[name].to_pylist() for name in ("topic", "partition"))
    for row, stream in enumerate(zip(*columns, strict=True)):
        rows[stream].append(row)
    return [rows[stream] for stream in sorted(rows)]


def _rows_of_lost_entries(
    messages: pa.Table,
    streams: list[list[int]],
    touched: Iterable[int],
    count: int,
    chance: random.Random,
) -> set[int]:
    columns = [messages[name].to_pylist() for name in ("topic", "ledger", "entry")]
    entry_of = list(zip(*columns, strict=True))
    rows_of = defaultdict(set)
    last_entry: dict[tuple[str, int], int] = {}
    for row, (topic, ledger, entry) in enumerate(entry_of):
        rows_of[topic, ledger, entry].add(row)
        last_entry[topic, ledger] = max(entry, last_entry.get((topic, ledger), entry))
    kept = {entry_of[row] for row in touched} | {entry_of[stream[0]] for stream in streams}
    kept |= {(*ledger, entry) for ledger, entry in last_entry.items()}
    candidates = sorted(rows_of.keys() - kept)
    return set().union(*(rows_of[e] for e in _sample(chance, candidates, count, "entries")))


def _sample(chance: random.Random, choices: list, count: int, what: str) -> list:
    if not 0 <= count <= len(choices):
        raise ValueError(f"{count} {what} asked for; these messages have from 0 to {len(choices)}")
    return chance.sample(choices, count)
