"""A scenario: everything that a run depends on, as one value.

The same scenario gives the same run, event by event, in any process.  With `seed` None every
decision is harmless but those in `decisions`; a seed draws the others.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from labkit.model.errors import BKIncorrectParameterException
from labkit.sim.cluster import Cluster
from labkit.sim.faults import Fault
from labkit.sim.faulty_world import EVERY_NODE
from labkit.sim.scenario_values import Value, from_data, to_data
from labkit.sim.variants import VARIANTS
from labkit.sim.workload import Step, Write
from labkit.sim.zookeeper import METADATA_SERVER

EPILOGUE = "epilogue"
"""The node that looks everything up at the end."""


@dataclass(frozen=True, slots=True, repr=False)
class Scenario(Value):
    """A cluster, what its clients do, which faults strike, and the random decisions.

    `decisions` override what the seed decides, by their names (`labkit.sim.decisions`); 0 makes a
    decision harmless.  With a seed, `late_share` (0 to 1) of the messages are late, and
    `slow_share` (0 to 1) of the disks' calls slow.  `variant` names the mistake that the protocol
    makes; "" is the protocol as it is.  With `in_turn`, the decisions `next 0`, `next 1`, ... and
    not the times say which of the messages in flight arrives first.

    The workload has `limit_s` seconds of virtual time.  A step whose event never happens is given
    up when all other steps have ended.  Then all faults are repaired, and unless
    `ends_in_power_cut` is off, the power of all bookies fails once, before every entry is looked
    up.
    """

    cluster: Cluster = field(default_factory=Cluster)
    workload: tuple[Step, ...] = (Write(),)
    faults: tuple[Fault, ...] = ()
    seed: int | None = None
    decisions: Mapping[str, float] = field(default_factory=dict, hash=False)
    late_share: float = 0.1
    slow_share: float = 0.02
    variant: str = ""
    in_turn: bool = False
    ends_in_power_cut: bool = True
    limit_s: float = 60.0

    def __post_init__(self) -> None:
        """Raises `BKIncorrectParameterException` for names that do not fit together."""
        if self.variant not in VARIANTS:
            raise BKIncorrectParameterException(
                f"{self.variant!r} is not a variant; these are: {', '.join(filter(None, VARIANTS))}"
            )
        clients = {step.client for step in self.workload}
        ledgers = [step.ledger for step in self.workload if isinstance(step, Write)]
        servers = {*self.cluster.names, *self.cluster.broker_names, METADATA_SERVER}
        nodes = {*servers, *clients, EVERY_NODE}
        if taken := clients & {*servers, EPILOGUE, EVERY_NODE}:
            raise BKIncorrectParameterException(f"{sorted(taken)[0]!r} cannot be a client's name")
        if len(set(ledgers)) < len(ledgers):
            raise BKIncorrectParameterException("each ledger can be written by one step only")
        for fault in self.faults:
            unknown = [name for name in _nodes_of(fault) if name not in nodes]
            if unknown:
                raise BKIncorrectParameterException(f"{fault}: there is no node {unknown[0]!r}")

    def with_fault(self, *faults: Fault) -> "Scenario":
        """The same scenario with further faults."""
        return replace(self, faults=(*self.faults, *faults))

    def with_decision(self, name: str, value: float) -> "Scenario":
        """The same scenario with this decision made."""
        return replace(self, decisions={**self.decisions, name: value})

    def to_json(self) -> str:
        """The scenario as text; `from_json` reads it."""
        return json.dumps(to_data(self), indent=1)


def _nodes_of(fault: Fault) -> Iterator[str]:
    for name in ("node", "source", "target", "one", "other"):
        if hasattr(fault, name):
            yield getattr(fault, name)
    for name in ("side", "others"):
        yield from getattr(fault, name, ())


def from_json(text: str) -> Scenario:
    """The scenario that `Scenario.to_json` wrote.  Raises `BKIncorrectParameterException`."""
    value: Any = from_data(json.loads(text))
    if not isinstance(value, Scenario):
        raise BKIncorrectParameterException("this is not a scenario")
    return value
