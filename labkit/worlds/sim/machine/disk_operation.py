"""An operation on a simulated disk, and how much of it survives a crash before its sync."""

import random
from collections.abc import Callable
from typing import NamedTuple


class Operation(NamedTuple):
    """One operation on a disk.  `number` counts through all disks of a machine.

    kind: `create`, `write`, `sync`, `rename`, `remove`, `sync folder`; `make folder` comes with the
    `create` that needed it.  `offset` and `size` (bytes) are those of a write; `renamed_to` is the
    new name of a rename.
    """

    number: int
    disk: str
    kind: str
    path: str
    offset: int = 0
    size: int = 0
    renamed_to: str = ""

    @property
    def end(self) -> int:
        return self.offset + self.size

    def __str__(self) -> str:
        if self.kind == "write":
            return f"write {self.path}, {self.size} bytes at {self.offset}"
        return f"{self.kind} {self.path}" + (f" to {self.renamed_to}" if self.renamed_to else "")


Keep = Callable[[Operation], float]
"""How much of an unsynced operation survives: 0 nothing, 1 all of it, between: torn.  A change of
names has no middle: it survives from 0.5 on.
"""


def lost(operation: Operation) -> float:
    """Nothing survives that was not synced."""
    return 0


def kept(operation: Operation) -> float:
    """Everything survives, as when only the process is killed."""
    return 1


def torn(operation: Operation) -> float:
    """The first half of every write survives, and every name."""
    return 0.5


def names_lost(operation: Operation) -> float:
    """Bytes survive, names do not."""
    return 1 if operation.kind == "write" else 0


def bytes_lost(operation: Operation) -> float:
    """Names survive, bytes do not."""
    return 0 if operation.kind == "write" else 1


def by_lot(seed: int) -> Keep:
    """Each operation for itself survives, is lost, or is torn, whatever came before it."""

    def keep(operation: Operation) -> float:
        lots = random.Random(seed << 32 | operation.number)
        return lots.choice((0, 1, lots.random()))

    return keep
