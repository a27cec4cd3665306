"""Names that a broker gives to producers that bring none."""

from labkit.topic.publishing import ProducerNames
from tests.sim.metadata_world import MetadataWorld, run_metadata_world


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
