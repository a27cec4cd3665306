"""How long a worker puts a ledger off, and what it remembers of its failures."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.worker import ReplicationWorker, lock_release_delay_ms
from labkit.system.model.ledger import LedgerState
from labkit.system.trace.recorder import Recorder, Row
from labkit.worlds.sim.machine.loop import SimLoop
from tests.system.autorecovery.test_placement_check import MOVED, ensembles, put_racks
from tests.system.autorecovery.world import World, lose, payload, run

CONFIG = AutoRecoveryConfig(lock_release_of_failed_ledger_grace_period_ms=32_000)


class Alone:
    """A worker without a cluster: what it releases when, and what it says."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.released: list[tuple[int, float]] = []
        self.is_marked_again = False
        recorder = Recorder("a", lambda: 0)
        recorder.listen(self.rows.extend)
        client: Any = SimpleNamespace(recorder=recorder)
        unused: Any = None
        manager: Any = self
        self.worker = ReplicationWorker(
            client, manager, unused, unused, unused, CONFIG, asyncio.ensure_future
        )

    async def release(self, ledger_id: int) -> None:
        self.released.append((ledger_id, round(asyncio.get_running_loop().time(), 6)))

    async def mark_replicated(self, _: int) -> bool:
        return not self.is_marked_again

    @property
    def events(self) -> list[tuple[str, int, str]]:
        return [(row.kind, row.ledger, row.note) for row in self.rows]


def alone(rule: Callable[[Alone], Awaitable[None]]) -> None:
    async def main() -> None:
        await rule(Alone())

    SimLoop(time_limit_s=1_000_000).run(main())


def test_ledger_whose_copies_are_missing_is_kept_locked_twice_as_long_each_time() -> None:
    async def rule(alone: Alone) -> None:
        for _ in range(7):
            await alone.worker.release_later(5, "b2 miss copies")
        times = [0.0, *(time_s for _, time_s in alone.released)]
        pauses = [b - a for a, b in pairwise(times)]
        assert pauses == [1, 2, 4, 8, 16, 32, 32]
        assert alone.events[0] == ("replication.deferred", 5, "b2 miss copies; again in 1 s")
        assert alone.events[6] == ("replication.deferred", 5, "b2 miss copies; again in 32 s")

    alone(rule)


def test_repair_that_succeeds_makes_the_next_wait_short_again() -> None:
    async def rule(alone: Alone) -> None:
        for _ in range(3):
            await alone.worker.release_later(5, "why")
        await alone.worker.mark_replicated(5)
        assert alone.events[-1] == ("replication.done", 5, "")
        began = asyncio.get_running_loop().time()
        await alone.worker.release_later(5, "why")
        assert asyncio.get_running_loop().time() - began == 1

    alone(rule)


def test_ledger_that_was_marked_again_during_its_repair_is_said_to_be_put_off() -> None:
    async def rule(alone: Alone) -> None:
        alone.is_marked_again = True
        await alone.worker.mark_replicated(5)
        assert alone.events == [("replication.deferred", 5, "it was marked again meanwhile")]

    alone(rule)


def test_failures_of_two_thousand_ledgers_are_remembered_and_the_oldest_is_forgotten() -> None:
    async def rule(alone: Alone) -> None:
        async def waits_s(ledger_id: int) -> float:
            began = asyncio.get_running_loop().time()
            await alone.worker.release_later(ledger_id, "why")
            return asyncio.get_running_loop().time() - began

        for ledger_id in range(2000):
            assert await waits_s(ledger_id) == 1
        # It is the newest now, and the next one has to go.
        assert await waits_s(0) == 2
        assert await waits_s(2000) == 1
        assert await waits_s(0) == 4
        assert await waits_s(2) == 2
        assert await waits_s(1) == 1

    alone(rule)


@pytest.mark.parametrize("grace_ms", [0, 1, 31, 32, 300_000])
def test_no_wait_is_longer_than_the_grace_period_nor_shorter_than_its_32nd_part(
    grace_ms: int,
) -> None:
    delays = [lock_release_delay_ms(failures, grace_ms) for failures in range(1, 20)]
    assert delays[0] == grace_ms // 32
    assert delays[5:] == [grace_ms] * 14
    assert delays == sorted(delays)


# In the world


def test_entry_that_stays_unreadable_is_asked_for_alone_and_named() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(9, (3, 2, 2))
        for name in ("b2", "b3"):
            world.bookies[name].lose(ledger_id, 1)
        await world.start_autorecovery("a")
        await world.manager.mark(ledger_id, ["b2"])
        await asyncio.sleep(30)
        first, second, *_ = world.events("replication.deferred")
        assert "; again in 9.375 s" in first.note
        assert second.note == "entry 1 can still not be read; again in 18.75 s"

    run(rule)


def test_entry_that_comes_back_lets_the_repair_go_on() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(9, (3, 2, 2))
        kept = world.bookies["b2"].entries[ledger_id, 1]
        for name in ("b2", "b3"):
            world.bookies[name].lose(ledger_id, 1)
        await world.start_autorecovery("a")
        await world.manager.mark(ledger_id, ["b2"])
        await asyncio.sleep(5)
        world.bookies["b2"].entries[ledger_id, 1] = kept
        await world.until_replicated()
        assert await world.missing(ledger_id) == []
        # It is not remembered: if it is lost again, that is found out by copying.
        for bookie in world.bookies.values():
            bookie.entries.pop((ledger_id, 1), None)
        await world.manager.mark(ledger_id, ["b3"])
        await asyncio.sleep(5)
        first, second = (row.note for row in world.events("replication.deferred"))
        assert first == second
        assert "can still not be read" not in second

    run(rule)


