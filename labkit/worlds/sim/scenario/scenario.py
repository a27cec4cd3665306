"""A scenario: everything that a run depends on, as one value.

The same scenario gives the same run, event by event, in any process.  With `seed` None every
decision is harmless but those in `decisions`; a seed draws the others.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.machine.decisions import check_decisions
from labkit.worlds.sim.scenario.faults import Fault
from labkit.worlds.sim.scenario.scenario_validation import check_names, check_parts
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.scenario_values import Value, from_data, to_data
from labkit.worlds.sim.settings.value_rules import check_fields
from labkit.worlds.sim.variants.variants import VARIANTS
from labkit.worlds.sim.workload.steps import Step, Write


@dataclass(frozen=True, slots=True, repr=False)
class Scenario(Value):
    """A cluster, what its clients do, which faults strike, and the random decisions.

    `decisions` override what the seed decides, by their names
    (`labkit.worlds.sim.machine.decisions`); 0 makes a decision harmless.  With a seed, `late_share`
    (0 to 1) of the messages are late, and `slow_share` (0 to 1) of the disks' calls slow.
    `variant` names the mistake that the protocol makes; "" is the protocol as it is.  With
    `in_turn`, the decisions `next 0`, `next 1`, ... and not the times say which of the messages in
    flight arrives first.

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
        """Raises `BKIncorrectParameterException` for values and names that do not fit together."""
        check_fields(self)
        if self.variant not in VARIANTS:
            raise BKIncorrectParameterException(
                f"{self.variant!r} is not a variant; these are: {', '.join(filter(None, VARIANTS))}"
            )
        check_parts(self.workload, "run", "a step, such as Write() or Read()")
        check_parts(self.faults, "strike", 'a fault, such as Crash("b0")')
        check_names(self.cluster, self.workload, self.faults)
        check_decisions(self.decisions)

    @property
    def clients(self) -> tuple[str, ...]:
        """The names of the clients, in the order of their first steps."""
        return tuple(dict.fromkeys(step.client for step in self.workload))

    def with_fault(self, *faults: Fault) -> "Scenario":
        """The same scenario with further faults."""
        return replace(self, faults=(*self.faults, *faults))

    def with_decision(self, name: str, value: float) -> "Scenario":
        """The same scenario with this decision made."""
        return replace(self, decisions={**self.decisions, name: value})

    def to_json(self) -> str:
        """The scenario as text; `from_json` reads it."""
        return json.dumps(to_data(self), indent=1)


def from_json(text: str) -> Scenario:
    """The scenario that `Scenario.to_json` wrote.  Raises `BKIncorrectParameterException` for every
    other text.
    """
    try:
        value: Any = from_data(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise BKIncorrectParameterException(f"this is not a scenario: {error}") from None
    if not isinstance(value, Scenario):
        raise BKIncorrectParameterException("this is not a scenario")
    return value
