"""Wrong versions of the small rules in a bookie's parts, each of which is correct in the most
obvious cases.

A part with a wrong rule is the solution's part, in which only this rule is different.
"""

import struct
from collections.abc import Callable
from typing import Any

from labkit.course.workshop.bookie.steps.checkpoint_step import removable_journals
from labkit.course.workshop.bookie.steps.records_step import records_of
from labkit.system.storage.entry_log import location_of
from labkit.system.storage.journal import padding
from labkit.system.storage.log_mark import LogMark

Answer = Callable[..., Any]


def zeros(offset: int, alignment: int) -> bytes:
    return bytes(-offset % alignment)


PADDING = {
    "offsets of 31 bits": lambda offset, alignment: padding(offset % 2**16 + 3, alignment),
    "zeros": zeros,
    "one block more": lambda offset, alignment: (
        (struct.pack(">ii", -0x100, n := -offset % alignment + alignment - 8) + bytes(n))
        if offset % alignment
        else b""
    ),
    "none below eight": lambda offset, alignment: (
        padding(offset, alignment) if -offset % alignment >= 8 else b""
    ),
    "more than eight": lambda offset, alignment: (
        padding(offset, alignment)
        if -offset % alignment != 8
        else struct.pack(">ii", -0x100, alignment) + bytes(alignment)
    ),
    "where it is aligned too": lambda offset, alignment: (
        padding(offset, alignment)
        or struct.pack(">ii", -0x100, alignment - 8) + bytes(alignment - 8)
    ),
    "positive mask": lambda offset, alignment: (
        struct.pack(">i", 0x100) + padding(offset, alignment)[4:] if offset % alignment else b""
    ),
    "the count counts the header": lambda offset, alignment: (
        padding(offset, alignment)[:4]
        + struct.pack(">i", len(padding(offset, alignment)))
        + padding(offset, alignment)[8:]
        if offset % alignment
        else b""
    ),
}


def first_ones(count: int) -> Answer:
    return lambda data, start: records_of(data, start)[:count]


RECORDS = {
    "from the first": lambda data, start: records_of(data, 512),
    "behind start": lambda data, start: records_of(data, start)[1:],
    "five at most": first_ones(5),
    "bodies are text": lambda data, start: [
        (at, body.decode(errors="ignore").encode()) for at, body in records_of(data, start)
    ],
    "bodies of 512 bytes": lambda data, start: [
        (at, body[:512]) for at, body in records_of(data, start)
    ],
    "no records behind padding": lambda data, start: records_of(
        data[: start + 512 - start % 512], start
    ),
    "bodies without ids": lambda data, start: [
        (at, body[16:]) for at, body in records_of(data, start)
    ],
    "offset behind the length": lambda data, start: [
        (at + 4, body) for at, body in records_of(data, start)
    ],
    "zeros cut from the body": lambda data, start: [
        (at, body.rstrip(b"\0")) for at, body in records_of(data, start)
    ],
}


def old(ids: list[int], mark: int) -> list[int]:
    return [each for each in ids if each < mark]


