"""Triggers of steps and faults: a point in time, or an event."""

from dataclasses import dataclass

from labkit.system.trace.events import Event
from labkit.worlds.sim.settings.scenario_values import Value


@dataclass(frozen=True, slots=True, repr=False)
class At(Value):
    """The time `ms` milliseconds after the cluster is up."""

    ms: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class On(Value):
    """The `nth` event of `kind` (counted from 1) after the cluster is up.

    If `node` is "", events of all nodes are counted. If `entry` is -1, events for all entries are
    counted.
    """

    kind: str
    nth: int = 1
    node: str = ""
    entry: int = -1

    def fits(self, row: Event) -> bool:
        return self.node in ("", row.node) and self.entry in (-1, row.entry)


Moment = At | On
START = At()
