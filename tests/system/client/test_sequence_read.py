"""Tests for reading several entries with one call, and for the trace events that this records."""

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from labkit.system.client.context import ClientConfig
from labkit.system.client.ensemble import with_ensemble
from labkit.system.client.reads import BookieReads, SequenceRead, bookies_by_entry
from labkit.system.model.entry import Entry
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKDigestMatchException,
    BKException,
    BKNoSuchEntryException,
    BKReadException,
)
from labkit.system.model.wire import Code, Opcode
from tests.system.client.scripted_bookies import LEDGER, Script, ScriptedBookie
from tests.until import until
from tests.virtual_time import in_virtual_time

KEY = bytes(20)
B1, B2, B3 = "b1", "b2", "b3"
HASTY = ClientConfig(request_timeout_s=60.0, speculative_read_timeout_ms=5)


def reads_of(script: Script) -> BookieReads:
    return BookieReads(LEDGER, script.metadata, script.client.context)


def begun(
    script: Script, bookies: Mapping[int, Sequence[str]]
) -> tuple[SequenceRead, asyncio.Task[list[Entry]]]:
    read = SequenceRead(reads_of(script), bookies)
    return read, asyncio.create_task(read.run())


def give(script: Script, bookie: ScriptedBookie, entry_id: int) -> None:
    bookie.say(Opcode.READ, Code.OK, entry_id, script.stored(entry_id))


# Which bookies are read


async def test_each_entry_is_asked_of_the_first_of_its_bookies_and_given_in_order() -> None:
    script = Script(3, 3, 2)
    b1, b2, b3 = script.bookies
    read, reading = begun(script, {4: [B1, B2], 5: [B2, B3], 6: [B3, B1]})
    await script.until_asked(1)
    assert [bookie.reads for bookie in script.bookies] == [[4], [5], [6]]
    for bookie, entry_id in ((b3, 6), (b1, 4)):
        give(script, bookie, entry_id)
    await asyncio.sleep(0)
    assert not reading.done()
    give(script, b2, 5)
    assert [entry.entry_id for entry in await reading] == [4, 5, 6]
    assert read.unreadable is None


@pytest.mark.promise("The next bookie is asked if one fails, or if one is silent for a while")
async def test_the_next_bookie_is_asked_for_what_one_does_not_have() -> None:
    script = Script(3, 3, 2)
    b1, b2, b3 = script.bookies
    _, reading = begun(script, {4: [B1, B2, B3]})
    await until(lambda: b1.reads == [4])
    b1.say(Opcode.READ, Code.NO_ENTRY, 4)
    await until(lambda: b2.reads == [4])
    b2.say(Opcode.READ, Code.NO_ENTRY, 4)
    await until(lambda: b3.reads == [4])
    give(script, b3, 4)
    assert [entry.entry_id for entry in await reading] == [4]
    assert [bookie.reads for bookie in script.bookies] == [[4]] * 3


async def test_an_entry_that_no_bookie_gives_ends_the_read_with_the_most_telling_error() -> None:
    script = Script(3, 3, 2)
    b1, b2, b3 = script.bookies
    read, reading = begun(script, {4: [B1], 5: [B2, B3], 6: [B3]})
    await script.until_asked(1)
    b2.say(Opcode.READ, Code.NO_ENTRY, 5)
    await until(lambda: b3.reads == [6, 5])
    assert not reading.done()
    b3.say(Opcode.READ, Code.IO_ERROR, 5)
    with pytest.raises(BKReadException) as caught:
        await reading
    assert not isinstance(caught.value, BKNoSuchEntryException)
    assert read.unreadable == 5
    # Later errors change nothing, and later responses are ignored.
    b3.say(Opcode.READ, Code.NO_ENTRY, 6)
    give(script, b1, 4)
    assert read.unreadable == 5


@pytest.mark.parametrize("end", ["cancelled", "unreadable"])
async def test_a_read_that_has_ended_asks_no_other_bookie(end: str) -> None:
    script = Script(3, 3, 2)
    b1, b2, b3 = script.bookies
    _, reading = begun(script, {4: [B1], 5: [B2, B3]})
    await script.until_asked(1, 0, 1)
    if end == "cancelled":
        reading.cancel()
    else:
        b1.say(Opcode.READ, Code.NO_ENTRY, 4)
    await asyncio.wait([reading])
    assert reading.cancelled() or isinstance(reading.exception(), BKNoSuchEntryException)
    b2.say(Opcode.READ, Code.NO_ENTRY, 5)
    for _ in range(5):
        await asyncio.sleep(0)
    assert b3.connect_count == 0


