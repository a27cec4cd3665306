"""Wrong answers to lessons 01 to 04 and 10, each of which is correct in the most obvious cases."""

import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import Any

from labkit.course.exercises.entry import is_intact
from labkit.course.exercises.journal import records_of, removable_journals
from labkit.course.exercises.storage_path import slot_of
from labkit.system.model.entry import encode_entry
from labkit.system.storage.entry_log import location_of
from labkit.system.storage.garbage import logs_to_compact
from labkit.system.storage.journal import padding

Answer = Callable[..., Any]


def packed(header: Callable[[Any], bytes]) -> Answer:
    """Return an answer that packs an entry with another header and a digest that matches it."""
    return lambda e, digest: header(e) + digest.compute(header(e), e.payload) + e.payload


def numbers(e: Any) -> tuple[int, int, int, int]:
    return e.ledger_id, e.entry_id, e.last_add_confirmed, e.length


def as_text(e: Any, digest: Any) -> bytes:
    return encode_entry(replace(e, payload=e.payload.decode(errors="ignore").encode()), digest)


PACK = {
    "32-bit ledger ids": packed(
        lambda e: struct.pack(">qqqq", e.ledger_id % 2**32, *numbers(e)[1:])
    ),
    "31-bit entry ids": packed(
        lambda e: struct.pack(">qqqq", e.ledger_id, e.entry_id & 0x7FFFFFFF, *numbers(e)[2:])
    ),
    "payload is text": as_text,
    "payload without zeros at its end": lambda e, d: encode_entry(
        replace(e, payload=e.payload.rstrip(b"\0")), d
    ),
    "confirmed is the entry before": packed(
        lambda e: struct.pack(">qqqq", e.ledger_id, e.entry_id, e.entry_id - 1, e.length)
    ),
    "length is the payload's": packed(
        lambda e: struct.pack(">qqqq", *numbers(e)[:3], len(e.payload))
    ),
    "digest of the payload": lambda e, d: (
        struct.pack(">qqqq", *numbers(e)) + d.compute(b"", e.payload) + e.payload
    ),
    "little-endian": packed(lambda e: struct.pack("<qqqq", *numbers(e))),
    "nothing for an empty payload": lambda e, d: encode_entry(e, d) if e.payload else b"",
}
LENGTH = {
    "its own size": list,
    "before it": lambda sizes: [0, *accumulate(sizes)][:-1],
    "the whole ledger": lambda sizes: [sum(sizes)] * len(sizes),
    "32 bits": lambda sizes: [each % 2**32 for each in accumulate(sizes)],
    "headers too": lambda sizes: list(accumulate(s + 32 for s in sizes)),
    "the largest": lambda sizes: list(accumulate(sizes, max)),
    "of the last two": lambda sizes: [sum(sizes[max(0, i - 1) : i + 1]) for i in range(len(sizes))],
    "no more than eight": lambda sizes: list(accumulate(sizes))[:8],
    "empty ones left out": lambda sizes: list(accumulate(s for s in sizes if s)),
}
INTACT = {
    "always": lambda data, digest: True,
    "long enough": lambda data, digest: len(data) >= 32 + digest.size,
    "digest of the payload": lambda data, digest: (
        data[32 : 32 + digest.size] == digest.compute(b"", data[32 + digest.size :])
    ),
    "four bytes of digest": lambda data, digest: (
        data[32:36] == digest.compute(data[:32], data[32 + digest.size :])[:4]
    ),
    "one byte more": lambda data, digest: is_intact(data, digest) or is_intact(data[:-1], digest),
    "the payload is text": lambda data, digest: (
        is_intact(data, digest) and data[32 + digest.size :].isascii()
    ),
    "some payload": lambda data, digest: is_intact(data, digest) and len(data) > 32 + digest.size,
    "long payloads": lambda data, digest: (
        is_intact(data, digest) or len(data) > 32 + digest.size + 64
    ),
    "never": lambda data, digest: False,
    "digest at the end": lambda data, digest: (
        data[-digest.size :] == digest.compute(data[:32], data[32 : -digest.size])
    ),
}


def zeros(offset: int, alignment: int) -> bytes:
    return bytes(-offset % alignment)


