"""Tests for a ledger reader with scripted bookies."""

import asyncio
from collections.abc import Awaitable

import pytest

from labkit.system.client import reader as reader_module
from labkit.system.client.context import ClientConfig
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.entry import Entry
from labkit.system.model.errors import (
    PROVES_ABSENCE,
    BKBookieHandleNotAvailableException,
    BKException,
    BKNoSuchEntryException,
    BKReadException,
    BKTimeoutException,
    BKUnauthorizedAccessException,
)
from labkit.system.model.wire import Code, Opcode
from labkit.worlds.sim.machine.loop import SimLoop
from tests.system.client.scripted_bookies import LEDGER, Script, ScriptedBookie
from tests.until import DEADLINE_S, until


async def answered(bookie: ScriptedBookie, entry_id: int, code: Code, data: bytes = b"") -> None:
    """Answer the read after the bookie has received it."""
    await until(lambda: entry_id in bookie.reads)
    bookie.say(Opcode.READ, code, entry_id, data)


async def failing(read: Awaitable[Entry]) -> BKException:
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(BKException) as raised:
            await read
    return raised.value


@pytest.mark.promise("A reader receives nothing beyond LastAddConfirmed")
@pytest.mark.parametrize("entry_id", [-1, 3, 100])
async def test_nothing_beyond_last_add_confirmed_is_asked_for(entry_id: int) -> None:
    script = Script(3, 3, 2)
    with pytest.raises(BKReadException, match="is not readable: LastAddConfirmed is 2"):
        await script.reader(2).read_entry(entry_id)
    assert not any(bookie.asked for bookie in script.bookies)


@pytest.mark.promise("No entry with a wrong digest is returned")
async def test_damaged_entry_is_never_returned_while_another_copy_is_right() -> None:
    script = Script(2, 2, 1)
    damaged = bytearray(script.stored(0))
    damaged[-1] ^= 1
    read = asyncio.create_task(script.reader(0).read_entry(0))
    await answered(script.bookies[0], 0, Code.OK, bytes(damaged))
    await answered(script.bookies[1], 0, Code.OK, script.stored(0))
    assert (await read).payload == b"payload"


@pytest.mark.promise('"No such entry" and "could not read" are never confused')
async def test_no_such_entry_from_one_and_silence_from_another_proves_nothing() -> None:
    script = Script(3, 3, 2)
    script.bookies[1].is_up = False
    read = asyncio.create_task(script.reader(0).read_entry(0))
    await answered(script.bookies[0], 0, Code.NO_ENTRY)
    await answered(script.bookies[2], 0, Code.NO_LEDGER)
    error = await failing(read)
    assert isinstance(error, BKBookieHandleNotAvailableException)
    assert not isinstance(error, PROVES_ABSENCE)


async def test_no_such_entry_from_all_proves_that_it_is_not_there() -> None:
    script = Script(2, 2, 2)
    read = asyncio.create_task(script.reader(0).read_entry(0))
    await answered(script.bookies[0], 0, Code.NO_ENTRY)
    await answered(script.bookies[1], 0, Code.NO_LEDGER)
    error = await failing(read)
    assert isinstance(error, BKNoSuchEntryException)
    assert isinstance(error, PROVES_ABSENCE)


async def test_silent_bookie_is_a_timeout_and_its_late_response_is_dropped() -> None:
    script = Script(1, 1, 1, config=ClientConfig(request_timeout_s=0.01))
    reader = script.reader(0)
    assert isinstance(await failing(reader.read_entry(0)), BKTimeoutException)
    script.bookies[0].say(Opcode.READ, Code.OK, 0, script.stored(0))
    assert isinstance(await failing(reader.read_entry(0)), BKTimeoutException)


def test_a_request_is_given_up_at_the_moment_when_its_time_is_up() -> None:
    async def given_up_at() -> float:
        script = Script(1, 1, 1, config=ClientConfig(request_timeout_s=3.0))
        with pytest.raises(BKTimeoutException):
            await script.reader(0).read_entry(0)
        return asyncio.get_running_loop().time()

    assert SimLoop().run(given_up_at()) == 3.0


