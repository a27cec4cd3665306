"""Operations on a simulated disk, and functions that decide how much of an unsynced operation
survives a crash.
"""

import random
from collections.abc import Callable
from typing import NamedTuple


class Operation(NamedTuple):
    """A disk operation. The operations on all disks of a machine are numbered together.

    kind: `create`, `write`, `sync`, `rename`, `remove`, `sync folder`, or `make folder` (together
        with the `create` that needs the folder).
    offset, size: the position and the number of bytes of a write.
    renamed_to: the new name in a rename.
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
"""Decides how much of an unsynced operation survives: 0 means nothing, 1 means all of it, and a
value in between means a torn write.

Directory changes cannot be torn. They survive if the value is at least 0.5.
"""


def lost(operation: Operation) -> float:
    """Lose everything that was not synced."""
    return 0


def kept(operation: Operation) -> float:
    """Keep everything, as if the operating system had written it to the disk before the crash."""
    return 1


def torn(operation: Operation) -> float:
    """Keep the first half of every write, and all directory changes."""
    return 0.5


def names_lost(operation: Operation) -> float:
    """Keep the written bytes but lose the directory changes."""
    return 1 if operation.kind == "write" else 0


def bytes_lost(operation: Operation) -> float:
    """Keep the directory changes but lose the written bytes."""
    return 0 if operation.kind == "write" else 1


def at_random(seed: int) -> Keep:
    """Independently keep, lose or tear each operation at random."""

    def keep(operation: Operation) -> float:
        rng = random.Random(seed << 32 | operation.number)
        return rng.choice((0, 1, rng.random()))

    return keep
