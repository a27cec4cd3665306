"""A metadata store that falls silent is not evidence: nobody is lost or copied for that."""

import asyncio

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.metadata.cluster import NoClusterError
from labkit.system.metadata.store import ANY_VERSION
from tests.system.autorecovery.world import World, run

HANG_S = 6.0
"""Longer than sessions last."""
GRACE_S = 10.0


async def hang(world: World, for_s: float = HANG_S) -> None:
    world.metadata.hang()
    await asyncio.sleep(for_s)
    world.metadata.thaw()


def lost(world: World) -> list[str]:
    return [row.peer for row in world.events("bookie.lost")]


def marked(world: World) -> list[int]:
    return [row.ledger for row in world.events("ledger.underreplicated")]


@pytest.mark.parametrize("gone", [("b2",), ("b2", "b3")])
def test_bookies_whose_sessions_a_hang_ended_have_ten_seconds_to_register(
    gone: tuple[str, ...],
) -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await world.start_autorecovery("a")
        await hang(world)
        for name in gone:
            await world.stop_bookie(name)
        await asyncio.sleep(GRACE_S - 1)
        for name in gone:
            await world.start_bookie(name)
        await asyncio.sleep(60)
        assert (lost(world), marked(world)) == ([], [])
        assert [row.node for row in world.events("auditor.elected")] == ["a"]

    run(rule)


def test_a_bookie_that_does_not_come_back_from_a_hang_is_lost_after_all() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await world.start_autorecovery("a")
        await hang(world)
        await world.stop_bookie("b2")
        await asyncio.sleep(GRACE_S - 1)
        assert lost(world) == []
        await asyncio.sleep(3)
        assert lost(world) == ["b2"]

    run(rule)


def test_the_delay_begins_again_with_the_end_of_a_silence() -> None:
    async def rule(world: World) -> None:
        world.config = AutoRecoveryConfig(lost_bookie_recovery_delay_s=60)
        await world.closed_ledger(3)
        await world.start_autorecovery("a")
        await world.stop_bookie("b2")
        await asyncio.sleep(50)
        await hang(world)
        await asyncio.sleep(58)
        assert lost(world) == []
        await asyncio.sleep(4)
        assert lost(world) == ["b2"]

    run(rule)


def test_a_requested_audit_waits_for_the_grace_period() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await world.start_autorecovery("a")
        await hang(world)
        await world.stop_bookie("b2")
        await world.manager.set_lost_bookie_recovery_delay(0)
        await asyncio.sleep(GRACE_S - 2)
        assert lost(world) == []
        await asyncio.sleep(4)
        assert lost(world) == ["b2"]

    run(rule)


def test_bookies_that_come_back_one_by_one_give_the_others_more_time() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await world.start_autorecovery("a")
        await hang(world)
        for name in ("b1", "b2", "b3"):
            await world.stop_bookie(name)
        for name in ("b1", "b2", "b3"):
            await asyncio.sleep(GRACE_S - 2)
            await world.start_bookie(name)
        await asyncio.sleep(60)
        assert lost(world) == []

    run(rule)


def test_a_bookie_that_comes_and_goes_does_not_prolong_the_wait_for_ever() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await world.start_autorecovery("a")
        await hang(world)
        await world.stop_bookie("b2")
        for _ in range(20):
            await world.stop_bookie("b5")
            await asyncio.sleep(1)
            await world.start_bookie("b5")
            await asyncio.sleep(1)
        assert "b2" in lost(world)

    run(rule)


def test_an_auditor_never_takes_the_bookie_in_its_process_for_lost() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await world.start_autorecovery("a", own_bookie="b2")
        await world.stop_bookie("b2")
        await asyncio.sleep(100)
        assert (lost(world), marked(world)) == ([], [])
        await world.stop_bookie("b3")
        await asyncio.sleep(1)
        assert lost(world) == ["b3"]

    run(rule)


def test_a_worker_copies_nothing_for_a_bookie_that_a_hang_made_invisible() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(3)
        await world.start_autorecovery("a")
        await hang(world)
        await world.stop_bookie("b2")
        await world.manager.mark(ledger_id, ["b2"])
        await asyncio.sleep(GRACE_S - 2)
        await world.start_bookie("b2")
        await asyncio.sleep(60)
        assert world.events("entry.copied") == []
        assert await world.manager.ledgers() == []

    run(rule)


def test_a_store_that_answers_slowly_is_not_silent() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await world.start_autorecovery("a")
        await hang(world, for_s=0.5)
        await world.stop_bookie("b2")
        await asyncio.sleep(1)
        assert lost(world) == ["b2"]

    run(rule)


def test_bookies_of_which_the_list_is_missing_are_not_lost() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await world.start_autorecovery("a")
        tree = world.metadata.zookeeper.tree
        for path in ("readonly", "b1", "b2", "b3", "b4", "b5", ""):
            tree.delete(f"/ledgers/available/{path}".rstrip("/"), ANY_VERSION)
        with pytest.raises(NoClusterError, match="/ledgers/available is missing"):
            await world.instances["a"]
        assert (lost(world), marked(world)) == ([], [])

    run(rule)
