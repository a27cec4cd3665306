"""Test how a writer reacts when bookies fail, with scripted bookies."""

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from labkit.system.client.context import ClientConfig
from labkit.system.model.errors import (
    BKLedgerFencedException,
    BKNotEnoughBookiesException,
    BKWriteException,
)
from labkit.system.model.wire import AddBatch, Code, Opcode, encode_response
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Write
from tests.system.client.scripted_bookies import LEDGER, Script, pushed
from tests.until import until


@pytest.mark.promise(
    "A failed bookie is replaced from LAC + 1 on; unconfirmed entries are resent unchanged"
)
async def test_failed_bookie_is_replaced_from_behind_last_add_confirmed_on() -> None:
    script = Script(3, 3, 2, spares=1)
    b1, b2, b3, b4 = script.bookies
    writer, adds = await pushed(script, 4)
    for bookie in (b1, b2):
        bookie.ack(0, 1)
    b3.refuse(3, Code.IO_ERROR)
    await until(lambda: b4.adds == [2, 3])
    assert await script.segments() == [(0, "b1 b2 b3"), (2, "b1 b2 b4")]
    assert (b1.adds, b2.adds, b3.adds) == ([0, 1, 2, 3],) * 3
    b4.ack(2, 3)
    b1.ack(2, 3)
    assert [add.result() for add in adds] == [0, 1, 2, 3]
    assert writer.last_add_confirmed == 3


async def test_same_bytes_are_sent_again() -> None:
    script = Script(2, 2, 2, spares=1)
    await pushed(script, 2)
    script.bookies[0].ack(0)
    script.bookies[1].drop()
    await script.until_asked(2, 2)
    assert all(isinstance(request, AddBatch) for request in script.bookies[2].asked)
    assert script.bookies[2].asked == script.bookies[0].asked


@pytest.mark.promise(
    "A segment without a confirmed entry is replaced; no segment starts before the last one"
)
async def test_segment_in_which_nothing_was_confirmed_is_replaced() -> None:
    script = Script(3, 3, 2, spares=2)
    _, [added] = await pushed(script, 1)
    script.bookies[2].refuse(0, Code.IO_ERROR)
    await until(lambda: script.bookies[3].adds == [0])
    assert await script.segments() == [(0, "b1 b2 b4")]
    script.bookies[3].drop()
    await until(lambda: script.bookies[4].adds == [0])
    assert await script.segments() == [(0, "b1 b2 b5")]
    assert not added.done()


async def test_only_entries_of_the_replaced_place_are_sent_again() -> None:
    script = Script(4, 2, 2, spares=1)
    writer = script.writer()
    for _ in range(8):
        writer.add(b"")
    await script.until_asked(4, 0, 1, 2, 3)
    script.bookies[1].drop()
    await until(lambda: script.bookies[4].adds == [0, 1, 4, 5])
    assert await script.segments() == [(0, "b1 b5 b3 b4")]


@pytest.mark.promise(
    "Nothing is confirmed during an ensemble change, and responses of a replaced bookie do "
    "not count"
)
async def test_nothing_is_confirmed_while_the_ensemble_changes() -> None:
    script = Script(3, 3, 2, spares=1)
    writer, adds = await pushed(script, 2)

    async def acks_come() -> None:
        for bookie in script.bookies[:2]:
            bookie.ack(0, 1)
        assert writer.last_add_confirmed == -1

    script.store.before_next_set = acks_come
    script.bookies[2].refuse(1, Code.IO_ERROR)
    assert await asyncio.gather(*adds) == [0, 1]
    assert await script.segments() == [(0, "b1 b2 b4")]


async def test_acks_of_a_replaced_bookie_do_not_count() -> None:
    script = Script(3, 3, 2, spares=1)
    b1, _, b3, b4 = script.bookies
    writer, adds = await pushed(script, 2)
    b3.ack(0)
    b3.refuse(1, Code.IO_ERROR)
    await until(lambda: b4.adds == [0, 1])
    b3.ack(1)
    b1.ack(0, 1)
    assert writer.last_add_confirmed == -1
    b4.ack(0, 1)
    assert [add.result() for add in adds] == [0, 1]


async def test_every_answer_of_a_replaced_bookie_is_reported() -> None:
    script = Script(3, 3, 2, spares=1)
    *_, b3, b4 = script.bookies
    await pushed(script, 3)
    replaced = b3.connections[-1]
    b3.refuse(0, Code.IO_ERROR)
    await until(lambda: b4.adds == [0, 1, 2])
    replaced.on_bodies([encode_response(Opcode.ADD, Code.OK, LEDGER, each) for each in (1, 2)])
    acked = [(entry_id, bookie) for _, entry_id, bookie in script.recorded("add.acked")]
    assert acked == [(1, "b3"), (2, "b3")]


