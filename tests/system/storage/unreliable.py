"""A disk on real files, which fails once, at a step that the test chooses."""

import os
from pathlib import Path

from labkit.worlds.live.disk import RealDisk, RealFile


class UnreliableDisk(RealDisk):
    """A disk that raises an `OSError` at step `fails_at`; every operation that changes the disk
    counts as a step.
    """

    def __init__(self, root: Path, error_number: int) -> None:
        super().__init__(root)
        self.error_number = error_number
        self.steps = 0
        self.fails_at = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.fails_at:
            raise OSError(self.error_number, os.strerror(self.error_number))

    def create(self, path: str) -> RealFile:
        self.step()
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
            self._disk.step()
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
