"""Wrong answers to lessons 01 and 10, each of which is correct in the most obvious cases."""

import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import Any

from labkit.course.exercises.entry import is_intact
from labkit.system.model.entry import encode_entry
from labkit.system.storage.garbage import logs_to_compact

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
    "garbage.dropped": DROPPED,
    "garbage.worth": WORTH,
}