async def test_two_that_fail_together_are_replaced_together() -> None:
    script = Script(3, 3, 2, spares=2)
    _, [added] = await pushed(script, 1)
    for bookie in script.bookies[1:3]:
        bookie.drop()
    await until(lambda: script.bookies[3].adds == script.bookies[4].adds == [0])
    assert await script.segments() == [(0, "b1 b4 b5")]
    assert script.store.set_count == 1
    for bookie in script.bookies[3:]:
        bookie.ack(0)
    assert await added == 0


async def test_bookie_that_fails_while_the_ensemble_changes_is_replaced_before_it_ends() -> None:
    script = Script(3, 3, 2, spares=2)
    _, [added] = await pushed(script, 1)

    async def another_fails() -> None:
        script.bookies[0].drop()

    script.store.before_next_set = another_fails
    script.bookies[2].drop()
    await until(lambda: script.bookies[3].adds == script.bookies[4].adds == [0])
    assert await script.segments() == [(0, "b5 b2 b4")]
    script.bookies[1].ack(0)
    script.bookies[4].ack(0)
    assert await added == 0


async def test_writer_that_ends_during_a_change_changes_nothing_more() -> None:
    script = Script(3, 3, 2, spares=2)
    writer, [added] = await pushed(script, 1)
    b1, b2, b3, *_ = script.bookies

    async def meanwhile() -> None:
        b2.refuse(0, Code.IO_ERROR)
        b3.refuse(0, Code.FENCED)

    script.store.before_next_set = meanwhile
    b1.refuse(0, Code.IO_ERROR)
    with pytest.raises(BKLedgerFencedException):
        await added
    await until(lambda: not writer.ensemble_change.is_running)
    assert await script.segments() == [(0, "b4 b2 b3")]


async def test_add_during_a_change_reaches_the_new_bookie_too() -> None:
    script = Script(3, 3, 3, spares=1)
    writer, adds = await pushed(script, 1)

    async def another_is_pushed() -> None:
        adds.append(writer.add(b"meanwhile"))

    script.store.before_next_set = another_is_pushed
    script.bookies[2].die()
    await until(lambda: script.bookies[3].adds == [0, 1])
    for place in (0, 1, 3):
        script.bookies[place].ack(0, 1)
    assert await asyncio.gather(*adds) == [0, 1]
    assert await script.segments() == [(0, "b1 b2 b4")]


async def test_bookie_given_up_before_is_the_last_to_be_taken() -> None:
    script = Script(1, 1, 1, spares=2)
    await pushed(script, 1)
    for place, next_place in ((0, 1), (1, 2), (2, 0)):
        # The client reconnects to a lost bookie after a tenth of a second.
        await asyncio.sleep(0.11)
        script.bookies[place].drop()
        await script.until_asked(1 + (next_place == 0), next_place)
        assert await script.segments() == [(0, f"b{next_place + 1}")]


async def test_writer_ends_when_what_is_left_cannot_acknowledge() -> None:
    script = Script(3, 3, 3, spares=1)
    writer, [added] = await pushed(script, 1)
    for bookie in script.bookies[1:3]:
        bookie.drop()
    with pytest.raises(BKNotEnoughBookiesException, match=r"b2, b3 failed .*start more bookies"):
        await added
    await writer.close()
    assert (await script.stored_metadata()).last_entry_id == -1


async def test_writer_ends_before_its_metadata_is_too_large_for_a_node_and_can_be_closed() -> None:
    script = Script(3, 3, 3, spares=1)
    writer, [added] = await pushed(script, 1)
    metadata, version = await script.manager.read(LEDGER)
    writer.metadata = replace(metadata, custom_metadata=(("name", b"x" * 900_000),))
    script.bookies[1].drop()
    with pytest.raises(BKWriteException, match="too large to store; continue in a new ledger"):
        await added
    assert (await script.manager.read(LEDGER))[1] == version
    writer.metadata = metadata
    await writer.close()
    assert (await script.stored_metadata()).last_entry_id == -1


