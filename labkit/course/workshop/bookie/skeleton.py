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

If the disk fails, these methods raise OSError. Let your own methods raise it, too: a caller that
gets no error assumes that everything was done.
"""

import struct
from typing import Any

from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.disk import Disk, File

# Step 1: the journal


class Journal:
    """One journal file, current/<file id in hex>.txn, which only this object writes.

    The file:   header   512 bytes: b"BKLG", i32 6, zeros
                groups   each starts at a multiple of 512
    A group:    records  each an i32 (the number of bytes that follow) and its body
                padding  i32 -0x100, i32 (the number of zeros that follow), zeros up to a multiple
                         of 512; none if the group already ends there. If fewer than 8 bytes are
                         left, the zeros continue to the end of the next block

    While another thread writes a group, records are already appended to the next group.
    """

    def __init__(self, disk: Disk, file_id: int) -> None:
        """Create the file with its header, and make its contents and its name (in "current")
        durable.
        """
        raise NotImplementedError

    def append(self, body: bytes) -> int:
        """Add a record to the open group, and return the offset at which it will be stored in the
        file.

        This must be fast: do not access the disk.
        """
        raise NotImplementedError

    def seal(self) -> tuple[int, bytes] | None:
        """Close the open group and start the next one after it.

        Returns the group's offset in the file and all its bytes, including the padding, or None if
        the group has no records.
        """
        raise NotImplementedError

    def write(self, offset: int, data: bytes) -> None:
        """Write a sealed group to disk, with one write and one sync.

        The group is durable on return, and only then are its adds acknowledged.
        """
        raise NotImplementedError


# Step 2: reading the journal


def records(data: bytes, start: int) -> list[tuple[int, bytes]]:
    """Return the records in a journal file's bytes from the offset `start` on, as (offset, body).

    Reading starts exactly at `start`, no matter what the bytes before it look like. A length of 0
    ends the file, and so does an incomplete record (a torn tail). A length of -0x100 marks padding.
    """
    raise NotImplementedError


# Step 3: the memtable


class Memtable:
    """Entries in memory, from their add until a flush writes them to the entry log."""

    def __init__(self) -> None:
        raise NotImplementedError

    def put(self, ledger_id: int, entry_id: int, data: bytes) -> None:
        """Keep an entry. If the entry already exists, keep the existing bytes and drop the new
        ones.
        """
        raise NotImplementedError

    def get(self, ledger_id: int, entry_id: int) -> bytes | None:
        """Return the entry's bytes, or None if the entry is not in the memtable."""
        raise NotImplementedError

    def last_entry_id(self, ledger_id: int) -> int:
        """Return the ledger's highest entry id, or -1 if the memtable has no entry of the ledger.

        This is called often, so do not search.
        """
        raise NotImplementedError

    def size_bytes(self) -> int:
        """Return the total size of all entries in bytes."""
        raise NotImplementedError

    def entries(self) -> list[tuple[int, int, bytes]]:
        """Return (ledger id, entry id, bytes) of all entries, sorted by ledger, then by entry."""
        raise NotImplementedError


# Step 4: the entry log


def location_of(log_id: int, offset: int) -> int:
    """Return the location of an entry as one number, which is stored in the ledger's index.

    The upper 32 bits are the id of the entry log, the lower 32 bits are the offset that `append`
    returned.
    """
    raise NotImplementedError


class EntryLog:
    """An entry log that is being written. Its file exists and is empty.

    The file:   header    1024 bytes: b"BKLO", i32 1, zeros
                entries   each an i32 (the number of bytes that follow) and its bytes
    """

    def __init__(self, file: File) -> None:
        """Start a log; do not access the disk."""
        raise NotImplementedError

    def append(self, entry: bytes) -> int:
        """Add an entry in memory.

        Returns the offset at which the entry's bytes will start, right after its length.
        """
        raise NotImplementedError

    def size(self) -> int:
        """Return the offset at which the length of the next entry will be stored."""
        raise NotImplementedError

    def sync(self) -> None:
        """Make the header and all appended entries durable, with one write of everything new and
        one sync.
        """
        raise NotImplementedError


def read_entry(file: File, offset: int, ledger_id: int, entry_id: int) -> bytes | None:
    """Return the entry whose bytes start at `offset`.

    Returns None if the entry is incomplete or a different one. An entry's first 16 bytes are its
    ledger id and its entry id, two i64. A corrupt length must not make this function read a whole
    disk.
    """
    raise NotImplementedError


# Step 5: the index


