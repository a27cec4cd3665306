"""Plants faults in a table of received messages that has no faults, so that the correct result of a
job is known.

The recorded stream has no faults. The planted faults imitate what a consumer sees after network
problems, retries and data loss: swapped messages, redelivered messages and lost entries.
"""

import random
from collections import defaultdict
from collections.abc import Iterable

import pyarrow as pa

LATE_BY = 5
"""A redelivered message arrives again after the next five messages of its stream."""

SPACING = 2 * LATE_BY
"""Minimum distance between two faults in a stream, so that they do not overlap."""


def plant_faults(
    messages: pa.Table, *, swaps: int, redeliveries: int, lost_entries: int, seed: int
) -> pa.Table:
    """Return the messages with exactly the given number of faults of each kind; `seq` is
    renumbered.

    - swap: two consecutive messages of a stream arrive in reverse order
    - redelivery: a message arrives a second time, a little later
    - lost entry: no message of the entry arrives. The entry is never a ledger's last one or a
      stream's first one, because the ids that do arrive would not reveal the loss.

    The same seed gives the same table. `messages` must be in arrival order and free of faults.

    Raises:
        ValueError: a count is negative, or the streams are too short for that many faults.
    """
    rng = random.Random(seed)
    streams = _streams(messages)
    sites = [
        (stream, i) for stream in streams for i in range(0, len(stream) - SPACING + 1, SPACING)
    ]
    chosen = _sample(rng, sites, swaps + redeliveries, "swaps and redeliveries")
    arrival: dict[int, float] = {row: row for row in range(messages.num_rows)}
    redelivered: list[tuple[float, int]] = []
    for stream, i in chosen[:swaps]:
        arrival[stream[i]], arrival[stream[i + 1]] = stream[i + 1], stream[i]
    for stream, i in chosen[swaps:]:
        redelivered.append((stream[i + LATE_BY] + 0.5, stream[i]))
    protected = {row for stream, i in chosen for row in stream[i : i + SPACING]}
    lost = _pick_lost_rows(messages, streams, protected, lost_entries, rng)
    arrived = sorted([(at, row) for row, at in arrival.items() if row not in lost] + redelivered)
    faulty = messages.take([row for _, row in arrived])
    column = messages.schema.get_field_index("seq")
    seq = pa.array(range(len(arrived)), messages.schema.field(column).type)
    return faulty.set_column(column, "seq", seq)


def _streams(messages: pa.Table) -> list[list[int]]:
    rows: dict[tuple[str, int], list[int]] = defaultdict(list)
    columns = (messages[name].to_pylist() for name in ("topic", "partition"))
    for row, stream in enumerate(zip(*columns, strict=True)):
        rows[stream].append(row)
    return [rows[stream] for stream in sorted(rows)]


def _pick_lost_rows(
    messages: pa.Table,
    streams: list[list[int]],
    protected: Iterable[int],
    count: int,
    rng: random.Random,
) -> set[int]:
    columns = [messages[name].to_pylist() for name in ("topic", "ledger", "entry")]
    entry_of = list(zip(*columns, strict=True))
    rows_of = defaultdict(set)
    last_entry: dict[tuple[str, int], int] = {}
    for row, (topic, ledger, entry) in enumerate(entry_of):
        rows_of[topic, ledger, entry].add(row)
        last_entry[topic, ledger] = max(entry, last_entry.get((topic, ledger), entry))
    kept = {entry_of[row] for row in protected} | {entry_of[stream[0]] for stream in streams}
    kept |= {(*ledger, entry) for ledger, entry in last_entry.items()}
    candidates = sorted(rows_of.keys() - kept)
    return set().union(*(rows_of[e] for e in _sample(rng, candidates, count, "lost entries")))


def _sample(rng: random.Random, choices: list, count: int, faults: str) -> list:
    if not 0 <= count <= len(choices):
        raise ValueError(
            f"number of {faults} must be between 0 and {len(choices)} for these messages,"
            f" got {count}"
        )
    return rng.sample(choices, count)