PADDING = {
    "blocks of 512": lambda offset, alignment: padding(offset, 512),
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
    "bytes for slots": divmod,
    "header in the page": lambda entry, size: divmod(8 * entry + 1024, size),
    "8192": lambda entry, size: divmod(8 * entry, 8192),
    "swapped": lambda entry, size: divmod(8 * entry, size)[::-1],
    "from 1": lambda entry, size: divmod(8 * entry + 8, size),
    "places, not bytes": lambda entry, size: (entry // (size // 8), entry % (size // 8)),
    "31 bits": lambda entry, size: slot_of(entry % 2**31, size),
    "as a float": lambda entry, size: (int(entry / (size / 8) + 1e-3), 8 * entry % size),
    "pages of 64": lambda entry, size: (entry // 64, 8 * entry % size),
}


def dropped(keep: Callable[[int, set[int]], bool], first: str = "stored") -> Answer:
    def answer(list_stored: Any, ask_existing: Any) -> list[int]:
        existing = ask_existing() if first == "existing" else set()
        stored = list_stored()
        existing = existing if first == "existing" else ask_existing()
        return [each for each in stored if not keep(each, existing)]

    return answer


def newest_first(list_stored: Any, ask_existing: Any) -> list[int]:
    stored, existing = list_stored(), ask_existing()
    return [each for each in stored if each not in existing and each < max(existing, default=0)]


def newest_deleted(list_stored: Any, ask_existing: Any) -> list[int]:
    stored, existing = list_stored(), ask_existing()
    newest = max((each for each in stored if each not in existing), default=-1)
    return [each for each in stored if each <= newest]


DROPPED = {
    "asks the other way": dropped(lambda each, existing: each in existing, "existing"),
    "what exists": dropped(lambda each, existing: each not in existing),
    "nothing": dropped(lambda each, existing: True),
    "everything": dropped(lambda each, existing: False),
    "31 bits": dropped(lambda each, existing: each in existing or each >= 2**31),
    "below the newest": newest_first,
    "the first one": lambda stored, existing: dropped(lambda e, there: e in there)(
        stored, existing
    )[:1],
    "out of range": dropped(
        lambda each, existing: min(existing, default=0) <= each <= max(existing, default=0)
    ),
    "by text": dropped(lambda each, existing: str(each) in str(existing)),
    "up to the newest deleted": newest_deleted,
}


def choice(keep: Callable[[Any, float], bool], by: Callable[[Any], Any]) -> Answer:
    return lambda logs, threshold: [
        log.log_id for log in sorted((each for each in logs if keep(each, threshold)), key=by)
    ]


def worth_it(log: Any, threshold: float) -> bool:
    return 0 < log.usage < threshold


def usage(log: Any) -> float:
    part: float = log.usage
    return part


def bytes_of(log: Any) -> int:
    return sum(log.ledger_bytes.values())


WORTH = {
    "by bytes that live": choice(worth_it, bytes_of),
    "by bytes that go": choice(worth_it, lambda log: bytes_of(log) - log.total_bytes),
    "as they come": choice(worth_it, lambda log: 0),
    "by id": choice(worth_it, lambda log: log.log_id),
    "empty ones too": choice(lambda log, threshold: log.usage < threshold, usage),
    "up to the threshold": choice(lambda log, threshold: 0 < log.usage <= threshold, usage),
    "percent": choice(lambda log, threshold: 0 < bytes_of(log) < 100 * threshold, usage),
    "one ledger's bytes": choice(
        lambda log, threshold: (
            0 < max(log.ledger_bytes.values(), default=0) < threshold * log.total_bytes
        ),
        usage,
    ),
    "fullest first": choice(worth_it, lambda log: -log.usage),
    "three at most": lambda logs, threshold: logs_to_compact(logs, threshold)[:3],
}

WRONG: dict[str, dict[str, Answer]] = {
    "entry.pack": PACK,
    "entry.length": LENGTH,
    "entry.intact": INTACT,
    "journal.padding": PADDING,
    "journal.records": RECORDS,
    "journal.removable": REMOVABLE,
    "last_log_mark.replay": REPLAY,
    "storage_path.flush_order": FLUSH_ORDER,
    "storage_path.location": LOCATION,
    "storage_path.index_slot": INDEX_SLOT,
    "garbage.dropped": DROPPED,
    "garbage.worth": WORTH,
}