@pytest.mark.promise(
    "A failure after the quorum is reached waits for the next add; `delayEnsembleChange` "
    "tolerates more failures, and replaces only failed bookies"
)
async def test_failure_after_the_quorum_waits_for_the_next_add() -> None:
    script = Script(3, 3, 2, spares=1)
    b1, b2, b3, b4 = script.bookies
    writer, [added] = await pushed(script, 1)
    for bookie in (b1, b2):
        bookie.ack(0)
    b3.refuse(0, Code.IO_ERROR)
    assert await added == 0
    assert script.store.set_count == 0
    writer.add(b"next")
    await until(lambda: b4.adds == [1])
    assert await script.segments() == [(0, "b1 b2 b3"), (1, "b1 b2 b4")]


@pytest.mark.promise(
    "Without a spare bookie, the writer continues while Qa bookies are left, and then fails "
    "with NotEnoughBookies"
)
async def test_without_a_spare_bookie_the_writer_goes_on_and_looks_again_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("labkit.system.client.ensemble_change._RETRY_AFTER_S", 0.02)
    script = Script(3, 3, 2, spares=1)
    b1, b2, b3, b4 = script.bookies
    path = "/ledgers/available/b4"
    endpoint, _ = await script.store.get(path)
    await script.store.delete(path)
    writer, [added] = await pushed(script, 1)
    b3.refuse(0, Code.IO_ERROR)
    b1.ack(0)
    b2.ack(0)
    assert await added == 0
    await script.store.create(path, endpoint)

    def taken() -> list[int]:
        for bookie in (b1, b2):
            bookie.ack(writer.last_add_pushed)
        writer.add(b"more")
        b3.refuse(writer.last_add_pushed, Code.IO_ERROR)
        return b4.adds

    await until(taken)
    assert (await script.segments())[-1][1] == "b1 b2 b4"


def test_without_a_spare_bookie_the_writer_looks_for_one_once_a_second_and_not_at_each_add(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[float] = []

    async def run() -> None:
        script = Script(3, 3, 2)
        script.all_serve()
        b3 = script.bookies[2]
        monkeypatch.setattr(b3, "serve", lambda *_: b3.refuse(b3.adds[-1], Code.IO_ERROR))
        watcher, loop = script.client.context.watcher, asyncio.get_running_loop()
        look = watcher.writable

        async def noted() -> list[str]:
            looked_at.append(loop.time())
            return await look()

        monkeypatch.setattr(watcher, "writable", noted)
        writer = script.writer()
        for _ in range(25):
            await writer.add(b"payload")
            await asyncio.sleep(0.1)

    SimLoop(event_budget=100_000).run(run())
    assert len(looked_at) == 3
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(looked_at))


@pytest.mark.promise("Bookies that fail repeatedly are avoided for a time")
async def test_bookie_that_fails_again_and_again_is_passed_over_for_a_time() -> None:
    config = ClientConfig(60.0, bookie_error_threshold=2, bookie_quarantine_time_s=3600.0)
    script = Script(2, 2, 2, spares=2, config=config)
    await pushed(script, 2)
    for entry_id in range(2):
        script.bookies[0].refuse(entry_id, Code.IO_ERROR)
    await until(lambda: script.bookies[2].adds == [0, 1])
    assert await script.client.context.watcher.new_ensemble(3, 2) == ("b2", "b3", "b4")
    assert await script.client.context.watcher.new_ensemble(4, 2) == ("b1", "b2", "b3", "b4")


@pytest.mark.promise("Adds are pipelined up to a limit")
async def test_writer_that_drains_has_no_more_unconfirmed_than_its_bound() -> None:
    script = Script(1, 1, 1, config=ClientConfig(60.0, max_pending_adds=3))
    writer = script.writer()

    async def push(count: int) -> None:
        for _ in range(count):
            await writer.drain()
            writer.add(b"")

    pushing = asyncio.create_task(push(5))
    await script.until_asked(3)
    assert writer.last_add_pushed == 2
    script.bookies[0].ack(0)
    await script.until_asked(4)
    assert writer.last_add_pushed == 3
    script.bookies[0].ack(1)
    await pushing
    assert writer.last_add_pushed == 4


def test_a_bookie_that_fails_in_the_first_second_of_the_clock_is_replaced_at_once() -> None:
    """The simulated clock starts at 0, like the monotonic clock of a machine that has
    just booted.
    """
    fails = Crash("b1", when=On("lac.advanced", 2))
    trace = run(Scenario(Cluster(4), (Write(entries=6, every_ms=100.0),), (fails,)))
    failed = next(event for event in trace.events if event.kind == "add.failed")
    assert failed.time_us < 1_000_000
    _, changed = (event for event in trace.events if event.kind == "ensemble.set")
    assert changed.time_us - failed.time_us < 10_000
