"""A scenario, which is a single immutable object that contains everything on which a run depends.

The same scenario produces the same run, event by event, in any process. A decision that is listed
in `decisions` has the value given there. All other decisions are drawn from the seed or, if there
is no seed, are harmless.
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
    """A scenario, which consists of a cluster, its workload, the faults, and the random decisions.

    `decisions` maps names of decisions to values, which override the values drawn from the seed
    (see `labkit.worlds.sim.machine.decisions`). A value of 0 makes a decision harmless. With a
    seed, a `late_share` (0 to 1) of the messages arrive late, and a `slow_share` (0 to 1) of the
    disk calls are slow. `variant` selects a version of the system with a deliberate bug ("": the
    correct system). With `in_turn`, the decisions `next 0`, `next 1`, ... determine which message
    in flight arrives next. Without it, messages arrive when they are due.

    The workload may take at most `limit_s` seconds of virtual time. A step whose trigger has not
    occurred by the time all other steps have ended is abandoned. The epilogue then repairs all
    faults, cuts the power of all bookies once if `ends_in_power_cut` is set, and reads every entry
    back.
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
        check_fields(self)
        if self.variant not in VARIANTS:
            raise BKIncorrectParameterException(
                f"unknown variant {self.variant!r}; valid variants:"
                f" {', '.join(filter(None, VARIANTS))}"
            )
        check_parts(self.workload, "run", "a step, such as Write() or Read()")
        check_parts(self.faults, "strike", 'a fault, such as Crash("b0")')
        check_names(self.cluster, self.workload, self.faults)
        check_decisions(self.decisions)

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(step.client for step in self.workload))

    def with_cluster(self, **settings: Any) -> "Scenario":
        return replace(self, cluster=replace(self.cluster, **settings))

    def with_steps(self, *steps: Step) -> "Scenario":
        return replace(self, workload=(*self.workload, *steps))

    def with_fault(self, *faults: Fault) -> "Scenario":
        return replace(self, faults=(*self.faults, *faults))

    def with_decision(self, name: str, value: float) -> "Scenario":
        return replace(self, decisions={**self.decisions, name: value})

    def to_json(self) -> str:
        return json.dumps(to_data(self), indent=1)


def from_json(text: str) -> Scenario:
    """Parse the output of `Scenario.to_json`. Raises `BKIncorrectParameterException`."""
    try:
        value: Any = from_data(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise BKIncorrectParameterException(f"not a scenario: {error}") from None
    if not isinstance(value, Scenario):
        raise BKIncorrectParameterException(
            "not a scenario: expected the output of Scenario.to_json"
        )
    return value
