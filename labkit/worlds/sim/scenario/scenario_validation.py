"""Checks that a scenario is consistent: all names must exist, and each fault must be possible for
its target.

Each function raises `BKIncorrectParameterException` with a message that specifies the invalid part
and the valid values.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE, EVERY_NODE
from labkit.worlds.sim.scenario.faults import BookieFault, Fault, Leave, Unload
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.publish import Publish
from labkit.worlds.sim.workload.steps import Step, Write

_RESERVED_NODES = (METADATA_SERVER, EPILOGUE)
"""Node names that occur in events, but cannot be the target of a fault."""


def check_parts(parts: Iterable[object], method: str, example: str) -> None:
    """Check that each part is an object with the given method. The error message contains
    `example`.
    """
    for part in parts:
        if isinstance(part, type) or not hasattr(part, method):
            raise BKIncorrectParameterException(f"{part!r} cannot be used here; expected {example}")


def check_names(cluster: Cluster, workload: Sequence[Step], faults: Sequence[Fault]) -> None:
    """Check the names of clients, ledgers and topics, and check that all faults target existing
    nodes.
    """
    servers = (*cluster.names, *cluster.broker_names)
    clients = tuple(dict.fromkeys(step.client for step in workload))
    ledgers = [step.ledger for step in workload if isinstance(step, Write)]
    for name in clients:
        if name in (*servers, METADATA_SERVER, EPILOGUE, EVERY_NODE):
            raise BKIncorrectParameterException(
                f"{name!r} is reserved and cannot be the name of a client"
            )
    if len(set(ledgers)) < len(ledgers):
        raise BKIncorrectParameterException("a ledger can be written by only one step")
    broker_step = next((step for step in workload if isinstance(step, Publish | Consume)), None)
    if broker_step is not None and not cluster.brokers:
        raise BKIncorrectParameterException(
            f"{broker_step!r} needs a broker, but the cluster has none; add one with"
            " Cluster(brokers=1)"
        )
    nodes = (*servers, *clients)
    for fault in faults:
        for name, possible in _targets(fault, cluster, nodes):
            if name not in possible:
                raise BKIncorrectParameterException(
                    f"{fault!r} cannot hit {name!r}; valid targets:"
                    f" {', '.join(possible) or 'brokers, but the cluster has none'}"
                )
    parts: tuple[Step | Fault, ...] = (*workload, *faults)
    for part in parts:
        when = part.when
        if isinstance(when, On) and when.node and when.node not in (*nodes, *_RESERVED_NODES):
            raise BKIncorrectParameterException(
                f"{part!r} waits for an event on {when.node!r}, which does not exist; valid"
                f" nodes: {', '.join((*nodes, *_RESERVED_NODES))}"
            )


def _targets(
    fault: Fault, cluster: Cluster, nodes: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(fault, BookieFault):
        yield fault.node, cluster.names
    elif isinstance(fault, Leave | Unload):
        yield fault.node, cluster.broker_names
    else:
        for name in _names_in(fault, "node"):
            yield name, nodes
    for name in _names_in(fault, "one", "other", "side", "others"):
        yield name, (*nodes, METADATA_SERVER)
    for name in _names_in(fault, "source", "target"):
        yield name, (*nodes, METADATA_SERVER, EVERY_NODE)


def _names_in(fault: Fault, *fields: str) -> Iterator[str]:
    for field in fields:
        names: Any = getattr(fault, field, ())
        yield from names if isinstance(names, tuple) else (names,)
