"""Tests for recovery concurrent with another recovery, with the writer, or with bookie failures."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from labkit.system.client.ensemble import with_ensemble
from labkit.system.model.errors import (
    BKException,
    BKLedgerClosedException,
    BKLedgerRecoveryException,
)
from labkit.system.model.ledger import LedgerState, Segment
from labkit.system.model.wire import AddBatch, ReadRequest, Request
from tests.system.client.recovering import end, numbered, payloads, recovered, serving
from tests.system.client.scripted_bookies import LEDGER, ScriptedBookie, ScriptedConnection
from tests.until import until
from tests.virtual_time import in_virtual_time


@pytest.mark.promise(
    "Two clients that recover a ledger at once agree, and another client completes an "
    "interrupted recovery in every phase"
)
async def test_two_clients_that_recover_at_once_agree() -> None:
    script = serving()
    script.put(0, -1, 0, 1)
    script.put(1, 0, 1, 2)
    others = [script.new_client(name) for name in ("one", "two", "three")]
    readers = await asyncio.gather(*(other.open_ledger(LEDGER) for other in others))
    assert {end(reader.metadata) for reader in readers} == {(LedgerState.CLOSED, 1, 20)}
    assert len(script.recorded("ledger.closed")) == 1
    assert len(script.recorded("recovery.ended")) == 3


async def test_the_second_recovery_takes_the_end_that_the_first_has_fixed() -> None:
    script = serving()
    script.put(0, -1, 0, 1)
    closed = script.metadata.closed(-1, 0)

    async def another_closes() -> None:
        script.store.before_next_set = close

    async def close() -> None:
        _, version = await script.manager.read(LEDGER)
        await script.manager.write(LEDGER, closed, version)

    script.store.before_next_set = another_closes
    reader = await recovered(script)
    assert end(reader.metadata) == (LedgerState.CLOSED, -1, 0)
    assert script.recorded("ledger.closed") == []
    assert script.recorded("recovery.ended") == [("recovery.ended", -1, "")]


@pytest.mark.promise("The first client to close a ledger decides, even if it is the old writer")
async def test_writer_that_closes_during_recovery_fixes_its_own_end() -> None:
    script = serving()
    writer = script.writer()
    await writer.add(b"entry 0000")
    await script.manager.write(
        LEDGER, replace(script.metadata, state=LedgerState.IN_RECOVERY, c_token=0), 0
    )
    script.store.before_next_set = writer.close
    reader = await recovered(script, script.new_client("another"))
    assert end(reader.metadata) == (LedgerState.CLOSED, 0, 10)


@pytest.mark.parametrize("turns", range(0, 60, 2))
async def test_recovery_that_was_interrupted_is_taken_up_by_another(turns: int) -> None:
    script = serving(spares=1)
    for entry_id in range(4):
        script.put(entry_id, entry_id - 1, entry_id % 3, (entry_id + 1) % 3)
    script.put(4, 3, 1)
    first = script.new_client("first")
    recovering = asyncio.create_task(first.open_ledger(LEDGER))
    for _ in range(turns):
        await asyncio.sleep(0)
    recovering.cancel()
    first.close()
    script.bookies[turns % 3].die()
    reader = await recovered(script, script.new_client("second"))
    assert reader.last_add_confirmed in (3, 4)
    assert await payloads(reader) == numbered(reader.last_add_confirmed + 1)


# Bookies that fail during recovery


@pytest.mark.promise("Recovery stores its ensemble change only together with the ledger's end")
async def test_ensemble_of_a_recovery_is_stored_only_when_the_ledger_is_closed() -> None:
    script = serving(spares=1)
    script.put(0, -1, 0, 1, 2)
    script.put(1, 0, 0, 1, 2)
    script.bookies[2].die()
    before_close: list[list[tuple[int, str]]] = []

    async def marks() -> None:
        script.store.before_next_set = closes

    async def closes() -> None:
        before_close.append(await script.segments())

    script.store.before_next_set = marks
    reader = await recovered(script)
    assert before_close == [[(0, "b1 b2 b3")]]
    assert [(s.first_entry_id, s.ensemble) for s in reader.metadata.segments] == [
        (0, ("b1", "b2", "b3")),
        (1, ("b1", "b2", "b4")),
    ]
    await until(lambda: script.bookies[3].entries)
    told = script.recorded("ensemble.deferred", "ensemble.set", "ledger.closed")
    assert [kind for kind, *_ in told] == ["ensemble.deferred", "ensemble.set", "ledger.closed"]
    assert [entry for _, entry, _ in told] == [1, 1, 1]


async def test_change_of_another_segment_meanwhile_is_kept() -> None:
    script = serving(spares=3)
    for entry_id in range(5):
        script.put(entry_id, entry_id - 1, 0, 1, 2)
    for place in (3, 4, 5):
        script.put(5, 4, place)
    await script.manager.write(LEDGER, with_ensemble(script.metadata, 5, ("b4", "b5", "b6")), 0)

    async def another_marks() -> None:
        script.store.before_next_set = somebody_repairs

    async def somebody_repairs() -> None:
        metadata, version = await script.manager.read(LEDGER)
        segments = (Segment(0, ("b6", "b2", "b3")), *metadata.segments[1:])
        await script.manager.write(LEDGER, replace(metadata, segments=segments), version)

    script.store.before_next_set = another_marks
    reader = await recovered(script)
    assert end(reader.metadata) == (LedgerState.CLOSED, 5, 60)
    assert reader.metadata.segments[0].ensemble == ("b6", "b2", "b3")


async def test_recovery_ends_with_the_reason_when_nothing_can_be_written_back() -> None:
    script = serving()
    script.put(0, -1, 0, 1, 2)
    script.put(1, 0, 0, 1)
    for bookie in script.bookies[1:]:
        bookie.serve_as(dies_behind_the_end(bookie))
    with pytest.raises(BKLedgerRecoveryException, match="no other writable bookie is left"):
        await script.client.open_ledger(LEDGER)
    assert [bookie.adds for bookie in script.bookies] == [[1], [1], [1]]
    assert (await script.stored_metadata()).state is LedgerState.IN_RECOVERY


def dies_behind_the_end(bookie: ScriptedBookie) -> Callable[[ScriptedConnection, Request], None]:
    """Return a handler that ignores adds and kills the bookie after it has denied entry 2, which is
    when recovery knows the end of the ledger and only has to write back its entry.
    """
    serve = bookie.serve

    def only_reads(connection: ScriptedConnection, request: Request) -> None:
        if isinstance(request, AddBatch):
            return
        serve(connection, request)
        if isinstance(request, ReadRequest) and request.entry_id == 2:
            bookie.die()

    return only_reads


@in_virtual_time
async def test_recovery_that_was_cancelled_replaces_no_bookie() -> None:
    script = serving(spares=1)
    script.put(0, -1, 0, 1, 2)
    *ensemble, spare = script.bookies
    for bookie in ensemble:
        bookie.serve_as(dies_behind_the_end(bookie))
    recovering = asyncio.create_task(script.client.open_ledger(LEDGER))
    await until(lambda: all(bookie.adds == [0] for bookie in ensemble))
    recovering.cancel()
    await asyncio.wait([recovering])
    ensemble[0].die()
    await asyncio.sleep(1.0)
    assert spare.connect_count == 0


async def test_writer_learns_from_its_close_that_another_end_holds() -> None:
    script = serving()
    writer = script.writer()
    script.bookies[0].serves = script.bookies[2].serves = False
    added = writer.add(b"entry 0000")
    await until(lambda: script.bookies[1].entries)
    script.bookies[0].serves = script.bookies[2].serves = True
    reader = await recovered(script, script.new_client("another"))
    assert reader.last_add_confirmed == 0
    with pytest.raises(BKException, match="by another client at entry 0"):
        await writer.close()
    assert isinstance(added.exception(), BKLedgerClosedException)
