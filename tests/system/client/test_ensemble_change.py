"""Test how a writer reacts to failed bookies in cases that `ensemble_change.txt` does not cover."""

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from labkit.system.check import broken, check_all
from labkit.system.client.context import ClientConfig
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import (
    BKWriteException,
)
from labkit.system.model.wire import Code, Opcode, encode_response
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, PowerCut
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Write
from tests.system.client.scripted_bookies import LEDGER, Script, pushed
from tests.until import until
from tests.virtual_time import in_virtual_time


@in_virtual_time
async def test_every_response_of_a_replaced_bookie_is_reported() -> None:
    script = Script(3, 3, 2, spares=1)
    *_, b3, b4 = script.bookies
    await pushed(script, 3)
    replaced = b3.connections[-1]
    b3.reject(0, Code.IO_ERROR)
    await until(lambda: b4.adds == [0, 1, 2])
    replaced.on_bodies([encode_response(Opcode.ADD, Code.OK, LEDGER, each) for each in (1, 2)])
    acked = [(entry_id, bookie) for _, entry_id, bookie in script.recorded("add.acked")]
    assert acked == [(1, "b3"), (2, "b3")]


@in_virtual_time
async def test_the_writer_fails_before_its_metadata_becomes_too_large_to_store() -> None:
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


def test_without_a_spare_bookie_the_writer_searches_for_one_once_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[float] = []

    async def run() -> None:
        script = Script(3, 3, 2)
        script.all_serve()
        b3 = script.bookies[2]
        monkeypatch.setattr(b3, "serve", lambda *_: b3.reject(b3.adds[-1], Code.IO_ERROR))
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
@in_virtual_time
async def test_a_bookie_that_fails_repeatedly_is_avoided_for_a_time() -> None:
    config = ClientConfig(60.0, bookie_error_threshold=2, bookie_quarantine_time_s=3600.0)
    script = Script(2, 2, 2, spares=2, config=config)
    await pushed(script, 2)
    for entry_id in range(2):
        script.bookies[0].reject(entry_id, Code.IO_ERROR)
    await until(lambda: script.bookies[2].adds == [0, 1])
    assert await script.client.context.watcher.new_ensemble(3, 2) == ("b2", "b3", "b4")
    assert await script.client.context.watcher.new_ensemble(4, 2) == ("b1", "b2", "b3", "b4")


@pytest.mark.promise("Adds are pipelined up to a limit")
@in_virtual_time
async def test_drain_limits_the_number_of_unconfirmed_entries() -> None:
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


@in_virtual_time
async def test_a_change_with_an_unknown_outcome_ends_the_writer() -> None:
    script = Script(3, 3, 2, spares=1)
    _, [added] = await pushed(script, 1)
    script.store.fail_sets += 2 * [MetadataUnavailableError("no answer")]
    script.bookies[2].drop()
    for bookie in script.bookies[:2]:
        bookie.ack(0)
    with pytest.raises(MetadataUnavailableError):
        await added


@in_virtual_time
async def test_the_writer_continues_without_metadata_while_qa_bookies_respond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(3, 3, 2, spares=1)
    _, [added] = await pushed(script, 1)

    async def unavailable(path: str, on_change: object = None) -> list[str]:
        raise MetadataUnavailableError(path)

    monkeypatch.setattr(script.store, "children", unavailable)
    script.bookies[2].drop()
    for bookie in script.bookies[:2]:
        bookie.ack(0)
    assert await added == 0


def test_all_bookies_receive_the_pending_entries_after_a_long_change() -> None:
    """All bookies lose power, and a response of the metadata store is late, so the ensemble change
    takes until the replaced bookies are running again.
    """
    outage = PowerCut(down_ms=18.0, when=On("journal.appended"))
    write = Write(entries=3, every_ms=20.0, delay_ensemble_change=True)
    late = {"delay w>zk 14": 100.0}
    trace = run(Scenario(Cluster(5), (write,), (outage,), decisions=late, limit_s=30.0))
    assert not broken(check_all(trace))
    assert [event.entry for event in trace.events if event.kind == "lac.advanced"] == [0, 1, 2]
