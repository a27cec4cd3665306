"""Tests lesson 02: each typical wrong answer is rejected with its own explanation."""

import struct

import pytest

from labkit.course.exercises.journal import records_of
from labkit.course.lessons import check
from labkit.course.runs.trial import CrashCounterexample
from labkit.system.storage.journal import padding
from tests.course.lessons.refused import Wrong, refused
from tests.repeat import repeated_cases

pytestmark = pytest.mark.slow

ALIGNED = "After the padding, the file must continue at a multiple of the alignment."
SHORT = "Padding must be as short as possible, and empty if the offset is already aligned."
STEP_OVER = "Replay must be able to skip the padding and find the next record."


def count_includes_the_head(offset: int, alignment: int) -> bytes:
    left = -offset % alignment
    return struct.pack(">ii", -0x100, left) + bytes(left) if left else b""


def never_spills(offset: int, alignment: int) -> bytes:
    left = -offset % alignment
    return padding(offset, alignment) if left >= 8 else bytes(left)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (count_includes_the_head, ALIGNED),
        ("none below eight", ALIGNED),
        ("where it is aligned too", SHORT),
        ("one block more", SHORT),
        ("zeros", STEP_OVER),
        (never_spills, STEP_OVER),
        ("positive mask", STEP_OVER),
        ("the count counts the header", STEP_OVER),
    ],
)
def test_wrong_padding_is_refused(wrong: Wrong, reason: str) -> None:
    card = refused("journal.padding", wrong, reason)
    assert card.message == reason
    assert card.counterexample is not None


def test_padding_that_replay_takes_for_the_end_loses_an_acknowledged_entry() -> None:
    found = refused("journal.padding", "zeros", STEP_OVER).counterexample
    assert isinstance(found, CrashCounterexample)
    assert found.smallest.cell.verdict == "lost"
    assert str(found.smallest.cell) == "acknowledged but lost: entry 1 of ledger 5"


def scan(data: bytes, start: int, *, pad: int = 8, torn: str = "end") -> list[tuple[int, bytes]]:
    """Scan a journal; each parameter can introduce one bug."""
    at, found = start, []
    while at + 4 <= len(data):
        (length,) = struct.unpack_from(">i", data, at)
        if length == -0x100 and pad:
            if at + 8 > len(data):
                break
            at += pad + struct.unpack_from(">i", data, at + 4)[0]
            continue
        if length <= 0:
            break
        body = data[at + 4 : at + 4 + length]
        if len(body) < length and torn == "end":
            break
        found.append((at, body))
        at += 4 + length
    return found


def test_the_reader_with_nothing_wrong_passes() -> None:
    assert check("journal.records", scan).passed


def stops_at_padding(data: bytes, start: int) -> list[tuple[int, bytes]]:
    return scan(data, start, pad=0)


def forgets_the_eight_bytes(data: bytes, start: int) -> list[tuple[int, bytes]]:
    return scan(data, start, pad=1)


def takes_the_torn_tail(data: bytes, start: int) -> list[tuple[int, bytes]]:
    return scan(data, start, torn="take")


def does_not_look_for_the_end(data: bytes, start: int) -> list[tuple[int, bytes]]:
    at, found = start, []
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        found.append((at, data[at + 4 : at + 4 + length]))
        at += 4 + length
    return found


def zeros_go_on(data: bytes, start: int) -> list[tuple[int, bytes]]:
    at, found = start, []
    while at + 4 <= len(data):
        (length,) = struct.unpack_from(">i", data, at)
        if length == -0x100:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")
        elif length == 0:
            continue
        elif at + 4 + length > len(data):
            break
        else:
            found.append((at, data[at + 4 : at + 4 + length]))
            at += 4 + length
    return found


@pytest.mark.parametrize(
    ("wrong", "reason"),
    repeated_cases(
        [
            (stops_at_padding, "Return every complete record"),
            (forgets_the_eight_bytes, "Return every complete record"),
            (takes_the_torn_tail, "Return every complete record"),
            ("from the first", "Replay starts at the offset of LastLogMark, not before it."),
            (does_not_look_for_the_end, "Your code raised error: unpack_from requires a buffer"),
            (zeros_go_on, "Your code does not come to an end; it was last in zeros_go_on, line "),
        ],
        once=3,
    ),
)
def test_a_wrong_reader_is_refused(wrong: Wrong, reason: str) -> None:
    refused("journal.records", wrong, reason)


def test_refusal_names_the_first_different_record() -> None:
    def last_byte_wrong(data: bytes, start: int) -> list[tuple[int, bytes]]:
        found = records_of(data, start)
        return [(at, body[:-1] + bytes([body[-1] ^ 1])) for at, body in found[:1]] + found[1:]

    message = check("journal.records", last_byte_wrong).message
    assert "first difference is in record 0: byte 15 of the body at offset 512 is 0xff" in message
    message = check("journal.records", lambda data, start: []).message
    assert "record 0: expected the record at offset 512, got no further record" in message


NEEDED = "A journal can be deleted only if LastLogMark points into a later one."


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("the marked one too", NEEDED),
        ("backups of all", NEEDED),
        ("minus zero", "A journal that is neither needed nor kept as a backup must be deleted."),
        ("newest first", "The oldest journals must be deleted first."),
        ("no backups", "journalMaxBackups journals must be kept as backups although replay does"),
    ],
)
def test_wrong_trimming_is_refused(wrong: Wrong, reason: str) -> None:
    refused("journal.removable", wrong, reason)


def test_removing_the_marked_journal_keeps_the_bookie_from_starting() -> None:
    found = refused("journal.removable", "the marked one too", NEEDED).counterexample
    assert isinstance(found, CrashCounterexample)
    assert found.smallest.cell.verdict == "refused"
    assert "is missing" in found.smallest.cell.error


def test_a_body_with_its_length_word_is_refused_by_its_size() -> None:
    def with_length(data: bytes, start: int) -> list[tuple[int, bytes]]:
        return [(at, data[at : at + 4] + body) for at, body in records_of(data, start)]

    message = check("journal.records", with_length).message
    assert "starts after the length word, has 16 bytes; yours has 20" in message


def test_only_existing_journals_can_be_deleted() -> None:
    message = check("journal.removable", lambda ids, mark, backups: [99]).message
    assert message == "Journal 99 does not exist; the journals are [1, 2, 3]."