def test_ledger_that_is_repaired_while_others_wait_is_not_put_off_with_them() -> None:
    async def rule(world: World) -> None:
        stuck = await world.closed_ledger(3)
        for name in ("b1", "b2", "b3"):
            world.bookies[name].lose(stuck, 0)
        sound = await world.closed_ledger(3)
        await world.start_autorecovery("a")
        await world.manager.mark(stuck, ["b2"])
        await world.manager.mark(sound, ["b2"])
        await asyncio.sleep(2)
        assert [row.ledger for row in world.events("replication.done")] == [sound]
        assert [row.ledger for row in world.events("replication.deferred")] == [stuck]

    run(rule)


def test_open_ledger_is_put_off_with_the_grace_period_of_its_writer() -> None:
    async def rule(world: World) -> None:
        world.config = AutoRecoveryConfig(open_ledger_rereplication_grace_period_ms=90_000)
        writer = await world.open_ledger_that_loses_a_bookie()
        await asyncio.sleep(80)
        [row] = world.events("replication.deferred")
        assert row.note == "it is open: its writer has 90 s to replace the bookies"
        assert (await world.ledger(writer.ledger_id)).state is LedgerState.OPEN
        await asyncio.sleep(15)
        assert (await world.ledger(writer.ledger_id)).state is LedgerState.CLOSED
        await world.until_replicated()

    run(rule)


def test_open_ledger_that_cannot_be_recovered_is_released_with_the_reason() -> None:
    async def rule(world: World) -> None:
        writer = await world.open_ledger_that_loses_a_bookie()
        await asyncio.sleep(20)
        for name in ("b1", "b3"):
            world.bookies[name].is_silent = True
        await asyncio.sleep(60)
        notes = [row.note for row in world.events("replication.deferred")]
        assert len(notes) > 1
        assert "it is open" in notes[0]
        assert "it is open" not in notes[1]
        for name in ("b1", "b3"):
            world.bookies[name].is_silent = False
        await world.until_replicated()
        assert await world.missing(writer.ledger_id) == []

    run(rule)


def test_ledger_that_is_deleted_during_its_writers_grace_period_is_left_alone() -> None:
    async def rule(world: World) -> None:
        writer = await world.open_ledger_that_loses_a_bookie()
        await asyncio.sleep(10)
        await world.client.delete_ledger(writer.ledger_id)
        await world.until_replicated()
        assert not world.instances["a"].done()
        assert [row.node for row in world.events("ledger.deleted")] == ["client", "a"]

    run(rule)


def test_lock_is_kept_for_the_writers_grace_period_and_free_afterwards() -> None:
    async def rule(world: World) -> None:
        await world.open_ledger_that_loses_a_bookie()
        await asyncio.sleep(10)
        locks = "/ledgers/underreplication/locks"
        assert len(await world.store.children(locks)) == 1
        await world.until_replicated()
        assert await world.store.children(locks) == []

    run(rule)


def test_fragment_that_fails_keeps_no_other_fragment_from_its_repair() -> None:
    async def rule(world: World) -> None:
        writer = await world.client.create_ledger(3, 3, 2)
        await writer.add(payload(0))
        world.bookies["b3"].is_up = False
        await writer.add(payload(1))  # The ensemble changes here.
        await asyncio.sleep(1)
        await writer.close()
        await world.start_bookie("b3")
        for name in ("b1", "b2", "b3"):
            with_entry = world.bookies[name]
            if 0 in with_entry.stored(writer.ledger_id):
                with_entry.lose(writer.ledger_id, 0)
        await world.start_autorecovery("a")
        await world.stop_bookie("b2")
        await asyncio.sleep(15)
        segments = (await world.ledger(writer.ledger_id)).segments
        assert "b2" in segments[0].ensemble
        assert "b2" not in segments[1].ensemble
        assert await world.manager.ledgers() == [writer.ledger_id]

    run(rule)


def test_copies_that_cannot_be_moved_to_another_rack_put_the_ledger_off() -> None:
    async def rule(world: World) -> None:
        await put_racks(world, left="12", right="3")
        bad = await world.closed_ledger(3, (2, 2, 2))
        world.bookies["b3"].refuses_adds = True
        world.config = replace(MOVED, auditor_periodic_placement_policy_check_interval_s=1000)
        await world.start_autorecovery("a")
        await asyncio.sleep(5)
        assert await ensembles(world, bad) == ["b1 b2"]
        [row] = world.events("replication.deferred")
        assert "again in 9.375 s" in row.note
        assert await world.manager.ledgers() == [bad]
        world.bookies["b3"].refuses_adds = False
        await world.until_replicated()
        assert await ensembles(world, bad) == ["b3 b2"]

    run(rule, 3)


def test_bookie_that_is_lost_again_after_a_repair_is_repaired_again() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(4)
        await world.start_autorecovery("a")
        for name in ("b2", "b3"):
            await lose(world, name)
        assert await world.missing(ledger_id) == []
        assert len(world.events("replication.done")) == 2

    run(rule)
