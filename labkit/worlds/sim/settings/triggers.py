"""When something is done to the world: at a time, or when something happens in it."""

from dataclasses import dataclass

from labkit.system.trace.recorder import Row
from labkit.worlds.sim.settings.scenario_values import Value


@dataclass(frozen=True, slots=True, repr=False)
class At(Value):
    """`ms` milliseconds after the cluster is up."""

    ms: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class On(Value):
    """When an event of `kind` happens for the `nth` time (from 1) since the cluster is up.

    `node` "" counts the events of all nodes, `entry` -1 those of all entries.
    """

    kind: str
    nth: int = 1
    node: str = ""
    entry: int = -1

    def fits(self, row: Row) -> bool:
        """Whether an event of the right kind counts."""
        return self.node in ("", row.node) and self.entry in (-1, row.entry)


Moment = At | On
START = At()
