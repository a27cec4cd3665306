"""A disk on real files that fails once, at a step that the test chooses, or that is full."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from labkit.worlds.live.disk import RealDisk, RealFile


def failing(error_number: int) -> Callable[..., NoReturn]:
    """Return a function that always raises this `OSError`."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError(error_number, os.strerror(error_number))

    return fail


class UnreliableDisk(RealDisk):
    """Raises an `OSError` at step `fails_at`; every operation that changes the disk counts as a
    step. While the disk `is_full`, every step that needs space fails.
    """

    def __init__(self, root: Path, error_number: int) -> None:
        super().__init__(root)
        self.error_number = error_number
        self.steps = 0
        self.fails_at = 0
        self.is_full = False

    def step(self, *, needs_space: bool = False) -> None:
        self.steps += 1
        if self.steps == self.fails_at or (self.is_full and needs_space):
            failing(self.error_number)()

    def create(self, path: str) -> RealFile:
        self.step(needs_space=True)
        super().create(path).close()
        return self.open(path)

    def open(self, path: str) -> RealFile:
        return _UnreliableFile(self, self.root / path)

    def rename(self, old: str, new: str) -> None:
        self.step()
        super().rename(old, new)

    def sync_folder(self, folder: str) -> None:
        self.step()
        super().sync_folder(folder)


class _UnreliableFile(RealFile):
    """A file in which a failing write stores only half of the data, and a failing sync discards all
    unsynced data for good, even if a later sync succeeds.
    """

    def __init__(self, disk: UnreliableDisk, path: Path) -> None:
        super().__init__(path, 0)
        self._disk = disk
        self._before: list[tuple[int, bytes]] = []

    def write(self, offset: int, data: bytes) -> None:
        self._before.append((offset, self.read(offset, len(data)).ljust(len(data), b"\0")))
        try:
            self._disk.step(needs_space=True)
        except OSError:
            super().write(offset, data[: len(data) // 2])
            raise
        super().write(offset, data)

    def sync(self) -> None:
        before, self._before = self._before, []
        try:
            self._disk.step()
        except OSError:
            for offset, data in reversed(before):
                super().write(offset, data)
            raise
