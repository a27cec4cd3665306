"""Names that a broker gives to producers that bring none."""

import asyncio

from labkit.system.topic.producing.publishing import ProducerNames
from tests.worlds.sim.metadata_world import MetadataWorld, run_metadata_world


def test_names_for_producers_without_one_never_come_again() -> None:
    async def rule(world: MetadataWorld) -> None:
        names: list[str] = []
        for node in ("a", "b"):
            maker = ProducerNames(await world.session(node))
            names += [await maker.new(), await maker.new()]
        world.crash("a")
        names.append(await ProducerNames(await world.session("a")).new())
        assert len(set(names)) == 5

    run_metadata_world(rule)


def test_the_node_of_a_brokers_names_goes_with_its_session() -> None:
    async def rule(world: MetadataWorld) -> None:
        b = await world.session("b")
        assert (await ProducerNames(await world.session("a")).new()).endswith("-0")
        folder = "/counters/producer-name"
        assert len(await b.children(folder)) == 1
        world.crash("a")
        await asyncio.sleep(world.session_timeout_s + 1)
        assert await b.children(folder) == []

    run_metadata_world(rule)
