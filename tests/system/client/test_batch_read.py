"""Tests for reading several entries with one request."""

import asyncio
import zlib

import pytest

from labkit.system.client.batch_read import BatchReads
from labkit.system.client.ensemble import with_ensemble
from labkit.system.model.entry import Entry
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.model.wire import MAX_FRAME_SIZE, BatchReadRequest, Code
from tests.batch_answers import batch_answer
from tests.system.client.scripted_bookies import LEDGER, Script, ScriptedBookie
from tests.until import until

SIZE = 1000


def batches(script: Script) -> BatchReads:
    return BatchReads(LEDGER, script.metadata, script.client.context)


def begun(
    script: Script,
    first: int,
    count: int,
    max_size: int = SIZE,
    metadata: LedgerMetadata | None = None,
) -> tuple[BatchReads, asyncio.Task[list[Entry]]]:
    reads = batches(script)
    reading = reads.read(metadata or script.metadata, first, count, max_size)
    return reads, asyncio.create_task(reading)


async def asked(bookie: ScriptedBookie) -> BatchReadRequest:
    """Wait for the only request to the bookie and return it."""
    await until(lambda: bookie.asked)
    [request] = bookie.asked
    assert isinstance(request, BatchReadRequest)
    return request


async def say(bookie: ScriptedBookie, code: Code, *entries: bytes) -> None:
    request = await asked(bookie)
    bookie.connections[-1].on_bodies([batch_answer(request, code, entries)])


def ids(entries: list[Entry]) -> list[int]:
    return [entry.entry_id for entry in entries]


async def test_a_batch_is_asked_of_the_first_entrys_first_bookie_by_its_number_and_size() -> None:
    script = Script(3, 3, 2)
    _, reading = begun(script, 4, 2)
    _, b2, _ = script.bookies
    assert await asked(b2) == BatchReadRequest(LEDGER, 4, 4, 2, SIZE)
    await say(b2, Code.OK, script.stored(4), script.stored(5))
    assert ids(await reading) == [4, 5]
    assert [bookie.connect_count for bookie in script.bookies] == [0, 1, 0]


@pytest.mark.parametrize("max_size", [MAX_FRAME_SIZE - 1, MAX_FRAME_SIZE, MAX_FRAME_SIZE + 1])
async def test_no_more_is_asked_for_than_fits_into_a_frame(max_size: int) -> None:
    script = Script(1, 1, 1)
    _, reading = begun(script, 0, 2, max_size)
    assert (await asked(script.bookies[0])).max_size == min(max_size, MAX_FRAME_SIZE)
    reading.cancel()


async def test_of_more_entries_than_were_asked_for_the_others_are_left_out() -> None:
    script = Script(1, 1, 1)
    _, reading = begun(script, 0, 2)
    await say(script.bookies[0], Code.OK, *(script.stored(each) for each in range(4)))
    assert ids(await reading) == [0, 1]


@pytest.mark.parametrize(("first", "count", "asked_for"), [(3, 9, 2), (4, 9, 1), (5, 9, 9)])
async def test_a_batch_ends_in_front_of_the_next_segment(
    first: int, count: int, asked_for: int
) -> None:
    script = Script(1, 1, 1, spares=1)
    metadata = with_ensemble(script.metadata, 5, ("b2",))
    _, reading = begun(script, first, count, metadata=metadata)
    bookie = script.bookies[1 if first >= 5 else 0]
    assert (await asked(bookie)).max_count == asked_for
    reading.cancel()


async def test_the_next_bookie_is_asked_when_one_has_nothing_or_makes_no_sense() -> None:
    script = Script(3, 3, 2)
    b1, b2, b3 = script.bookies
    reads, reading = begun(script, 0, 2)
    await say(b1, Code.NO_ENTRY)
    request = await asked(b2)
    whole = batch_answer(request, Code.OK, [script.stored(0)])
    b2.connections[-1].on_bodies([whole[:-1]])
    await say(b3, Code.OK, script.stored(0))
    assert ids(await reading) == [0]
    assert reads.is_supported
    told = [(row.kind, row.entry, row.peer, row.error or row.checksum) for row in script.rows]
    assert told == [
        ("read.sent", 0, "b1", ""),
        ("read.failed", 0, "b1", "BKNoSuchEntryException"),
        ("read.sent", 0, "b2", ""),
        ("read.failed", 0, "b2", "BKReadException"),
        ("read.sent", 0, "b3", ""),
        ("read.done", 0, "b3", f"{zlib.crc32(b'payload'):08x}"),
    ]


async def test_without_a_batch_of_any_bookie_there_are_no_entries() -> None:
    script = Script(3, 3, 2)
    reads, reading = begun(script, 0, 2)
    for bookie in script.bookies:
        await say(bookie, Code.NO_ENTRY)
    assert await reading == []
    assert reads.is_supported


async def test_after_a_lost_connection_no_bookie_is_asked_for_a_batch() -> None:
    script = Script(3, 3, 2)
    reads, reading = begun(script, 0, 2)
    await until(lambda: script.bookies[0].asked)
    script.bookies[0].drop()
    assert await reading == []
    assert not reads.is_supported
    assert await reads.read(script.metadata, 1, 2, SIZE) == []
    assert [bookie.connect_count for bookie in script.bookies] == [1, 0, 0]


async def test_a_striped_ledger_is_never_asked_for_a_batch() -> None:
    script = Script(3, 2, 2)
    reads, reading = begun(script, 0, 2)
    assert not reads.is_supported
    assert await reading == []
    assert [bookie.connect_count for bookie in script.bookies] == [0, 0, 0]


async def test_a_batch_ends_in_front_of_a_wrong_digest_and_the_trace_says_so() -> None:
    script = Script(1, 1, 1)
    _, reading = begun(script, 3, 3)
    stored = [script.stored(entry_id) for entry_id in (3, 4, 5)]
    await say(script.bookies[0], Code.OK, stored[0], stored[1][:-1] + b"?", stored[2])
    assert ids(await reading) == [3]
    told = [(row.kind, row.entry, row.peer, row.error or row.checksum) for row in script.rows[1:]]
    assert told == [
        ("read.done", 3, "b1", f"{zlib.crc32(b'payload'):08x}"),
        ("read.failed", 4, "b1", "BKDigestMatchException"),
    ]


async def test_a_response_to_a_read_that_was_cancelled_is_dropped() -> None:
    script = Script(1, 1, 1)
    _, reading = begun(script, 0, 1)
    await until(lambda: script.bookies[0].asked)
    reading.cancel()
    await asyncio.wait([reading])
    await say(script.bookies[0], Code.OK, script.stored(0))
    assert script.recorded("read.done", "read.failed") == []


async def test_batch_reads_remain_unsupported_when_a_concurrent_one_fails_for_another_reason() -> (
    None
):
    script = Script(2, 2, 1)
    b1, b2 = script.bookies
    reads = batches(script)
    lost, denied = (asyncio.create_task(reads.ask(name, 0, 2, SIZE)) for name in ("b1", "b2"))
    await script.until_asked(1)
    b1.drop()
    assert await lost == []
    await say(b2, Code.NO_ENTRY)
    assert await denied == []
    assert not reads.is_supported
