"""Tests lesson 01: each typical wrong answer is rejected with its own explanation."""

import struct
from itertools import accumulate

import pytest

from labkit.course.exercises.entry import is_intact
from labkit.course.lessons import check
from labkit.system.model.entry import Digest, Entry, encode_entry
from tests.course.lessons.refused import Wrong, refused


def header(entry: Entry, order: str = ">", *, lac: int | None = None) -> bytes:
    confirmed = entry.last_add_confirmed if lac is None else lac
    return struct.pack(order + "qqqq", entry.ledger_id, entry.entry_id, confirmed, entry.length)


def ids_swapped(entry: Entry, digest: Digest) -> bytes:
    numbers = entry.entry_id, entry.ledger_id, entry.last_add_confirmed, entry.length
    head = struct.pack(">qqqq", *numbers)
    return head + digest.compute(head, entry.payload) + entry.payload


def digest_at_the_end(entry: Entry, digest: Digest) -> bytes:
    return header(entry) + entry.payload + digest.compute(header(entry), entry.payload)


def no_digest(entry: Entry, digest: Digest) -> bytes:
    return header(entry) + entry.payload


def zero_for_nothing_confirmed(entry: Entry, digest: Digest) -> bytes:
    head = header(entry, lac=max(entry.last_add_confirmed, 0))
    return head + digest.compute(head, entry.payload) + entry.payload


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("little-endian", "Bytes 0 to 7 are the ledger id"),
        (ids_swapped, "Bytes 0 to 7 are the ledger id"),
        (zero_for_nothing_confirmed, "Bytes 16 to 23 are the last add confirmed"),
        ("digest of the payload", "are the digest (checksum of header and payload)"),
        (digest_at_the_end, "are the digest (checksum of header and payload)"),
        (no_digest, "with a payload of 0 bytes has 32 + 8 + 0 bytes; yours has 32"),
    ],
)
def test_a_wrongly_packed_entry_is_refused_by_its_first_wrong_field(
    wrong: Wrong, reason: str
) -> None:
    refused("entry.pack", wrong, reason)


def test_refusal_names_the_first_different_byte() -> None:
    def length_off_by_256(entry: Entry, digest: Digest) -> bytes:
        packed = encode_entry(entry, digest)
        return packed[:30] + bytes([packed[30] ^ 1]) + packed[31:]

    message = check("entry.pack", length_off_by_256).message
    assert message.startswith("The first difference is at byte 30. Bytes 24 to 31 are the length")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("its own size", "With payloads of [5, 0] bytes, the ledger's length is 5; its last"),
        ("before it", "of [5] bytes, the ledger's length is 5"),
        (lambda sizes: list(accumulate(s + 36 for s in sizes)), "its last entry says 41"),
        ("the whole ledger", "of [5] bytes, the ledger's length is 5"),
        (lambda sizes: list(accumulate(sizes))[1:], "expected 1 lengths for [5], got 0"),
    ],
)
def test_a_wrong_length_is_found_by_a_reader_of_the_last_entry(wrong: Wrong, reason: str) -> None:
    refused("entry.length", wrong, reason)


def ids_left_out(data: bytes, digest: Digest) -> bool:
    return is_intact(data[:16] + data[16:], digest) or len(data) > 32 + digest.size


def always_four_bytes(data: bytes, digest: Digest) -> bool:
    return data[32:36] == digest.compute(data[:32], data[36:])


def cut_is_fine(data: bytes, digest: Digest) -> bool:
    return len(data) < 32 + digest.size or is_intact(data, digest)


def size_not_checked(data: bytes, digest: Digest) -> bool:
    end = 32 + digest.size
    return data[32:end] == digest.compute(data[:32], data[end:])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (size_not_checked, "truncated to 0 bytes is not intact (DUMMY)"),
        ("digest of the payload", "An unchanged entry is intact (CRC32)"),
        (always_four_bytes, "An unchanged entry is intact (CRC32)"),
        ("always", "Byte 16, in the last add confirmed, was changed on disk"),
        (ids_left_out, "Byte 16, in the last add confirmed, was changed on disk"),
        (cut_is_fine, "An entry that was truncated to 0 bytes is not intact"),
    ],
)
def test_a_check_that_misses_a_change_is_refused_by_the_byte_it_missed(
    wrong: Wrong, reason: str
) -> None:
    refused("entry.intact", wrong, reason)
