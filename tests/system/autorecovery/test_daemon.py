"""One instance of autorecovery: what it is made of, and what ends it."""

import asyncio

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import AutoRecovery, Rules
from labkit.system.autorecovery.fragments import missing_places
from labkit.system.autorecovery.lost_bookies import when_to_audit
from labkit.system.autorecovery.metadata_silence import MetadataSilence
from labkit.system.autorecovery.nodes import AutoRecoveryNodes
from labkit.system.autorecovery.replicator import LedgerFragmentReplicator
from labkit.system.autorecovery.underreplication import CompatibilityException
from labkit.system.metadata.place import MetadataPlace
from labkit.system.metadata.store import MetadataUnavailableError
from tests.system.autorecovery.world import World, run

NODES = AutoRecoveryNodes(MetadataPlace("any"))


def test_rules_are_the_real_ones_unless_others_are_given() -> None:
    rules = Rules()
    assert rules.when_to_audit is when_to_audit
    assert rules.missing_places is missing_places
    assert rules.replicator is LedgerFragmentReplicator
    assert rules.metadata_silence is MetadataSilence


def test_instance_makes_its_nodes_before_it_votes() -> None:
    async def rule(world: World) -> None:
        await world.start_autorecovery("a")
        names = await world.store.children(NODES.root)
        assert {"LAYOUT", "ledgers", "locks", "auditorelection"} <= set(names)

    run(rule)


def test_instance_refuses_marks_that_it_does_not_know_before_it_votes() -> None:
    async def rule(world: World) -> None:
        await world.store.create(NODES.layout, b'type: "NEWER"\nversion: 3\n')
        await world.start_autorecovery("a")
        with pytest.raises(CompatibilityException, match="NEWER"):
            await world.instances["a"]
        assert not await world.store.exists(NODES.election)

    run(rule)


def test_lost_session_ends_the_instance_with_its_name() -> None:
    async def rule(world: World) -> None:
        await world.start_autorecovery("a")
        world.metadata.zookeeper.expire("a")
        with pytest.raises(MetadataUnavailableError, match="the session of a was lost"):
            await world.instances["a"]

    run(rule)


def test_locks_and_votes_name_the_instance() -> None:
    async def rule(world: World) -> None:
        world.config = AutoRecoveryConfig(lock_release_of_failed_ledger_grace_period_ms=320_000)
        ledger_id = await world.closed_ledger(3)
        for name in ("b1", "b2", "b3"):
            world.bookies[name].lose(ledger_id, 0)
        await world.start_autorecovery("node-a")
        await world.manager.mark(ledger_id, ["b1"])
        await asyncio.sleep(2)
        assert (await world.store.get(NODES.lock(ledger_id)))[0] == b'bookieId: "node-a"\n'
        assert (await world.store.get(NODES.election))[0] == b'bookieId: "node-a"\n'

    run(rule)


def test_rules_of_the_instance_are_those_that_decide() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(3)
        asked: list[tuple[int, ...]] = []

        def nothing_is_missing(*_: object) -> tuple[int, ...]:
            asked.append(())
            return ()

        world.rules = Rules(missing_places=nothing_is_missing)
        await world.start_autorecovery("a")
        world.bookies["b2"].lose(ledger_id, 0)
        await world.manager.mark(ledger_id, ["b2"])
        await asyncio.sleep(5)
        assert await world.manager.ledgers() == []
        assert asked != []
        assert world.bookies["b2"].stored(ledger_id) == [1, 2]

    run(rule)


def test_percentage_of_the_configuration_is_tested() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(10)
        world.bookies["b2"].lose(ledger_id, 5)
        for percentage, found in ((0, False), (100, True)):
            node = f"tests-{percentage}"
            world.config = AutoRecoveryConfig(auditor_ledger_verification_percentage=percentage)
            store = await world.metadata.session(node)
            client = world.new_client(node, store)
            instance = AutoRecovery(node, client, world.config, lambda n: 0)
            world.metadata.processes[node].spawn(instance.run())
            await asyncio.sleep(1)
            await world.manager.mark(ledger_id, [])
            await world.until_replicated()
            assert (await world.missing(ledger_id) == []) is found
            world.metadata.crash(node)
            await asyncio.sleep(20)

    run(rule)
