"""Whether the parts of a scenario fit together: names that exist, and faults where they can strike.

Each function raises `BKIncorrectParameterException`, which names the part and what is possible.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE, EVERY_NODE
from labkit.worlds.sim.scenario.faults import (
    BitRot,
    CrashAtOperation,
    FailingSync,
    Fault,
    FullDisk,
    Leave,
    SlowDisk,
    SlowStart,
    Unload,
)
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.publish import Publish
from labkit.worlds.sim.workload.steps import Step, Write

_WITHOUT_NODE = (METADATA_SERVER, EPILOGUE)
"""Names that events have, and that no fault of a node can have."""
_OF_BOOKIES = CrashAtOperation | SlowStart | SlowDisk | FailingSync | FullDisk | BitRot


def check_parts(parts: Iterable[object], method: str, example: str) -> None:
    """Each part is a value with that method, such as the example."""
    for part in parts:
        if isinstance(part, type) or not hasattr(part, method):
            raise BKIncorrectParameterException(
                f"{part!r} cannot be part of a scenario here; what can is {example}"
            )


def check_names(cluster: Cluster, workload: Sequence[Step], faults: Sequence[Fault]) -> None:
    """Clients, ledgers and topics have names that they can have, and faults strike nodes that are
    there.
    """
    servers = (*cluster.names, *cluster.broker_names)
    clients = tuple(dict.fromkeys(step.client for step in workload))
    ledgers = [step.ledger for step in workload if isinstance(step, Write)]
    for taken in clients:
        if taken in (*servers, METADATA_SERVER, EPILOGUE, EVERY_NODE):
            raise BKIncorrectParameterException(f"{taken!r} cannot be a client's name")
    if len(set(ledgers)) < len(ledgers):
        raise BKIncorrectParameterException("each ledger can be written by one step only")
    served = next((step for step in workload if isinstance(step, Publish | Consume)), None)
    if served is not None and not cluster.brokers:
        raise BKIncorrectParameterException(
            f"{served!r}: this step needs a broker, and the cluster has none; give it some, as"
            " in Cluster(brokers=1)"
        )
    nodes = (*servers, *clients)
    for fault in faults:
        for name, possible in _struck(fault, cluster, nodes):
            if name not in possible:
                raise BKIncorrectParameterException(
                    f"{fault!r} cannot strike {name!r}; it can strike"
                    f" {', '.join(possible) or 'only a broker, and the cluster has none'}"
                )
    for part in (*workload, *faults):
        when = part.when
        if isinstance(when, On) and when.node and when.node not in (*nodes, *_WITHOUT_NODE):
            raise BKIncorrectParameterException(
                f"{part!r} waits for an event on {when.node!r}, and there is no such node; these"
                f" are: {', '.join((*nodes, *_WITHOUT_NODE))}"
            )


def _struck(
    fault: Fault, cluster: Cluster, nodes: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names in a fault, each with those that are possible in its place."""
    if isinstance(fault, _OF_BOOKIES):
        yield fault.node, cluster.names
    elif isinstance(fault, Leave | Unload):
        yield fault.node, cluster.broker_names
    else:
        for name in _named(fault, "node"):
            yield name, nodes
    for name in _named(fault, "one", "other", "side", "others"):
        yield name, (*nodes, METADATA_SERVER)
    for name in _named(fault, "source", "target"):
        yield name, (*nodes, METADATA_SERVER, EVERY_NODE)


def _named(fault: Fault, *fields: str) -> Iterator[str]:
    for field in fields:
        named: Any = getattr(fault, field, ())
        yield from named if isinstance(named, tuple) else (named,)