@pytest.mark.parametrize("end", ["cancelled", "unreadable"])
@in_virtual_time
async def test_silent_bookies_of_a_read_that_has_ended_are_not_replaced(end: str) -> None:
    script = Script(3, 3, 2, config=replace(HASTY, speculative_read_timeout_ms=1000))
    b1, b2, b3 = script.bookies
    _, reading = begun(script, {4: [B1, B2], 5: [B3]})
    await asyncio.sleep(0.5)
    if end == "cancelled":
        reading.cancel()
    else:
        b3.say(Opcode.READ, Code.NO_ENTRY, 5)
    await asyncio.sleep(10)
    assert reading.done()
    if end != "cancelled":
        assert isinstance(reading.exception(), BKNoSuchEntryException)
    assert (b1.reads, b2.reads, b3.reads) == ([4], [], [5])


@pytest.mark.parametrize(("speculative_ms", "asked_at_s"), [(0, 60), (2000, 2)])
@in_virtual_time
async def test_a_silent_bookie_is_waited_for_as_long_as_the_settings_say(
    speculative_ms: int, asked_at_s: int
) -> None:
    script = Script(2, 2, 2, config=replace(HASTY, speculative_read_timeout_ms=speculative_ms))
    _, b2 = script.bookies
    _, reading = begun(script, {4: [B1, B2]})
    await asyncio.sleep(asked_at_s - 0.0005)
    assert b2.reads == []
    await asyncio.sleep(1.2)
    assert b2.reads == [4]
    give(script, b2, 4)
    assert [entry.entry_id for entry in await reading] == [4]


@in_virtual_time
async def test_silent_bookies_are_replaced_one_after_the_other_until_none_is_left() -> None:
    script = Script(3, 3, 2, config=replace(HASTY, speculative_read_timeout_ms=1000))
    _, reading = begun(script, {4: [B1, B2, B3]})
    for seconds in range(1, 6):
        await asyncio.sleep(0.5)
        asked = [len(bookie.reads) for bookie in script.bookies]
        assert asked == [int(place < seconds) for place in range(3)]
        await asyncio.sleep(0.5)
    give(script, script.bookies[1], 4)
    assert len(await reading) == 1


async def test_of_two_responses_to_one_question_the_first_counts() -> None:
    script = Script(3, 3, 2, config=HASTY)
    b1, b2, _ = script.bookies
    _, reading = begun(script, {4: [B1, B2], 5: [B2]})
    await until(lambda: 4 in b2.reads)
    b1.say(Opcode.READ, Code.OK, 4, script.stored(4, b"first"))
    b2.say(Opcode.READ, Code.OK, 4, script.stored(4, b"second"))
    give(script, b2, 5)
    assert [entry.payload for entry in await reading] == [b"first", b"payload"]


async def test_a_failure_while_another_bookie_is_still_asked_asks_no_third() -> None:
    script = Script(3, 3, 2, config=HASTY)
    b1, b2, b3 = script.bookies
    read, reading = begun(script, {4: [B1, B2]})
    await until(lambda: b2.reads == [4])
    b1.say(Opcode.READ, Code.NO_ENTRY, 4)
    assert not reading.done()
    assert (b1.reads, b2.reads, b3.reads) == ([4], [4], [])
    give(script, b2, 4)
    assert len(await reading) == 1
    assert read.unreadable is None


# Entries in different segments


async def test_entries_are_asked_of_the_bookies_of_their_segment_the_first_copy_first() -> None:
    metadata = Script(3, 2, 2).metadata
    metadata = with_ensemble(metadata, 4, ("b4", B2, B3))
    metadata = with_ensemble(metadata, 6, ("b4", "b5", B3))
    expected = {
        2: (B3, B1),
        3: (B1, B2),
        4: (B2, B3),
        5: (B3, "b4"),
        6: ("b4", "b5"),
        7: ("b5", B3),
    }
    assert bookies_by_entry(metadata, 2, 7) == expected
    assert bookies_by_entry(metadata, 4, 5) == {entry_id: expected[entry_id] for entry_id in (4, 5)}
    assert bookies_by_entry(metadata, 6, 6) == {6: expected[6]}
    assert bookies_by_entry(metadata, 3, 2) == {}