REMOVABLE = {
    "the marked one too": lambda ids, mark, kept: [i for i in ids if i <= mark][: -kept or None],
    "minus zero": lambda ids, mark, kept: old(ids, mark)[:-kept],
    "ids without gaps": lambda ids, mark, kept: [i for i in ids if i < mark - kept],
    "newest first": lambda ids, mark, kept: old(ids, mark)[kept:],
    "no backups": lambda ids, mark, kept: old(ids, mark),
    "backups of all": lambda ids, mark, kept: ids[: max(0, len(ids) - kept)],
    "one backup": lambda ids, mark, kept: old(ids, mark)[: -min(kept, 1) or None],
    "as text": lambda ids, mark, kept: removable_journals(
        [i for i in ids if str(i) < str(mark)], mark, kept
    ),
    "31 bits": lambda ids, mark, kept: removable_journals(
        [i for i in ids if i < 2**31], mark, kept
    ),
    "one place too few": lambda ids, mark, kept: removable_journals(ids, mark, kept)[1:],
}
REPLAY = {
    "behind the mark": lambda mark, record: record > mark,
    "offsets alone": lambda mark, record: record.offset >= mark.offset,
    "files alone": lambda mark, record: record.file_id >= mark.file_id,
    "later files": lambda mark, record: record.file_id > mark.file_id,
    "both at least": lambda mark, record: (
        record.file_id >= mark.file_id and record.offset >= mark.offset
    ),
    "either": lambda mark, record: record.file_id > mark.file_id or record.offset >= mark.offset,
    "as text": lambda mark, record: str(record.file_id) > str(mark.file_id) or record >= mark,
    "the next file": lambda mark, record: (
        record.file_id == mark.file_id + 1
        or (record.file_id == mark.file_id and record.offset >= mark.offset)
    ),
    "a whole block": lambda mark, record: (
        (record.file_id, record.offset // 512) >= (mark.file_id, mark.offset // 512)
    ),
    "files of 31 bits": lambda mark, record: (
        (record.file_id % 2**31, record.offset) >= (mark.file_id % 2**31, mark.offset)
    ),
}
FLUSH_ORDER = {
    "arrival": list,
    "as text": lambda keys: sorted(keys, key=str),
    "ledgers alone": lambda keys: sorted(keys, key=lambda key: key[0]),
    "entries first": lambda keys: sorted(keys, key=lambda key: key[::-1]),
    "backwards": lambda keys: sorted(keys, reverse=True),
    "ledgers as they come": lambda keys: sorted(
        keys, key=lambda key: ([each[0] for each in keys].index(key[0]), key[1])
    ),
    "31 bits": lambda keys: sorted(keys, key=lambda key: (key[0] % 2**31, key[1] % 2**31)),
    "eight at most": lambda keys: sorted(keys)[:8],
    "ten entries of a ledger": lambda keys: sorted(keys, key=lambda key: (key[0], key[1] % 10)),
    "ids below a thousand": lambda keys: sorted(keys, key=lambda key: 1000 * key[0] + key[1]),
}
LOCATION = {
    "offset alone": lambda log, offset: offset,
    "31 bits": lambda log, offset: log << 31 | offset,
    "16 bits": lambda log, offset: log << 16 | offset,
    "halves swapped": lambda log, offset: offset << 32 | log,
    "at the length word": lambda log, offset: log << 32 | offset - 4,
    "offsets of 20 bits": lambda log, offset: log << 32 | offset % 2**20,
    "decimal": lambda log, offset: log * 10**10 + offset,
    "one byte of log id": lambda log, offset: (log & 0xFF) << 32 | offset,
    "from log 1 on": lambda log, offset: location_of(log + 1, offset),
}
INDEX_SLOT = {
    "bytes, not places": lambda entry_id: entry_id // 8,
    "header in the page": lambda entry_id: entry_id + 128,
    "from 1": lambda entry_id: entry_id + 1,
    "pages of 64": lambda entry_id: entry_id % 64,
    "8 bits": lambda entry_id: entry_id % 256,
    "backwards": lambda entry_id: 70 - entry_id,
    "all in one": lambda entry_id: 0,
    "two for each": lambda entry_id: 2 * entry_id,
}
"""The slot in which the location of an entry is stored."""


def journal_with(wrong: Answer, solution: Any) -> None:
    """Let the solution's journal pad its groups with `wrong(offset, alignment)`."""

    class Journal(solution.Journal):
        group: bytearray

        def seal(self) -> tuple[int, bytes] | None:
            if not self.group:
                return None
            end = self.group_offset + len(self.group)
            sealed = self.group_offset, bytes(self.group) + wrong(end, 512)
            self.group_offset += len(sealed[1])
            self.group = bytearray()
            return sealed

    solution.__dict__["Journal"] = Journal


def memtable_with(wrong: Answer, solution: Any) -> None:
    """Let the solution's memtable return its entries in the order `wrong(arrivals)`."""

    class Memtable(solution.Memtable):
        def entries(self) -> list[tuple[int, int, bytes]]:
            arrivals = [
                (ledger, entry) for ledger in self.ledgers for entry in self.ledgers[ledger]
            ]
            return [(*key, self.get(*key)) for key in wrong(arrivals)]

    solution.__dict__["Memtable"] = Memtable


def index_with(wrong: Answer, solution: Any) -> None:
    """Let the solution's index store the location of an entry in the slot `wrong(entry_id)`."""

    class Index(solution.Index):
        def set_location(self, entry_id: int, location: int) -> None:
            self.known[entry_id] = location
            self.changed[wrong(entry_id)] = location

    solution.__dict__["Index"] = Index


def replay_with(wrong: Answer, solution: Any) -> None:
    """Let the solution's replay apply a record if `wrong(mark, position of the record)`."""

    def replay(bookie: Any, disk: Any, file_id: int, offset: int) -> tuple[int, int]:
        mark, keys = LogMark(file_id, offset), dict[int, bytes]()
        ids = bookie.journal_ids(disk)
        if file_id and file_id not in ids:
            raise solution.StorageDamagedException("missing")
        end = file_id, offset
        for each in ids:
            file = disk.open(f"current/{each:x}.txn")
            for at, body in solution.records(file.read(0, file.size()), 512):
                end = max(end, (each, at + 4 + len(body)))
                if wrong(mark, LogMark(each, at)):
                    solution.redo(bookie, keys, body)
        last = max([file_id, *ids])
        return max(end, (last, 512))

    solution.__dict__["replay"] = replay


def function(name: str) -> Callable[[Answer, Any], None]:
    def replace(wrong: Answer, solution: Any) -> None:
        solution.__dict__[name] = wrong

    return replace


RULES: dict[str, tuple[int, Callable[[Answer, Any], None], Answer, dict[str, Answer]]] = {
    "padding": (1, journal_with, padding, PADDING),
    "records": (2, function("records"), records_of, RECORDS),
    "flush order": (3, memtable_with, sorted, FLUSH_ORDER),
    "location": (4, function("location_of"), location_of, LOCATION),
    "index slot": (5, index_with, lambda entry_id: entry_id, INDEX_SLOT),
    "removable": (6, function("removable_journals"), removable_journals, REMOVABLE),
    "replay": (7, replay_with, lambda mark, record: record >= mark, REPLAY),
}
"""For each rule: the step, how to use a version of it, the correct version, and the wrong ones."""
