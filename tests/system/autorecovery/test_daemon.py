"""Tests for an autorecovery instance: its components, and the conditions under which it exits."""

import asyncio

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import Rules
from labkit.system.autorecovery.underreplication import CompatibilityException
from tests.system.autorecovery.world import PATHS, World, simulated


@simulated
async def test_an_instance_rejects_an_unknown_layout_before_it_votes(world: World) -> None:
    await world.store.create(PATHS.layout, b'type: "NEWER"\nversion: 3\n')
    await world.start_autorecovery("a")
    with pytest.raises(CompatibilityException, match="NEWER"):
        await world.instances["a"]
    assert not await world.store.exists(PATHS.election)


@simulated
async def test_locks_and_votes_name_the_instance(world: World) -> None:
    world.config = AutoRecoveryConfig(lock_release_of_failed_ledger_grace_period_ms=320_000)
    ledger_id = await world.closed_ledger(3)
    for name in ("b1", "b2", "b3"):
        world.bookies[name].lose(ledger_id, 0)
    await world.start_autorecovery("node-a")
    await world.manager.mark(ledger_id, ["b1"])
    await asyncio.sleep(2)
    assert (await world.store.get(PATHS.lock(ledger_id)))[0] == b'bookieId: "node-a"\n'
    assert (await world.store.get(PATHS.election))[0] == b'bookieId: "node-a"\n'


@simulated
async def test_an_instance_uses_the_rules_that_it_is_given(world: World) -> None:
    ledger_id = await world.closed_ledger(3)
    asked: list[tuple[int, ...]] = []

    def nothing_is_missing(*_: object) -> tuple[int, ...]:
        asked.append(())
        return ()

    world.rules = Rules(underreplicated_indexes=nothing_is_missing)
    await world.start_autorecovery("a")
    world.bookies["b2"].lose(ledger_id, 0)
    await world.manager.mark(ledger_id, ["b2"])
    await asyncio.sleep(5)
    assert await world.manager.ledgers() == []
    assert asked != []
    assert world.bookies["b2"].stored(ledger_id) == [1, 2]


@pytest.mark.promise(
    "If a component of autorecovery fails, its instance ends, and so does the bookie"
)
@simulated
async def test_a_component_that_fails_stops_the_others(world: World) -> None:
    def broken(missing: object, delay_s: float, now_s: float) -> float:
        raise ZeroDivisionError("a mistake in a rule")

    ledger_id = await world.closed_ledger(5)
    world.rules = Rules(when_to_audit=broken)
    await world.start_autorecovery("a")
    with pytest.raises(ZeroDivisionError, match="a mistake in a rule"):
        await world.instances["a"]
    await world.manager.mark(ledger_id, ["b2"])
    await asyncio.sleep(60)
    assert world.events("replication.started") == []