# Recorded events


class Heard:
    """Sends one read to a bookie and records the reply."""

    def __init__(self, code: Code = Code.OK, data: bytes | None = None) -> None:
        self.script = Script(1, 1, 1)
        self._code, self._data = code, data
        self.replies: list[tuple[str, int, Entry | BKException]] = []

    async def ask(self, entry_id: int, fence_key: bytes = b"") -> list[tuple[str, int, str, str]]:
        reads, [b1] = reads_of(self.script), self.script.bookies
        reads.ask(B1, entry_id, lambda *reply: self.replies.append(reply), fence_key=fence_key)
        await until(lambda: b1.reads)
        data = self.script.stored(max(entry_id, 0), confirmed=-1)
        given = b"" if self._code else data if self._data is None else self._data
        b1.say(Opcode.READ, self._code, entry_id, given)
        await until(lambda: self.replies)
        return [
            (row.kind, row.entry, row.peer, row.error or row.checksum) for row in self.script.rows
        ]


CHECKSUM = f"{zlib.crc32(b'payload'):08x}"
NO_ENTRY = BKNoSuchEntryException.__name__


@pytest.mark.parametrize(
    ("entry_id", "key", "code", "told"),
    [
        (3, b"", Code.OK, [("read.sent", 3, ""), ("read.done", 3, CHECKSUM)]),
        (-1, b"", Code.OK, [("read.sent", -1, ""), ("read.done", -1, "")]),
        (3, b"", Code.NO_ENTRY, [("read.sent", 3, ""), ("read.failed", 3, NO_ENTRY)]),
        (3, KEY, Code.OK, [("read.sent", 3, ""), ("read.done", 3, CHECKSUM)]),
        (-1, KEY, Code.OK, [("fence.sent", -1, ""), ("fence.answered", -1, "")]),
        (-1, KEY, Code.NO_ENTRY, [("fence.sent", -1, ""), ("fence.answered", -1, NO_ENTRY)]),
        (-1, KEY, Code.IO_ERROR, [("fence.sent", -1, ""), ("fence.failed", -1, "BKReadException")]),
    ],
)
async def test_a_question_and_its_response_are_reported_as_a_read_or_as_a_fence(
    entry_id: int, key: bytes, code: Code, told: list[tuple[str, int, str]]
) -> None:
    heard = Heard(code)
    rows = await heard.ask(entry_id, key)
    assert rows == [(kind, entry, B1, what) for kind, entry, what in told]


@pytest.mark.parametrize("what", ["another entry", "a wrong digest"])
async def test_a_response_that_is_not_the_entry_is_an_error(what: str) -> None:
    data = Script(1, 1, 1).stored(4)
    heard = Heard(data=data if what == "another entry" else data[:-1] + b"?")
    rows = await heard.ask(3 if what == "another entry" else 4)
    [(bookie, _, reply)] = heard.replies
    assert bookie == B1
    assert isinstance(reply, BKDigestMatchException)
    assert rows[-1][0] == "read.failed"


async def test_replies_of_all_come_with_their_places_whatever_they_are() -> None:
    script = Script(3, 3, 2)
    b1, b2, b3 = script.bookies
    replies = reads_of(script).ask_all([B3, B1, B2], 4)
    await script.until_asked(1)
    b2.say(Opcode.READ, Code.NO_ENTRY, 4)
    b1.drop()
    give(script, b3, 4)
    told = [await replies.get() for _ in range(3)]
    assert [place for place, _ in told] == [2, 1, 0]
    kinds = [type(reply) for _, reply in told]
    assert kinds == [BKNoSuchEntryException, BKBookieHandleNotAvailableException, Entry]


async def test_no_entries_are_read_without_a_question() -> None:
    script = Script(3, 3, 2)
    assert await SequenceRead(reads_of(script), {}).run() == []
    assert [bookie.connect_count for bookie in script.bookies] == [0, 0, 0]
