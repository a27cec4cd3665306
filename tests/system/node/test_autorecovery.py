"""Test which errors end autorecovery, and after which ones it starts again."""

import asyncio
from functools import partial
from typing import Any, cast

from labkit.system.metadata.store import ANY_VERSION, MetadataStore
from labkit.system.node.autorecovery import run_autorecovery_forever
from labkit.system.node.ports import ServerPorts
from labkit.worlds.sim.machine.metadata import SimMetadataStore
from tests.system.autorecovery.world import PATHS, World, simulated


def ports(world: World, node: str) -> ServerPorts:
    def new_client(store: MetadataStore, *config: Any) -> Any:
        return world.new_client(node, cast(SimMetadataStore, store), *config)

    begin_session = partial(world.metadata.session, node)
    recorder = world.client.recorder
    return ServerPorts(node, recorder, begin_session, new_client, lambda n: 0, world.wall_clock_ms)


@simulated
async def test_autorecovery_starts_again_if_its_nodes_are_deleted(world: World) -> None:
    """`metaformat` deletes the nodes while an instance waits to become the auditor."""
    await world.start_autorecovery("a")
    running = asyncio.ensure_future(run_autorecovery_forever(ports(world, "b"), world.config))
    await asyncio.sleep(5)
    tree = world.metadata.zookeeper.tree
    for vote in tree.children(PATHS.election, None):
        tree.delete(f"{PATHS.election}/{vote}", ANY_VERSION)
    tree.delete(PATHS.election, ANY_VERSION)
    await asyncio.sleep(5)
    assert not running.done()
    assert [row.node for row in world.events("auditor.elected")] == ["a", "b"]
    running.cancel()