async def test_cancelled_read_leaves_the_next_one_its_response() -> None:
    script = Script(1, 1, 1)
    reader = script.reader(0)
    cancelled = asyncio.create_task(reader.read_entry(0))
    await script.until_asked(1)
    cancelled.cancel()
    read = asyncio.create_task(reader.read_entry(0))
    await script.until_asked(2)
    script.bookies[0].say(Opcode.READ, Code.OK, 0, script.stored(0))
    script.bookies[0].say(Opcode.READ, Code.OK, 0, script.stored(0))
    assert (await read).entry_id == 0


async def test_last_add_confirmed_is_the_largest_that_any_last_entry_carries() -> None:
    script = Script(3, 3, 2)
    reader = script.reader()
    asking = asyncio.create_task(reader.read_last_add_confirmed())
    for bookie, (last, confirmed) in zip(script.bookies, [(4, 2), (6, 5), (3, 1)], strict=True):
        await answered(bookie, -1, Code.OK, script.stored(last, confirmed=confirmed))
    assert await asking == reader.last_add_confirmed == 5


async def test_last_add_confirmed_never_goes_back() -> None:
    script = Script(1, 1, 1)
    reader = script.reader(5)
    asking = asyncio.create_task(reader.read_last_add_confirmed())
    await answered(script.bookies[0], -1, Code.OK, script.stored(3, confirmed=2))
    assert await asking == 5


async def test_last_add_confirmed_is_unknown_while_too_many_are_silent() -> None:
    script = Script(3, 3, 2)
    script.bookies[1].is_up = script.bookies[2].is_up = False
    asking = asyncio.create_task(script.reader().read_last_add_confirmed())
    await answered(script.bookies[0], -1, Code.OK, script.stored(3, confirmed=2))
    with pytest.raises(BKReadException, match="no valid response from b2, b3"):
        await asking


async def test_damaged_last_entry_tells_nothing_about_last_add_confirmed() -> None:
    script = Script(1, 1, 1)
    asking = asyncio.create_task(script.reader().read_last_add_confirmed())
    await answered(script.bookies[0], -1, Code.OK, bytes(40))
    with pytest.raises(BKReadException, match=f"LastAddConfirmed of ledger {LEDGER}"):
        await asking


async def test_a_bookie_that_rejects_the_password_ends_the_question_for_last_entries() -> None:
    script = Script(3, 3, 2)
    reader = script.reader()
    asking = asyncio.create_task(
        reader.bookie_reads.last_entries(reader.metadata, fence_key=bytes(20))
    )
    await answered(script.bookies[0], -1, Code.UNAUTHORIZED)
    with pytest.raises(BKUnauthorizedAccessException):
        await asking


async def test_empty_ledger_has_nothing_confirmed() -> None:
    script = Script(2, 2, 2)
    asking = asyncio.create_task(script.reader().read_last_add_confirmed())
    for bookie in script.bookies:
        await answered(bookie, -1, Code.NO_LEDGER)
    assert await asking == -1


async def test_bookies_response_counts_where_the_metadata_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(1, 1, 1)
    script.all_serve()
    reader = script.reader(0)

    async def unavailable(*_: object) -> None:
        raise MetadataUnavailableError("the metadata store is unavailable")

    monkeypatch.setattr(script.client.context.manager, "read", unavailable)
    assert isinstance(await failing(reader.read_entry(0)), BKNoSuchEntryException)


async def test_all_of_a_ledger_is_read_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "_CHUNK_SIZE", 2)
    script = Script(1, 1, 1)
    script.all_serve()
    for entry_id in range(6):
        script.put(entry_id, entry_id - 1, 0)
    reader = script.reader()
    assert await reader.read_last_add_confirmed() == 4
    assert [entry.entry_id async for entry in reader.read()] == [0, 1, 2, 3, 4]
    assert [entry.entry_id async for entry in reader.read(1, 3)] == [1, 2, 3]
    assert [entry.entry_id async for entry in reader.read(1, 4)] == [1, 2, 3, 4]
