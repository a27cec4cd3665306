"""Test how a reader learns LastAddConfirmed, finds the bookies of an entry and reads it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from labkit.system.client.context import ClientConfig
from labkit.system.client.ensemble import with_ensemble
from labkit.system.model.errors import (
    BKNoSuchEntryException,
    BKReadException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.model.wire import BatchReadRequest, Code, Opcode, Request
from tests.batch_answers import batch_answer
from tests.system.client.scripted_bookies import LEDGER, Script, ScriptedConnection
from tests.until import DEADLINE_S, until

HASTY = ClientConfig(request_timeout_s=60.0, speculative_read_timeout_ms=5)


def serving(spares: int = 0) -> Script:
    script = Script(3, 3, 2, spares=spares)
    script.all_serve()
    return script


# LastAddConfirmed


@pytest.mark.promise("LastAddConfirmed is read from a quorum and never decreases")
async def test_quorum_is_enough_to_know_last_add_confirmed() -> None:
    script = serving()
    script.put(3, 2, 0, 1, 2)
    script.bookies[1].serves = False
    assert await script.reader().read_last_add_confirmed() == 2
    assert ("lac.read", 2, "") in script.recorded("lac.read")


async def test_try_read_is_content_with_the_first_bookie_that_knows_more() -> None:
    script = serving()
    script.put(3, 2, 1)
    script.bookies[0].serves = script.bookies[2].serves = False
    assert await script.reader().try_read_last_add_confirmed() == 2


async def test_try_read_fails_only_if_no_bookie_responds() -> None:
    script = serving()
    for bookie in script.bookies[:2]:
        bookie.is_up = False
    reader = script.reader()
    assert await reader.try_read_last_add_confirmed() == -1
    script.bookies[2].die()
    with pytest.raises(BKReadException, match="none of b1, b2, b3 responded"):
        await reader.try_read_last_add_confirmed()


async def test_reader_learns_that_the_ledger_was_closed() -> None:
    script = serving()
    script.put(0, -1, 0, 1, 2)
    reader = script.reader()
    assert await reader.read_last_add_confirmed() == -1
    await script.manager.write(LEDGER, script.metadata.closed(0, 10), 0)
    await until(lambda: not reader.is_watching)
    assert await reader.read_last_add_confirmed() == 0
    assert reader.is_closed
    asked = len(script.bookies[0].asked)
    assert await reader.try_read_last_add_confirmed() == 0
    assert len(script.bookies[0].asked) == asked


async def test_metadata_that_change_before_they_arrive_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = serving()
    manager = script.client.context.manager
    read = manager.read

    async def read_late(
        ledger_id: int, on_change: Callable[[], None] | None = None
    ) -> tuple[LedgerMetadata, int]:
        found = await read(ledger_id, on_change)
        if on_change is not None:
            on_change()
        return found

    monkeypatch.setattr(manager, "read", read_late)
    reader = script.reader()
    await reader.check_closed()
    assert not reader.is_watching


async def test_recovered_end_is_taken_over_by_a_reader_that_was_there_before() -> None:
    script = serving()
    script.put(0, -1, 0, 1, 2)
    reader = script.reader()
    await reader.read_last_add_confirmed()
    await script.manager.write(LEDGER, replace(script.metadata, state=LedgerState.IN_RECOVERY), 0)
    await script.new_client("another").open_ledger(LEDGER)
    await until(lambda: not reader.is_watching)
    assert await reader.read_last_add_confirmed() == 0
    assert (await reader.read_entry(0)).payload == b"entry 0000"


# Changed ensembles


async def test_reader_finds_an_entry_that_lies_elsewhere_than_it_knew() -> None:
    script = serving(spares=3)
    reader = script.reader(5)
    moved = with_ensemble(script.metadata, 5, ("b4", "b5", "b6"))
    await script.manager.write(LEDGER, moved, 0)
    script.put(5, 4, 3, 4, 5)
    assert (await reader.read_entry(5)).payload == b"entry 0005"
    assert reader.metadata.segments == moved.segments


async def test_entry_that_all_bookies_deny_is_missing_if_the_metadata_say_the_same() -> None:
    script = serving()
    with pytest.raises(BKNoSuchEntryException):
        await script.reader(5).read_entry(5)


# Speculative reads


async def test_bookie_that_responds_is_waited_for() -> None:
    """The bookie is slow with one entry but not dead; reading from others too would double the
    load.
    """
    script = Script(3, 3, 2, config=replace(HASTY, speculative_read_timeout_ms=100))
    script.put(0, -1, 0)
    reading = asyncio.create_task(script.reader(3).read_entries(0, 3))
    await script.until_asked(2, 0)
    b1, b2, b3 = script.bookies
    b1.say(Opcode.READ, Code.OK, 0, b1.entries[0])
    await until(lambda: 1 in b3.reads)
    assert b1.reads[:2] == [0, 3]
    assert 3 not in b2.reads + b3.reads
    reading.cancel()


# Batch reads


async def test_batch_asks_for_no_more_than_is_wanted_and_readable() -> None:
    script = Script(3, 3, 2)
    sound = [script.stored(entry_id, b"entry %d" % entry_id) for entry_id in range(4)]
    script.bookies[0].serve_as(gives_batch(sound))
    async with asyncio.timeout(DEADLINE_S):
        assert len(await script.reader(3).read_batch(0, 2, 1000)) == 2
        assert len(await script.reader(2).read_batch(0, 9, 1000)) == 3
        assert len(await script.reader(2).read_batch(0, 0, 1000)) == 3
        script.bookies[1].serve_as(gives_batch(sound[1:]))
        assert len(await script.reader(2).read_batch(1, 0, 1000)) == 2
    asked = [
        each
        for bookie in script.bookies
        for each in bookie.asked
        if isinstance(each, BatchReadRequest)
    ]
    assert [each.max_count for each in asked] == [2, 3, 3, 2]
    reported = [each for _, each, _ in script.recorded("read.done")]
    assert reported == [0, 1, *range(3), *range(3), 1, 2]


async def test_ledger_with_fewer_copies_than_bookies_is_read_entry_by_entry() -> None:
    script = Script(3, 2, 2)
    script.all_serve()
    for entry_id in range(4):
        script.put(entry_id, -1, entry_id % 3)
    for count, max_size in ((3, 25), (2, 1000)):
        entries = await script.reader(3).read_batch(0, count, max_size)
        assert [entry.payload for entry in entries] == [b"entry 0000", b"entry 0001"]


async def test_batch_that_begins_with_a_wrong_digest_is_asked_of_the_next_bookie() -> None:
    script = Script(3, 3, 2)
    sound = [script.stored(entry_id, b"entry %d" % entry_id) for entry_id in range(2)]
    for bookie, batch in zip(script.bookies, ([sound[1], sound[1]], sound), strict=False):
        bookie.serve_as(gives_batch(batch))
    entries = await script.reader(1).read_batch(0, 2, 1000)
    assert [entry.payload for entry in entries] == [b"entry 0", b"entry 1"]


def gives_batch(entries: list[bytes]) -> Callable[[ScriptedConnection, Request], None]:
    """Return a handler that answers each batch read with these entries."""

    def serve(connection: ScriptedConnection, request: Request) -> None:
        assert isinstance(request, BatchReadRequest)
        connection.on_bodies([batch_answer(request, Code.OK, entries)])

    return serve