class Index:
    """A bookie's data about one ledger: key, fence, explicit LAC, and the location of each entry.

    The file at `path`:   header    1024 bytes: b"BKLE", i32 1,
                                    i32 length of the master key, the key,
                                    i32 state (1: fenced, 0: not),
                                    i32 length of the explicit LAC, the LAC, zeros
                          slots     an i64 for each entry id: its location, or 0 if it is not here;
                                    padded to a multiple of 8192 bytes, because BookKeeper's shell
                                    ignores an incomplete page

    `master_key` (bytes), `fenced` (bool) and `explicit_lac` (bytes, b"" if there is none) are
    attributes; the bookie sets the last two.
    """

    def __init__(self, disk: Disk, path: str, master_key: bytes) -> None:
        """Create the index of a new ledger. Nothing is written to disk before the first
        `flush`.
        """
        raise NotImplementedError

    @classmethod
    def load(cls, disk: Disk, path: str) -> "Index":
        """Load the index of an existing file.

        Raises ValueError if the header is invalid: incomplete, with another magic or version, or
        with a length that is negative or too large for the header. A slot truncated by the end of
        the file was never synced, so it counts as 0.
        """
        raise NotImplementedError

    def set_location(self, entry_id: int, location: int) -> None:
        """Record where an entry is stored, in memory."""
        raise NotImplementedError

    def location(self, entry_id: int) -> int:
        """Return where the entry is stored, or 0 if it is not here."""
        raise NotImplementedError

    def locations(self) -> list[tuple[int, int]]:
        """Return (entry id, location) of every entry in ascending order."""
        raise NotImplementedError

    def flush(self) -> None:
        """Make everything durable: the contents, the file name, and the names of the parent
        folders.

        The file of a ledger either has a complete header or does not exist: a ledger's first file
        is written and synced as `path` + ".new", and then renamed. Later flushes only write what
        has changed. If nothing has changed, a flush does nothing, except that the first flush after
        `load` always syncs the file and its folders, because the previous process may have been
        killed between a write and its sync.
        """
        raise NotImplementedError


# Step 6: the checkpoint, and LastLogMark


def write_last_mark(disk: Disk, file_id: int, offset: int) -> None:
    """Durably store the position where replay starts, as two i64 in the file current/lastMark.

    The file must always contain either the complete old mark or the complete new one, so write
    another file and rename it.
    """
    raise NotImplementedError


def read_last_mark(disk: Disk) -> tuple[int, int]:
    """Return the mark.

    Returns (0, 0), which precedes every journal, if the file does not exist, is not 16 bytes long,
    or contains a negative number.
    """
    raise NotImplementedError


def removable_journals(file_ids: list[int], mark_file_id: int, max_backups: int) -> list[int]:
    """Return the ids of the journal files that can be deleted.

    file_ids: the existing files, oldest first
    mark_file_id: the file that LastLogMark points into
    max_backups: how many of the files that replay does not need are kept, newest first
    """
    raise NotImplementedError


class Checkpoint:
    """Writes the memtable to disk, then advances LastLogMark.

    What you can do with `bookie`:

        bookie.synced()                     (file id, offset): how far the journal is durable now
        bookie.set_memtable_aside()         [(ledger id, entry id, entry), ...] in the log's order;
                                            new adds go to an empty memtable; call it in
                                            `__init__`, while no add is processed
        bookie.append(ledger_id, entry)     to the entry log, without sync; returns the location
        bookie.sync_entry_log()
        bookie.set_location(ledger_id, entry_id, location)      in the index, in memory
        bookie.flush_indexes()
        bookie.move_mark(file_id, offset)   persists LastLogMark, with your write_last_mark
        bookie.remove_journals(file_id)     deletes the files that your removable_journals returns
                                            if LastLogMark points into this one
    """

    def __init__(self, bookie: Any) -> None:
        """Start the checkpoint. This must be fast and must not access the disk, because no add is
        processed in the meantime.
        """
        raise NotImplementedError

    def flush(self, bookie: Any) -> None:
        """Perform the checkpoint. This runs in another thread and may take long; adds are still
        acknowledged in the meantime.
        """
        raise NotImplementedError


# Step 7: replay


def replay(bookie: Any, disk: Disk, file_id: int, offset: int) -> tuple[int, int]:
    """Replay the journal from LastLogMark (`file_id`, `offset`) on.

    Returns the id of the last journal file and the offset where its records end, or the mark if
    there are no files. Raises StorageDamagedException if the mark's file id is not 0 and that file
    does not exist, because acknowledged entries have been lost.

    A record's body starts with a ledger id and an entry id, two i64. The entry id determines the
    kind of record:

        0 or more   an entry; the body is its bytes
        -0x1000     the ledger's master key: i32 length, key. This record alone creates nothing;
                    the ledger is recreated by its first record of another kind
        -0x2000     a fence
        -0x8000     an explicit LAC: i32 length, body

    Records of a ledger that has neither an index nor a key record belong to a deleted ledger, so
    skip them. A file starts with its header; the first record is at offset 512.

    What you can do with `bookie`:

        bookie.journal_ids(disk)            the ids of the journal files, oldest first
        bookie.has_ledger(ledger_id)        bookie.create_ledger(ledger_id, master_key)
        bookie.put(ledger_id, entry_id, entry)          in the memtable, unless it is on disk
        bookie.fence(ledger_id)             bookie.set_explicit_lac(ledger_id, body)
    """
    raise NotImplementedError
