"""An in-memory disk that loses unsynced data in a crash, and that can crash before any operation.

In a crash, the disk loses as much as the `Disk` port permits. Until the next `sync`, each write may
be lost, kept, or torn at a sector boundary, independently of the others. Until the next
`sync_folder`, a new name, a rename or a removal may be lost or kept. A `Keep` function decides the
fate of each unsynced operation.

As on Linux, a failed sync loses its data for good. The pages stay in memory, where the next process
can still read them. However, they count as clean, so they reach the disk only after a new write to
the same page.
"""

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from labkit.system.model.errors import StorageDamagedException
from labkit.worlds.sim.machine.disk_operation import Keep, Operation

SECTOR_SIZE = 512
"""The unit that a disk writes atomically, in bytes."""
PAGE_SIZE = 4096
"""The unit that the operating system writes, in bytes."""
_MAX_FILE_SIZE = 2**28
"""The maximum file size in bytes, without trailing zeros. The size is limited because a corrupt
record may request any size.
"""


class SimDiskError(OSError):
    """An error whose message omits the error number, so that traces are the same on all systems."""

    def __str__(self) -> str:
        return f"simulated: {self.strerror}"


class CrashError(Exception):
    pass


@dataclass
class DiskController:
    """Counts the operations on all disks of a machine, and stops the machine before one of them.

    Operation number `stop_at` and all later operations are not carried out (-1: no limit). `watch`
    is called with each operation before it is carried out, and `watch_read` with the path of each
    file that is read.
    """

    stop_at: int = -1
    operations: list[Operation] = field(default_factory=list)
    watch: Callable[[Operation], None] | None = None
    watch_read: Callable[[str], None] | None = None

    def begin(self, operation: Operation) -> None:
        """Count an operation that is about to start. Raises `CrashError` if the machine stops
        before it.
        """
        if operation.number == self.stop_at:
            raise CrashError(str(operation))
        if self.watch is not None:
            self.watch(operation)
        self.operations.append(operation)


class FileContent:
    """The contents of a file.

    Trailing zeros are not stored, so preallocated files take little memory.
    """

    def __init__(self, stored: bytes | bytearray = b"", size: int = 0) -> None:
        self.size = size
        self.stored = bytearray(stored)

    def write(self, offset: int, data: bytes) -> None:
        if not data:
            return
        self.size = max(self.size, offset + len(data))
        if offset < len(self.stored) or not _is_zero(data):
            self.stored.extend(bytes(max(0, offset - len(self.stored))))
            self.stored[offset : offset + len(data)] = data

    def read(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self.size)
        return bytes(self.stored[offset:end]).ljust(end - offset, b"\0")

    def next_data(self, offset: int) -> int:
        return offset if offset < len(self.stored) else self.size

    def copy(self) -> "FileContent":
        return FileContent(self.stored, self.size)


def _is_zero(data: bytes) -> bool:
    # A comparison is much faster than a search for a non-zero byte.
    return data == bytes(len(data))


