"""How an auditor begins, what asks it for an audit, and what it leaves behind."""

import asyncio

from tests.system.autorecovery.test_auditor import marked, start
from tests.system.autorecovery.world import World, run


def test_bookie_that_goes_soon_after_the_auditor_changed_may_register_again() -> None:
    """It may have lost its session together with the auditor before."""

    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await start(world)
        world.metadata.zookeeper.expire("a")
        await world.start_autorecovery("b")
        await asyncio.sleep(1)
        assert [row.node for row in world.events("auditor.elected")] == ["a", "b"]
        await world.stop_bookie("b2")
        await asyncio.sleep(5)
        assert marked(world) == []
        await asyncio.sleep(10)
        assert marked(world) == [(0, "b2")]

    run(rule)


def test_auditor_that_runs_for_long_leaves_no_wait_behind() -> None:
    async def rule(world: World) -> None:
        await start(world, auditor_periodic_bookie_check_interval_s=1)
        await asyncio.sleep(10)
        waits = len(asyncio.all_tasks())
        await asyncio.sleep(100)
        assert len(asyncio.all_tasks()) <= waits + 2

    run(rule)


def test_bookie_that_is_away_when_an_auditor_begins_has_ten_seconds_to_register() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await world.stop_bookie("b2")
        await start(world)
        await asyncio.sleep(7)
        assert marked(world) == []
        await asyncio.sleep(5)
        assert marked(world) == [(0, "b2")]

    run(rule)


def test_writing_0_audits_at_once_though_no_bookie_is_waited_for() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3, (5, 3, 2))
        await start(world, lost_bookie_recovery_delay_s=5)
        await world.stop_bookie("b2")
        await asyncio.sleep(30)
        assert [row.peer for row in world.events("bookie.lost")] == ["b2"]
        await world.manager.set_lost_bookie_recovery_delay(0)
        await asyncio.sleep(1)
        assert [row.peer for row in world.events("bookie.lost")] == ["b2", "b2"]

    run(rule)
