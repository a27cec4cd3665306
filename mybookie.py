"""Your bookie.

Each class below is a step of the track "build a bookie".  The check is

    from labkit.course.workshop import check
    check("bookie", 1)                      in a notebook
    labkit workshop bookie 1                in a terminal

Write a step where it raises NotImplementedError, and leave the names and arguments as they are.
What you have not written yet is labkit's own.  All formats are Apache BookKeeper's, so that at the
end its own tools read your files.  Numbers in files are big-endian.

What `disk` and the `file` that it gives can do:

    disk.create(path)                       a new empty file        disk.open(path)
    disk.exists(path)                       disk.files(folder, suffix)      names, sorted
    disk.rename(old, new)                   disk.remove(path)
    disk.sync_folder(folder)                makes new, renamed and removed names durable
    file.write(offset, data)                file.read(offset, size)         file.size()
    file.sync()                             makes everything written to the file durable
"""

from typing import Any

from labkit.system.storage.disk import Disk, File

# Step 1: the journal


class Journal:
    """One file of the journal, current/<file id in hex>.txn, as its only writer.

    The file:   header   512 bytes: b"BKLG", i32 6, zeros
                groups   each begins at a multiple of 512
    A group:    records  each an i32 (how many bytes follow) and its body
                padding  i32 -0x100, i32 (how many zeros follow), zeros up to a multiple of 512;
                         none if the file is there already.  With fewer than 8 bytes left, the
                         zeros go on to the end of the next block

    While one group is being written, in another thread, records of the next one are appended.
    """

    def __init__(self, disk: Disk, file_id: int) -> None:
        """Make the file with its header: contents and name (folder "current") are durable."""
        raise NotImplementedError

    def append(self, body: bytes) -> int:
        """Add a record to the open group; returns the offset at which it will lie in the file.

        Takes no time: it touches no disk.
        """
        raise NotImplementedError

    def seal(self) -> tuple[int, bytes] | None:
        """Close the open group and begin the next one behind it.

        Returns the group's offset in the file and all its bytes, padding included; None if it has
        no records.
        """
        raise NotImplementedError

    def write(self, offset: int, data: bytes) -> None:
        """Put a sealed group on disk: one write and one sync.  Durable on return, and only then are
        its adds answered.
        """
        raise NotImplementedError


# Step 2: the memtable


class Memtable:
    """Entries in memory, from their add to the flush that brings them to the entry log."""

    def __init__(self) -> None:
        raise NotImplementedError

    def put(self, ledger_id: int, entry_id: int, data: bytes) -> None:
        """Keep an entry.  If it is here already, its first bytes stay and these are dropped."""
        raise NotImplementedError

    def get(self, ledger_id: int, entry_id: int) -> bytes | None:
        """The entry's bytes; None if it is not here."""
        raise NotImplementedError

    def last_entry_id(self, ledger_id: int) -> int:
        """The ledger's highest entry id; -1 if it has none here.  Asked often: do not search."""
        raise NotImplementedError

    def size_bytes(self) -> int:
        """The bytes of all entries that are kept."""
        raise NotImplementedError

    def entries(self) -> list[tuple[int, int, bytes]]:
        """(ledger id, entry id, bytes) of all entries: by ledger, and in a ledger by entry."""
        raise NotImplementedError


# Step 3: the entry log


class EntryLog:
    """An entry log that is being written.  Its file exists, and is empty.

    The file:   header    1024 bytes: b"BKLO", i32 1, zeros
                entries   each an i32 (how many bytes follow) and its bytes
    """

    def __init__(self, file: File) -> None:
        """Begin; this touches no disk."""
        raise NotImplementedError

    def append(self, entry: bytes) -> int:
        """Take an entry, in memory.  Returns the offset at which its bytes will begin: behind its
        length.
        """
        raise NotImplementedError

    def size(self) -> int:
        """Where the next entry's length will lie."""
        raise NotImplementedError

    def sync(self) -> None:
        """Make durable what was appended: one write of all that is new, and one sync."""
        raise NotImplementedError


def read_entry(file: File, offset: int, ledger_id: int, entry_id: int) -> bytes | None:
    """The entry whose bytes begin at `offset`.

    None if it is not there whole, or is another one: an entry's first 16 bytes are its ledger id
    and its entry id, two i64.  A damaged length must not make this read a whole disk.
    """
    raise NotImplementedError


# Step 4: the index


