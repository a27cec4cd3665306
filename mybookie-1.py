"""Your bookie.

Each class below is a step of the track "build a bookie". Check a step with

    from labkit.course.workshop import check
    check("bookie", 1)                      in a notebook
    labkit workshop bookie 1                in a terminal

Write your code wherever NotImplementedError is raised, and do not change the names and parameters.
For the parts that you have not written yet, labkit uses its own. All file formats are Apache
BookKeeper's, so in the end BookKeeper's own tools can read your files. Numbers in files are
big-endian.

What you can do with `disk`, and with the `file` that it returns:

    disk.create(path)                       a new empty file        disk.open(path)
    disk.exists(path)                       disk.files(folder, suffix)      names, sorted
    disk.rename(old, new)                   disk.remove(path)
    disk.sync_folder(folder)                makes new, renamed and removed names durable
    file.write(offset, data)                file.read(offset, size)         file.size()
    file.sync()                             makes everything written to the file durable
"""

import struct
from typing import Any

from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.disk import Disk, File

# Step 1: the journal


class Journal:
    def __init__(self, disk: Disk, file_id: int) -> None:
        self.file = disk.create(f"current/{file_id:x}.txn")
        self.file.write(0, (b"BKLG" + struct.pack(">i", 6)).ljust(512, b"\0"))
        self.file.sync()
        disk.sync_folder("current")
        self.group_offset = 512
        self.group = bytearray()

    def append(self, body: bytes) -> int:
        offset = self.group_offset + len(self.group)
        self.group += struct.pack(">i", len(body)) + body
        return offset

    def seal(self) -> tuple[int, bytes] | None:
        if not self.group:
            return None
        left = -len(self.group) % 512
        if left:
            zeros = left - 8 if left >= 8 else left - 8 + 512
            self.group += struct.pack(">ii", -0x100, zeros) + bytes(zeros)
        sealed = self.group_offset, bytes(self.group)
        self.group_offset += len(self.group)
        self.group = bytearray()
        return sealed

    def write(self, offset: int, data: bytes) -> None:
        self.file.write(offset, data)
        self.file.sync()


# Step 2: reading the journal


def records(data: bytes, start: int) -> list[tuple[int, bytes]]:
    found, at = [], start
    while at + 4 <= len(data):
        (length,) = struct.unpack_from(">i", data, at)
        if length == -0x100 and at + 8 <= len(data):
            at += 8 + struct.unpack_from(">i", data, at + 4)[0]
        elif length <= 0 or at + 4 + length > len(data):
            break
        else:
            found.append((at, data[at + 4 : at + 4 + length]))
            at += 4 + length
    return found


# Step 3: the memtable


class Memtable:
    def __init__(self) -> None:
        self.ledgers: dict[int, dict[int, bytes]] = {}
        self.last: dict[int, int] = {}
        self.size = 0

    def put(self, ledger_id: int, entry_id: int, data: bytes) -> None:
        kept = self.ledgers.setdefault(ledger_id, {})
        if entry_id in kept:
            return
        kept[entry_id] = data
        self.size += len(data)
        self.last[ledger_id] = max(self.last.get(ledger_id, -1), entry_id)

    def get(self, ledger_id: int, entry_id: int) -> bytes | None:
        return self.ledgers.get(ledger_id, {}).get(entry_id)

    def last_entry_id(self, ledger_id: int) -> int:
        return self.last.get(ledger_id, -1)

    def size_bytes(self) -> int:
        return self.size

    def entries(self) -> list[tuple[int, int, bytes]]:
        return [
            (ledger_id, entry_id, self.ledgers[ledger_id][entry_id])
            for ledger_id in sorted(self.ledgers)
            for entry_id in sorted(self.ledgers[ledger_id])
        ]


# Step 4: the entry log


def location_of(log_id: int, offset: int) -> int:
    return log_id << 32 | offset


class EntryLog:
    def __init__(self, file: File) -> None:
        self.file = file
        self.written = 0
        self.buffer = bytearray((b"BKLO" + struct.pack(">i", 1)).ljust(1024, b"\0"))

    def append(self, entry: bytes) -> int:
        self.buffer += struct.pack(">i", len(entry)) + entry
        return self.size() - len(entry)

    def size(self) -> int:
        return self.written + len(self.buffer)

    def sync(self) -> None:
        if self.buffer:
            self.file.write(self.written, bytes(self.buffer))
            self.written += len(self.buffer)
            self.buffer.clear()
        self.file.sync()


def read_entry(file: File, offset: int, ledger_id: int, entry_id: int) -> bytes | None:
    head = file.read(offset - 4, 20)
    if len(head) < 20:
        return None
    length, found_ledger, found_entry = struct.unpack(">iqq", head)
    if (found_ledger, found_entry) != (ledger_id, entry_id):
        return None
    if length < 16 or offset + length > file.size():
        return None
    return file.read(offset, length)


# Step 5: the index