@dataclass
class Inode:
    """A file with its current name and contents.

    `durable` is the content at the time of the last sync. The next sync makes `writes` durable, but
    not `passed_over`, which contains the writes of failed syncs, split by page.
    """

    path: str
    durable: FileContent = field(default_factory=FileContent)
    content: FileContent = field(default_factory=FileContent)
    writes: list[tuple[Operation, bytes]] = field(default_factory=list)
    passed_over: list[tuple[Operation, bytes]] = field(default_factory=list)

    def write(self, operation: Operation, data: bytes) -> None:
        self.content.write(operation.offset, data)
        if self.passed_over:
            pages = range(operation.offset // PAGE_SIZE, -(-operation.end // PAGE_SIZE))
            rewritten = [p for p in self.passed_over if p[0].offset // PAGE_SIZE in pages]
            self.passed_over = [p for p in self.passed_over if p not in rewritten]
            self.writes += rewritten
        self.writes.append((operation, data))

    def sync(self) -> None:
        for operation, data in self.writes:
            self.durable.write(operation.offset, data)
        self.writes.clear()

    def fail_to_sync(self) -> None:
        for operation, data in self.writes:
            self.passed_over += _by_page(operation, data)
        self.writes.clear()

    def after_crash(self, keep: Keep) -> FileContent:
        content = self.durable.copy()
        for operation, data in (*self.passed_over, *self.writes):
            content.write(operation.offset, _surviving_data(data, operation, keep(operation)))
        return content

    def copy(self) -> "Inode":
        return Inode(
            self.path,
            self.durable.copy(),
            self.content.copy(),
            list(self.writes),
            list(self.passed_over),
        )


@dataclass
class SimFile:
    disk: "SimDisk"
    inode: Inode

    def write(self, offset: int, data: bytes) -> None:
        if offset + len(data) > _MAX_FILE_SIZE and not _is_zero(data):
            raise SimDiskError(errno.EFBIG, f"{self.inode.path} would exceed the maximum file size")
        # Call `begin` before the write, so that the file is unchanged if the machine stops at this
        # operation.
        self.inode.write(self.disk.begin("write", self.inode.path, offset, len(data)), data)

    def read(self, offset: int, size: int) -> bytes:
        if self.disk.controller.watch_read is not None:
            self.disk.controller.watch_read(self.inode.path)
        return self.inode.content.read(offset, size)

    def size(self) -> int:
        return self.inode.content.size

    def next_data(self, offset: int) -> int:
        return self.inode.content.next_data(offset)

    def sync(self) -> None:
        try:
            self.disk.begin("sync", self.inode.path)
        except SimDiskError:
            self.inode.fail_to_sync()
            raise
        self.inode.sync()

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class _Change:
    """A directory change that is not durable yet: it adds the name `linked`, removes the name
    `unlinked`, or both.
    """

    operation: Operation
    linked: str = ""
    inode: Inode | None = None
    unlinked: str = ""

    def touches(self, folder: str) -> bool:
        return any(_parent(p) == folder for p in (self.linked, self.unlinked) if p)

    def apply(self, names: dict[str, Inode]) -> None:
        names.pop(self.unlinked, None)
        if self.inode is not None:
            names[self.linked] = self.inode


class SimDisk:
    """An in-memory directory of files. `after_crash` returns the files that survive a crash."""

    def __init__(self, controller: DiskController | None = None, name: str = "disk") -> None:
        self.controller = controller or DiskController()
        self.name = name
        self._names: dict[str, Inode] = {}
        self._durable_names: dict[str, Inode] = {}
        self._changes: list[_Change] = []
        self._folders = {"", "current"}
        self._new_folders: dict[str, Operation] = {}

    def create(self, path: str) -> SimFile:
        operation = self.begin("create", path)
        folder = _parent(path)
        while folder not in self._folders:
            self._folders.add(folder)
            self._new_folders[folder] = operation._replace(kind="make folder", path=folder)
            folder = _parent(folder)
        self._change(_Change(operation, linked=path, inode=Inode(path)))
        return SimFile(self, self._names[path])

    def open(self, path: str) -> SimFile:
        return SimFile(self, self._inode(path))

    def exists(self, path: str) -> bool:
        if path in self._folders:
            raise StorageDamagedException(f"{self.path(path)} is a folder, not a file")
        self._check_is_folder(_parent(path))
        return path in self._names

    def names(self, folder: str) -> list[str]:
        self._check_is_folder(folder)
        start = folder + "/" if folder else ""
        paths = {*self._names, *self._folders}
        inside = (path[len(start) :] for path in paths if path and path.startswith(start))
        return sorted({path.partition("/")[0] for path in inside})

    def _check_is_folder(self, folder: str) -> None:
        """Raise `StorageDamagedException` if this folder or one of its parents is a file."""
        while folder:
            if folder in self._names:
                raise StorageDamagedException(f"{self.path(folder)} is a file, not a folder")
            folder = _parent(folder)

    def files(self, folder: str, suffix: str) -> list[str]:
        return [name for name in self.names(folder) if name.endswith(suffix)]

    def path(self, name: str) -> str:
        return f"{self.name}/{name}"

    def rename(self, old: str, new: str) -> None:
        inode = self._inode(old)
        operation = self.begin("rename", old, renamed_to=new)
        self._change(_Change(operation, linked=new, inode=inode, unlinked=old))
        inode.path = new

    def remove(self, path: str) -> None:
        self._inode(path)
        self._change(_Change(self.begin("remove", path), unlinked=path))

    def sync_folder(self, folder: str) -> None:
        self.begin("sync folder", folder)
        for change in [c for c in self._changes if c.touches(folder)]:
            change.apply(self._durable_names)
            self._changes.remove(change)
        for inside in [f for f in self._new_folders if _parent(f) == folder]:
            del self._new_folders[inside]

    def sync_whole(self) -> bool:
        return False  # Files are synced one by one, so a crash can be injected before each sync.

    def _inode(self, path: str) -> Inode:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "simulated: no such file", path)
        return self._names[path]

    def begin(
        self, kind: str, path: str, offset: int = 0, size: int = 0, renamed_to: str = ""
    ) -> Operation:
        number = len(self.controller.operations)
        operation = Operation(number, self.name, kind, path, offset, size, renamed_to)
        self.controller.begin(operation)
        return operation

    def paths(self) -> list[str]:
        return sorted(self._names)

    def stored_bytes(self, path: str) -> int:
        """Return the size of the file without trailing zeros."""
        return len(self._names[path].content.stored)

    def corrupt(self, path: str, part: float, size: int = 1) -> int:
        """Flip one bit in each byte of a block, in memory and on disk, and return the block's
        offset. The block contains the byte at the relative position `part` (0 to 1) of the file.
        Trailing zeros are ignored.
        """
        inode = self._names[path]
        at = int(part * max(0, len(inode.content.stored) - 1))
        offset = at - at % size
        for content in (inode.content, inode.durable):
            rotten = bytes(byte ^ 1 for byte in content.read(offset, size))
            content.write(offset, rotten)
        return offset

    def fingerprint(self) -> bytes:
        """Return a hash that is equal for two disks if they contain the same files."""
        found = blake2b(digest_size=16)
        for path in self.paths():
            content = self._names[path].content
            found.update(f"{path} {content.size} {len(content.stored)} ".encode() + content.stored)
        return found.digest()

    def unsynced(self) -> list[Operation]:
        """Return the operations whose effects could be lost in a crash now, oldest first."""
        writes = {op for inode in self._inodes() for op, _ in (*inode.passed_over, *inode.writes)}
        return sorted({*writes, *(c.operation for c in self._changes), *self._new_folders.values()})

    def after_crash(self, keep: Keep, controller: DiskController | None = None) -> "SimDisk":
        """Return a copy of the disk as it would be after a power failure."""
        disk = SimDisk(controller, self.name)
        names = dict(self._durable_names)
        for change in self._changes:
            if keep(change.operation) >= 0.5:
                change.apply(names)
        for path, inode in names.items():
            if self._is_reachable(path, keep):
                content = inode.after_crash(keep)
                disk._names[path] = Inode(path, content.copy(), content)
                disk._add_folders(path)
        disk._durable_names = dict(disk._names)
        return disk

    def after_kill(self, controller: DiskController) -> "SimDisk":
        """Return a copy of the disk as the next process would find it if only the current process
        were killed. Unsynced changes are visible but not durable.
        """
        disk = SimDisk(controller, self.name)
        # Copy each file only once, because its old name and its new name must refer to the same
        # copy.
        copies = {id(inode): inode.copy() for inode in self._inodes()}
        disk._names = {path: copies[id(inode)] for path, inode in self._names.items()}
        durable = self._durable_names.items()
        disk._durable_names = {path: copies[id(inode)] for path, inode in durable}
        disk._changes = [
            replace(change, inode=change.inode and copies[id(change.inode)])
            for change in self._changes
        ]
        disk._folders = set(self._folders)
        disk._new_folders = dict(self._new_folders)
        return disk

    def _inodes(self) -> list[Inode]:
        """Return each file once, including deleted or renamed files whose names could reappear
        after a crash.
        """
        changed = (c.inode for c in self._changes if c.inode is not None)
        inodes = (*self._names.values(), *self._durable_names.values(), *changed)
        return list({id(inode): inode for inode in inodes}.values())

    def _is_reachable(self, path: str, keep: Keep) -> bool:
        while path := _parent(path):
            new_folder = self._new_folders.get(path)
            if new_folder is not None and keep(new_folder) < 0.5:
                return False
        return True

    def _add_folders(self, path: str) -> None:
        while path:
            path = _parent(path)
            self._folders.add(path)

    def _change(self, change: _Change) -> None:
        change.apply(self._names)
        self._changes.append(change)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _by_page(operation: Operation, data: bytes) -> Iterator[tuple[Operation, bytes]]:
    at = operation.offset
    while at < operation.end:
        end = min(operation.end, (at // PAGE_SIZE + 1) * PAGE_SIZE)
        part = data[at - operation.offset : end - operation.offset]
        yield operation._replace(offset=at, size=end - at), part
        at = end


def _surviving_data(data: bytes, operation: Operation, share: float) -> bytes:
    """Return the part of a write that survives, which consists of whole sectors and is at most this
    share of the write.
    """
    if share in (0, 1):
        return data if share else b""
    # Sectors are aligned to the start of the file, not to the start of the write.
    sectors = int(operation.offset + operation.size * share) // SECTOR_SIZE
    return data[: max(0, sectors * SECTOR_SIZE - operation.offset)]