class Index:
    """What a bookie knows of one ledger: key, fence, explicit LAC, where each entry lies.

    The file at `path`:   header    1024 bytes: b"BKLE", i32 1,
                                    i32 length of the master key, the key,
                                    i32 state (1: fenced, 0: not),
                                    i32 length of the explicit LAC, the LAC, zeros
                          slots     an i64 for each entry id: its location, 0 if it is not here;
                                    up to a multiple of 8192 bytes, as BookKeeper's shell passes
                                    over a page that is not whole

    `master_key` (bytes), `fenced` (bool) and `explicit_lac` (bytes, b"" if there is none) are
    attributes; the bookie sets the last two.
    """

    def __init__(self, disk: Disk, path: str, master_key: bytes) -> None:
        """A new ledger.  Nothing of it is on disk before the first `flush`."""
        raise NotImplementedError

    @classmethod
    def load(cls, disk: Disk, path: str) -> "Index":
        """The ledger of a file that exists.  Raises ValueError for a header that makes no sense.

        A slot that the end of the file cuts was never synced: it counts as 0.
        """
        raise NotImplementedError

    def set_location(self, entry_id: int, location: int) -> None:
        """Note where an entry lies, in memory."""
        raise NotImplementedError

    def location(self, entry_id: int) -> int:
        """Where the entry lies; 0 if it is not here."""
        raise NotImplementedError

    def locations(self) -> list[tuple[int, int]]:
        """(entry id, location) of every entry that is here, ascending."""
        raise NotImplementedError

    def flush(self) -> None:
        """Make everything durable: contents, the name, and the names of the folders above it.

        A ledger has a whole header or no file: the first file of a ledger is written and synced as
        `path` + ".new", and then renamed.  Later only what has changed is written.  If nothing has
        changed nothing is done; but the first flush after `load` syncs file and folders all the
        same, as the process before may have been killed between its write and its sync.
        """
        raise NotImplementedError


# Step 5: the checkpoint, and LastLogMark


def write_last_mark(disk: Disk, file_id: int, offset: int) -> None:
    """Make durable, in the file current/lastMark, where replay will start: two i64.

    At every moment there is the old mark or the new one, whole: write aside, then rename.
    """
    raise NotImplementedError


def read_last_mark(disk: Disk) -> tuple[int, int]:
    """The mark; (0, 0), which is before every journal, if there is none, if its file has not 16
    bytes, or if a number in it is negative.
    """
    raise NotImplementedError


class Checkpoint:
    """Brings the memtable to disk, then moves LastLogMark.

    What `bookie` can do:

        bookie.synced()                     (file id, offset): how far the journal is durable now
        bookie.set_memtable_aside()         [(ledger id, entry id, entry), ...] in the log's order;
                                            adds go on into an empty memtable
        bookie.append(ledger_id, entry)     into the entry log, not synced; returns its location
        bookie.sync_entry_log()
        bookie.set_location(ledger_id, entry_id, location)      into the index, in memory
        bookie.flush_indexes()
        bookie.move_mark(file_id, offset)   persists LastLogMark, with your write_last_mark
        bookie.remove_journals(file_id)     those before that file: replay never reads them again
    """

    def __init__(self, bookie: Any) -> None:
        """Begin.  Quick, without a disk: no add comes in between."""
        raise NotImplementedError

    def flush(self, bookie: Any) -> None:
        """Do the work.  It takes long, in another thread: adds go on and are acknowledged."""
        raise NotImplementedError


# Step 6: replay


def records(data: bytes, start: int) -> list[tuple[int, bytes]]:
    """The records of a journal file's bytes from the offset `start` on, as (offset, body).

    A length of 0 ends the file, and so does a record that is not there whole: a torn tail.  -0x100
    is padding.
    """
    raise NotImplementedError


def replay(bookie: Any, disk: Disk, file_id: int, offset: int) -> tuple[int, int]:
    """Do again what the journal has from LastLogMark (`file_id`, `offset`) on.

    Returns the id of the last journal file and where its records end; without any file, the mark.
    Raises StorageDamagedException if there should be a file of the mark's id (0 is none) and it is
    missing: without it acknowledged entries are gone.

    A record's body begins with a ledger id and an entry id, two i64.  The entry id says what it is:

        0 or more   an entry; the body is its bytes
        -0x1000     the ledger's master key: i32 length, key.  By itself it creates nothing: the
                    ledger is made again by its first other record
        -0x2000     a fence
        -0x8000     an explicit LAC: i32 length, body

    Records of a ledger that has neither an index nor a key record belong to a deleted one: they are
    passed over.  A file begins with its header; its first record lies at 512.

    What `bookie` can do:

        bookie.journal_ids(disk)            the ids of the journal files, oldest first
        bookie.has_ledger(ledger_id)        bookie.create_ledger(ledger_id, master_key)
        bookie.put(ledger_id, entry_id, entry)          into the memtable, unless it is on disk
        bookie.fence(ledger_id)             bookie.set_explicit_lac(ledger_id, body)
    """
    raise NotImplementedError
