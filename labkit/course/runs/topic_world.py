"""A topic in a simulated cluster, for the lesson about MessageIDs.

async def send(node):                             runs on a client's node, with `node.client`
    topic = await Topic.create(node.client, "orders", partitions=2)
    ...
    return await lineage_of(node, message_id)     where a message is stored, for its view
in_a_cluster(send)                                returns the result of `send`
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from labkit.course.runs.do_step import Do
from labkit.system.model.message_id import MessageId
from labkit.system.model.message_location import Lineage
from labkit.views.shell.folders import BookieFolders, Directory, open_data_folder
from labkit.views.shell.lineage import find_lineage
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


async def lineage_of(node: ClientNode, message_id: MessageId) -> Lineage:
    """Return where a message is currently stored in the files of the simulated bookies.

    Raises the same errors as `find_lineage`.
    """
    folders = {name: _folders(machine) for name, machine in node.world.machines.items()}
    return await find_lineage(node.client, message_id, folders)


def folders_of(cluster: LocalCluster) -> dict[str, BookieFolders]:
    return {name: open_data_folder(cluster.folder_of(name)) for name in cluster.bookie_names}


def _folders(machine: Machine) -> BookieFolders:
    journals = tuple(Directory("journal", disk) for disk in machine.journals)
    ledgers = tuple(Directory("ledgers", disk) for disk in machine.ledgers)
    return BookieFolders(journals, ledgers, ledgers)
