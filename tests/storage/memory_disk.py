"""A disk in memory that forgets at a crash what was not synced, and that can stop anywhere.

It is as unkind as the `Disk` port allows: without `sync` a write may be lost, kept or torn at a
sector's edge, each write for itself; without `sync_folder` a new name, a rename or a removal may be
lost or kept.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

Keep = Callable[[], float]
"""How much of one unsynced operation survives: 0 nothing, 1 all of it, between: torn."""


def lost() -> float:
    """Nothing survives that was not synced."""
    return 0


def kept() -> float:
    """Everything survives, as when only the process is killed."""
    return 1


def by_lot(seed: int) -> Keep:
    """Each operation for itself survives, is lost, or is torn."""
    lots = random.Random(seed)
    return lambda: lots.choice((0, 1, lots.random()))


SECTOR_SIZE = 512


class CrashError(Exception):
    """The machine stopped."""


@dataclass
class Fuse:
    """Stops the machine at an operation; shared by the disks of one machine."""

    stop_at: int = -1
    operations: int = 0

    def burn(self) -> None:
        if self.operations == self.stop_at:
            raise CrashError
        self.operations += 1


@dataclass
class Inode:
    """What a file holds: `durable` after the last sync, `content` as a reader sees it."""

    durable: bytes = b""
    content: bytearray = field(default_factory=bytearray)
    writes: list[tuple[int, bytes]] = field(default_factory=list)


def write_into(content: bytearray, offset: int, data: bytes) -> None:
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


def write_part(content: bytearray, offset: int, data: bytes, share: float) -> None:
    """Write as many whole sectors as the share allows."""
    if share == 0:
        return
    end = offset + len(data)
    if share < 1:
        end = max(offset, int(offset + len(data) * share) // SECTOR_SIZE * SECTOR_SIZE)
    write_into(content, offset, data[: end - offset])


@dataclass
class MemoryFile:
    """An open file."""

    inode: Inode
    fuse: Fuse

    def write(self, offset: int, data: bytes) -> None:
        self.fuse.burn()
        write_into(self.inode.content, offset, data)
        self.inode.writes.append((offset, data))

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self.inode.content[offset : offset + size])

    def size(self) -> int:
        return len(self.inode.content)

    def sync(self) -> None:
        self.fuse.burn()
        self.inode.durable = bytes(self.inode.content)
        self.inode.writes.clear()

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Change:
    """A change of names not yet durable: `linked` gets the inode, `unlinked` goes."""

    linked: str = ""
    inode: Inode | None = None
    unlinked: str = ""

    def touches(self, folder: str) -> bool:
        return any(p.rpartition("/")[0] == folder for p in (self.linked, self.unlinked) if p)

    def apply(self, names: dict[str, Inode]) -> None:
        names.pop(self.unlinked, None)
        if self.inode is not None:
            names[self.linked] = self.inode


class MemoryDisk:
    """A directory of files in memory; `after_crash` gives what the next start finds."""

    def __init__(self, fuse: Fuse | None = None) -> None:
        self.fuse = fuse or Fuse()
        self._names: dict[str, Inode] = {}
        self._durable_names: dict[str, Inode] = {}
        self._changes: list[Change] = []
        self._folders = {"", "current"}
        self._durable_folders = {"", "current"}

    def create(self, path: str) -> MemoryFile:
        self.fuse.burn()
        folder = path.rpartition("/")[0]
        while folder not in self._folders:
            self._folders.add(folder)
            folder = folder.rpartition("/")[0]
        self._change(Change(linked=path, inode=Inode()))
        return MemoryFile(self._names[path], self.fuse)

    def open(self, path: str) -> MemoryFile:
        if path not in self._names:
            raise FileNotFoundError(path)
        return MemoryFile(self._names[path], self.fuse)

    def exists(self, path: str) -> bool:
        return path in self._names

    def names(self, folder: str) -> list[str]:
        start = folder + "/"
        paths = {*self._names, *self._folders}
        return sorted({p[len(start) :].partition("/")[0] for p in paths if p.startswith(start)})

    def rename(self, old: str, new: str) -> None:
        self.fuse.burn()
        self._change(Change(linked=new, inode=self._names[old], unlinked=old))

    def remove(self, path: str) -> None:
        self.fuse.burn()
        self._change(Change(unlinked=path))

    def sync_folder(self, folder: str) -> None:
        self.fuse.burn()
        for change in [c for c in self._changes if c.touches(folder)]:
            change.apply(self._durable_names)
            self._changes.remove(change)
        inside = {f for f in self._folders if f.rpartition("/")[0] == folder}
        self._durable_folders |= inside

    def after_crash(self, keep: Keep, fuse: Fuse) -> "MemoryDisk":
        """The disk that the next start finds."""
        disk = MemoryDisk(fuse)
        names = dict(self._durable_names)
        for change in self._changes:
            if keep() >= 0.5:
                change.apply(names)
        for path, inode in names.items():
            if self._is_reachable(path, keep):
                content = bytearray(inode.durable)
                for offset, data in inode.writes:
                    write_part(content, offset, data, keep())
                disk._names[path] = Inode(bytes(content), content)
                disk._folders.add(path.rpartition("/")[0])
        disk._durable_names = dict(disk._names)
        disk._folders |= {f.rpartition("/")[0] for f in disk._folders}
        disk._durable_folders = set(disk._folders)
        return disk

    def _is_reachable(self, path: str, keep: Keep) -> bool:
        folder = path.rpartition("/")[0]
        while folder not in self._durable_folders and keep() >= 0.5:
            folder = folder.rpartition("/")[0]
        return folder in self._durable_folders

    def _change(self, change: Change) -> None:
        change.apply(self._names)
        self._changes.append(change)
