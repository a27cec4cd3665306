"""Encodes which entries of a ledger a bookie has. An auditor compares this list with the metadata.

With striping, a bookie has `size` consecutive entries out of every `period`, so a single group of
24 bytes can describe the whole ledger. An irregular gap starts a new group.

In BookKeeper: `util/AvailabilityOfEntriesOfLedger.java`.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from labkit.system.model.layout import Field, Layout

AVAILABILITY_HEADER = Layout(
    "availability header",
    Field("version", "i", "0"),
    Field("group count", "i", "groups that follow"),
    Field("padding", "56x", "zeros"),
)

AVAILABILITY_GROUP = Layout(
    "availability group",
    Field("first sequence start", "q", "the first entry"),
    Field("last sequence start", "q", "the first entry of the last sequence"),
    Field("sequence size", "i", "entries in each sequence"),
    Field("sequence period", "i", "from one sequence's start to the next; 0: only one sequence"),
)

_VERSION = 0
_LONGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Sequences:
    """Runs of `size` consecutive entries. A run starts every `period` entries; the first run starts
    at entry `first`, and the last one at entry `last`.
    """

    first: int
    last: int
    size: int
    period: int

    def __contains__(self, entry_id: int) -> bool:
        if not self.first <= entry_id < self.last + self.size:
            return False
        return self.period == 0 or (entry_id - self.first) % self.period < self.size


@dataclass(frozen=True, slots=True)
class AvailabilityOfEntries:
    groups: tuple[Sequences, ...]

    def __contains__(self, entry_id: int) -> bool:
        return any(entry_id in group for group in self.groups)


def availability_of(entry_ids: Iterable[int]) -> AvailabilityOfEntries:
    """Describe the entries with these ids, which must be in ascending order."""
    groups: list[Sequences] = []
    for run in _runs(entry_ids):
        merged = _merge(groups[-1], run) if groups else None
        if merged is None:
            groups.append(run)
        else:
            groups[-1] = merged
    return AvailabilityOfEntries(tuple(groups))


def _runs(entry_ids: Iterable[int]) -> Iterator[Sequences]:
    first = end = -1
    for entry_id in entry_ids:
        # Split longer runs, because the size is an i32.
        if entry_id != end or end - first == _LONGEST:
            if first >= 0:
                yield Sequences(first, first, end - first, 0)
            first = entry_id
        end = entry_id + 1
    if first >= 0:
        yield Sequences(first, first, end - first, 0)


def _merge(group: Sequences, run: Sequences) -> Sequences | None:
    """Return the group with the run added, or None if the run does not match its pattern."""
    period = run.first - group.last
    if run.size != group.size or period > _LONGEST or group.period not in (0, period):
        return None
    return replace(group, last=run.first, period=period)


def encode_availability(availability: AvailabilityOfEntries) -> bytes:
    header = AVAILABILITY_HEADER.struct.pack(_VERSION, len(availability.groups))
    group = AVAILABILITY_GROUP.struct
    return header + b"".join(
        group.pack(each.first, each.last, each.size, each.period) for each in availability.groups
    )


def decode_availability(data: bytes) -> AvailabilityOfEntries:
    """Decode the list. Raises `ValueError` if the bytes are invalid."""
    try:
        version, count = AVAILABILITY_HEADER.struct.unpack_from(data)
        rows = list(AVAILABILITY_GROUP.struct.iter_unpack(data[AVAILABILITY_HEADER.size :]))
    except struct.error as error:
        raise ValueError(f"not a list of entries: {error}") from None
    if version != _VERSION or len(rows) != count:
        raise ValueError(
            f"not a list of entries: expected version {_VERSION} and {count} groups, got version"
            f" {version} and {len(rows)} groups"
        )
    groups = tuple(Sequences(*row) for row in rows)
    for group in groups:
        _check(group)
    return AvailabilityOfEntries(groups)


def _check(group: Sequences) -> None:
    length, period = group.last - group.first, group.period
    repeats = period > 0 and length % period == 0 if length else period >= 0
    if group.first < 0 or length < 0 or group.size < 1 or not repeats:
        raise ValueError(f"not a list of entries: {group} is invalid")
