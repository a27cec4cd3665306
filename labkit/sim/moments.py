"""When something is done to the world: at a time, or when something happens in it."""

from dataclasses import dataclass

from labkit.sim.value import Value
from labkit.trace.recorder import Row


@dataclass(frozen=True, slots=True, repr=False)
class At(Value):
    """So many milliseconds after the cluster is up."""

    ms: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class On(Value):
    """When an event of that kind happens for the `nth` time (from 1), counted from when the cluster
    is up.  `node` "" and `entry` -1 count those of all nodes and entries.
    """

    kind: str
    nth: int = 1
    node: str = ""
    entry: int = -1

    def fits(self, row: Row) -> bool:
        """Whether the event counts; its kind is right already."""
        return self.node in ("", row.node) and self.entry in (-1, row.entry)


Moment = At | On
START = At()