class Index:
    def __init__(self, disk: Disk, path: str, master_key: bytes) -> None:
        self.disk, self.path, self.master_key = disk, path, master_key
        self.fenced, self.explicit_lac = False, b""
        self.known: dict[int, int] = {}
        self.changed: dict[int, int] = {}
        self.stored_header = b""
        self.must_sync = False

    @classmethod
    def load(cls, disk: Disk, path: str) -> "Index":
        file = disk.open(path)
        head, slots = file.read(0, 1024), file.read(1024, file.size())
        file.close()
        magic, version, key_size = struct.unpack_from(">4sii", head)
        if magic != b"BKLE" or version != 1 or key_size < 0:
            raise ValueError(f"magic {magic!r}, version {version}, key of {key_size} bytes")
        index = cls(disk, path, head[12 : 12 + key_size])
        state, lac_size = struct.unpack_from(">ii", head, 12 + key_size)
        index.fenced = state & 1 == 1
        index.explicit_lac = head[20 + key_size : 20 + key_size + lac_size]
        whole = slots[: len(slots) // 8 * 8]
        for entry_id, (location,) in enumerate(struct.iter_unpack(">q", whole)):
            if location:
                index.known[entry_id] = location
        index.stored_header = index.header()
        index.must_sync = True
        return index

    def header(self) -> bytes:
        head = struct.pack(">4sii", b"BKLE", 1, len(self.master_key)) + self.master_key
        head += struct.pack(">ii", int(self.fenced), len(self.explicit_lac)) + self.explicit_lac
        return head.ljust(1024, b"\0")

    def set_location(self, entry_id: int, location: int) -> None:
        self.known[entry_id] = self.changed[entry_id] = location

    def location(self, entry_id: int) -> int:
        return self.known.get(entry_id, 0)

    def locations(self) -> list[tuple[int, int]]:
        return sorted(self.known.items())

    def flush(self) -> None:
        header, is_new = self.header(), not self.stored_header
        if header == self.stored_header and not self.changed and not self.must_sync:
            return
        file = self.disk.create(self.path + ".new") if is_new else self.disk.open(self.path)
        if header != self.stored_header:
            file.write(0, header)
        for first, slots in self.runs():
            file.write(1024 + 8 * first, slots)
        missing = -(file.size() - 1024) % 8192
        if missing:
            file.write(file.size() + missing - 8, bytes(8))
        file.sync()
        file.close()
        if is_new:
            self.disk.rename(self.path + ".new", self.path)
        if is_new or self.must_sync:
            folders = self.path.split("/")[:-1]
            for depth in range(len(folders), 0, -1):
                self.disk.sync_folder("/".join(folders[:depth]))
        self.stored_header, self.changed, self.must_sync = header, {}, False

    def runs(self) -> list[tuple[int, bytes]]:
        """Return the changed slots, with consecutive slots merged into one piece."""
        runs: list[tuple[int, bytes]] = []
        for entry_id in sorted(self.changed):
            slot = struct.pack(">q", self.changed[entry_id])
            if runs and entry_id == runs[-1][0] + len(runs[-1][1]) // 8:
                runs[-1] = runs[-1][0], runs[-1][1] + slot
            else:
                runs.append((entry_id, slot))
        return runs


# Step 6: the checkpoint, and LastLogMark


def write_last_mark(disk: Disk, file_id: int, offset: int) -> None:
    file = disk.create("current/lastMark.new")
    file.write(0, struct.pack(">qq", file_id, offset))
    file.sync()
    file.close()
    disk.rename("current/lastMark.new", "current/lastMark")
    disk.sync_folder("current")


def read_last_mark(disk: Disk) -> tuple[int, int]:
    if not disk.exists("current/lastMark"):
        return 0, 0
    file = disk.open("current/lastMark")
    data = file.read(0, 17)
    file.close()
    if len(data) != 16:
        return 0, 0
    file_id, offset = struct.unpack(">qq", data)
    return (file_id, offset) if min(file_id, offset) >= 0 else (0, 0)


def removable_journals(file_ids: list[int], mark_file_id: int, max_backups: int) -> list[int]:
    old = [file_id for file_id in file_ids if file_id < mark_file_id]
    return old[: max(0, len(old) - max_backups)]


class Checkpoint:
    def __init__(self, bookie: Any) -> None:
        self.mark = bookie.synced()
        self.entries = bookie.set_memtable_aside()

    def flush(self, bookie: Any) -> None:
        places = [
            (ledger_id, entry_id, bookie.append(ledger_id, entry))
            for ledger_id, entry_id, entry in self.entries
        ]
        bookie.sync_entry_log()
        for ledger_id, entry_id, location in places:
            bookie.set_location(ledger_id, entry_id, location)
        bookie.flush_indexes()
        bookie.move_mark(*self.mark)
        bookie.remove_journals(self.mark[0])


# Step 7: replay


def replay(bookie: Any, disk: Disk, file_id: int, offset: int) -> tuple[int, int]:
    needed = [each for each in bookie.journal_ids(disk) if each >= file_id]
    if file_id and file_id not in needed:
        raise StorageDamagedException(f"journal {file_id:x}.txn is missing")
    keys: dict[int, bytes] = {}
    end = file_id, offset
    for each in needed:
        file = disk.open(f"current/{each:x}.txn")
        data = file.read(0, file.size())
        file.close()
        start = max(512, offset if each == file_id else 0)
        end = each, start
        for at, body in records(data, start):
            end = each, at + 4 + len(body)
            redo(bookie, keys, body)
    return end


def redo(bookie: Any, keys: dict[int, bytes], body: bytes) -> None:
    ledger_id, entry_id = struct.unpack_from(">qq", body)
    if entry_id == -0x1000:
        keys[ledger_id] = body[20:]
        return
    if not bookie.has_ledger(ledger_id):
        if ledger_id not in keys:
            return
        bookie.create_ledger(ledger_id, keys[ledger_id])
    if entry_id >= 0:
        bookie.put(ledger_id, entry_id, body)
    elif entry_id == -0x2000:
        bookie.fence(ledger_id)
    elif entry_id == -0x8000:
        bookie.set_explicit_lac(ledger_id, body[20:])
