"""A topic in a simulated cluster, for the lesson about MessageIDs.

async def send(node):                             runs on a client's node, with `node.client`
    topic = await Topic.create(node.client, "orders", partitions=2)
    ...
    return await lineage_of(node, message_id)     where a message is stored, for its view
in_a_cluster(send)                                returns the result of `send`
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from labkit.course.runs.do_step import Do
from labkit.system.model.message_id import MessageId
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from labkit.views.shell.folders import BookieFolders, open_data_folder
from labkit.views.shell.lineage import find_lineage
from labkit.views.xray.message_location import Lineage
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.bookie_script import Machine
from labkit.worlds.sim.settings.cluster import Cluster

T = TypeVar("T")
_LIMIT_S = 600.0


def in_a_cluster(action: Callable[[ClientNode], Coroutine[Any, Any, T]], bookies: int = 3) -> T:
    """Run the coroutine function on a client of a simulated cluster, and return its result.

    Raises the function's exception.
    """
    step = Do(action)
    run(Scenario(Cluster(bookies), (step,), ends_in_power_cut=False, limit_s=_LIMIT_S))
    result: T = step.result()
    return result


def lineage_of_order(chosen: int, batch_size: int, entries_per_ledger: int) -> Lineage:
    """Send batches of orders to two partitions alternately, and return where one of the orders is
    stored.
    """

    async def send(node: ClientNode) -> Lineage:
        config = ManagedLedgerConfig(5, 3, 2, max_entries_per_ledger=entries_per_ledger)
        topic = await Topic.create(node.client, "orders", partitions=2, config=config)
        producer = topic.producer("shop", batching=Batching(max_messages=batch_size))
        count = 2 * (batch_size * entries_per_ledger + 2)
        ids = await asyncio.gather(*(producer.send(b"order %d" % n) for n in range(count)))
        await asyncio.sleep(1)  # Give the bookies time to flush.
        return await lineage_of(node, ids[chosen])

    return in_a_cluster(send, bookies=5)


def ids_of_a_quiet_topic(max_age_s: int, max_bytes: int, min_age_s: int) -> list[MessageId]:
    """Send twelve orders, one every ten seconds, and return their ids.

    A ledger is full once it has reached the maximum age or size, but not before it is `min_age_s`
    old.
    """

    async def send(node: ClientNode) -> list[MessageId]:
        config = ManagedLedgerConfig(
            max_ledger_age_ms=max_age_s * 1000,
            max_ledger_size_bytes=max_bytes,
            min_ledger_age_ms=min_age_s * 1000,
        )
        topic = await Topic.create(node.client, "quiet", partitions=0, config=config)
        producer, ids = topic.producer("shop"), []
        for number in range(12):
            ids.append(await producer.send(b"order %d" % number))
            await asyncio.sleep(10)
        return ids

    return in_a_cluster(send)


async def lineage_of(node: ClientNode, message_id: MessageId) -> Lineage:
    """Return the place where a message is currently stored in the files of the simulated bookies.

    Raises the same errors as `find_lineage`.
    """
    folders = {name: _folders(machine) for name, machine in node.world.machines.items()}
    return await find_lineage(node.client, message_id, folders)


def folders_of(cluster: LocalCluster) -> dict[str, BookieFolders]:
    return {name: open_data_folder(cluster.folder_of(name)) for name in cluster.bookie_names}


def _folders(machine: Machine) -> BookieFolders:
    return BookieFolders(machine.journals, machine.ledgers, machine.ledgers)
