"""The journal: the write-ahead log that makes entries durable.

A journal file is named `<hex id>.txn`. It starts with a 512-byte header, followed by records. Each
group of records is padded to a multiple of the alignment, and the space after the last record is
preallocated with zeros. A record consists of an i32 length and a body that starts with a ledger id
and an entry id. A negative entry id marks a special record (master key, fence, explicit LAC).
Records have no checksum; `journal_scan` explains the consequences for a torn tail.

`append` buffers records, and `seal` combines the buffered records into a group. `write_and_sync`
writes the group to disk and syncs it, possibly in another thread, and `note_synced` then advances
`synced`. For adds with deferred sync, `bookie.commit.GroupCommit` calls the two halves of
`write_and_sync` separately: `write_unsynced` and, once a sync is requested, `sync`.

In BookKeeper: `bookie/Journal.java`, `bookie/JournalChannel.java`.
"""

import struct
from dataclasses import dataclass

from labkit.system.model.layout import Field, Layout
from labkit.system.model.length_prefixed import LENGTH_SIZE, join_with_lengths_in_parts
from labkit.system.storage.config import MIB, StorageConfig
from labkit.system.storage.disk import Disk, File, ids_in
from labkit.system.storage.log_mark import START, LogMark

JOURNAL_HEADER = Layout(
    "journal header",
    Field("magic", "4s", "BKLG"),
    Field("version", "i", "6: can contain explicit-LAC records"),
    Field("padding", "504x", "zeros up to the first record"),
)

RECORD_HEADER = Layout(
    "journal record",
    Field("length", "i", "number of bytes that follow"),
    Field("ledger id", "q", "the ledger"),
    Field("entry id", "q", "0 or more: an entry; negative: a special record"),
)

CONTENT_LENGTH = Layout(
    "content of a ledger key or explicit LAC record",
    Field("length", "i", "number of bytes that follow"),
)

PADDING_HEADER = Layout(
    "journal padding",
    Field("mask", "i", "-0x100: this is padding"),
    Field("zero count", "i", "number of zeros that follow"),
)

MAGIC = b"BKLG"
VERSION = 6
PADDED_SINCE = 5
"""The first version whose header fills 512 bytes and whose groups are padded."""
EXPLICIT_LAC_SINCE = 6
"""The first version with explicit-LAC records."""
PADDING_MASK = -0x100

LEDGER_KEY = -0x1000
"""Entry id of a record with a master key: i32 length, key."""
FENCE = -0x2000
"""Entry id of a record that fences a ledger; it has no further content."""
EXPLICIT_LAC = -0x8000
"""Entry id of a record with an explicit LAC: i32 length, body."""

_PART_SIZE = MIB
"""The approximate size of one write."""

_IDS = struct.Struct(">qq")


def ledger_key_record(ledger_id: int, master_key: bytes) -> bytes:
    """Return the body of a record that contains a master key. Each process writes this record
    before any other record of the ledger.
    """
    return _IDS.pack(ledger_id, LEDGER_KEY) + _with_length(master_key)


def fence_record(ledger_id: int) -> bytes:
    return _IDS.pack(ledger_id, FENCE)


def explicit_lac_record(ledger_id: int, lac_body: bytes) -> bytes:
    return _IDS.pack(ledger_id, EXPLICIT_LAC) + _with_length(lac_body)


def _with_length(body: bytes) -> bytes:
    return CONTENT_LENGTH.struct.pack(len(body)) + body


def padding(offset: int, alignment: int) -> bytes:
    """Return the padding up to the next multiple of `alignment`. If the padding's header does not
    fit before that multiple, pad up to the following one.
    """
    left = -offset % alignment
    if left == 0:
        return b""
    zero_count = left - PADDING_HEADER.size
    if zero_count < 0:
        zero_count += alignment
    return PADDING_HEADER.struct.pack(PADDING_MASK, zero_count) + bytes(zero_count)


@dataclass(frozen=True, slots=True)
class JournalGroup:
    """Records from `offset` to `end`, which are written together and synced together.

    If `ends_file` is set, this group must be synced before the next group starts a new file.
    """

    file_id: int
    offset: int
    records: list[bytes]
    padding: bytes
    end: LogMark
    ends_file: bool


class Journal:
    """Writes the files in one journal directory.

    Invariants: records become durable in the order in which they are appended; `synced` never moves
    backwards; a group never spans two files.
    """

    def __init__(
        self, disk: Disk, config: StorageConfig, first_file_id: int, synced: LogMark = START
    ) -> None:
        """Create a new file. Its id is one more than the largest existing id, or `first_file_id` if
        there are no files yet.

        `synced` is the position at which the records in the existing files end.
        """
        self.synced = synced
        self.version = config.journal_format_version_to_write
        self.disk = disk
        self._alignment = config.journal_alignment_size
        self._max_size = config.journal_max_size_mb * MIB
        self._pre_alloc = config.journal_pre_alloc_size_mb * MIB
        # Preallocation writes the last block, which must start at a multiple of the alignment.
        self._pre_alloc -= self._pre_alloc % self._alignment
        self.max_backups = config.journal_max_backups
        # Never append to an existing file, because its tail may be torn.
        existing = journal_ids(disk)
        self._file_id = existing[-1] + 1 if existing else first_file_id
        self._header_size = header_size(self.version)
        self._offset = self._header_size
        self._records: list[bytes] = []
        self._group_offset = self._offset
        self._open_file(self._file_id)

    def append(self, *records: bytes) -> LogMark:
        """Buffer consecutive records; return the position of the first one."""
        mark = LogMark(self._file_id, self._offset)
        self._records += records
        self._offset += sum(map(len, records)) + LENGTH_SIZE * len(records)
        return mark

    @property
    def group_bytes(self) -> int:
        """The size of the records that have been appended since the last `seal`."""
        return self._offset - self._group_offset

    @property
    def group_records(self) -> int:
        return len(self._records)

    def seal(self) -> JournalGroup | None:
        """Combine all buffered records, if there are any, into a group. The next group may start a
        new file.
        """
        if not self._records:
            return None
        group_padding = b""
        # Fill the last block. Otherwise, the next group would rewrite a block that contains durable
        # records.
        if self.version >= PADDED_SINCE:
            group_padding = padding(self._offset, self._alignment)
            self._offset += len(group_padding)
        end = LogMark(self._file_id, self._offset)
        ends_file = end.offset > self._max_size
        group = JournalGroup(
            self._file_id, self._group_offset, self._records, group_padding, end, ends_file
        )
        if ends_file:
            self._file_id += 1
            self._offset = self._header_size
        self._records = []
        self._group_offset = self._offset
        return group

    def write_and_sync(self, group: JournalGroup) -> None:
        """Write and sync a group. Groups must be written in the order in which they were sealed.

        After `OSError`, the contents of the disk are unknown, so the caller must not write or
        acknowledge anything else.
        """
        self.write_unsynced(group)
        self.sync()

    def write_unsynced(self, group: JournalGroup) -> None:
        """Write a group without syncing it. The group then survives if the process is killed, but
        not if the power fails. Raises `OSError`, like `write_and_sync`.
        """
        if group.file_id != self._written_file_id:
            self._file.close()
            self._open_file(group.file_id)
        if group.end.offset > self._allocated:
            # Preallocate, so that most syncs do not have to update the file size.
            while group.end.offset > self._allocated:
                self._allocated += self._pre_alloc
            self._file.write(self._allocated - self._alignment, bytes(self._alignment))
        offset = group.offset
        # Write in parts, because joining the whole group would double its memory use.
        for part in join_with_lengths_in_parts(group.records, _PART_SIZE):
            is_last = group.end.offset == offset + len(part) + len(group.padding)
            self._file.write(offset, part + group.padding if is_last else part)
            offset += len(part)

    def sync(self) -> None:
        """Sync the records that have been written. Raises `OSError`, like `write_and_sync`."""
        self._file.sync()

    def note_synced(self, group: JournalGroup) -> None:
        self.synced = group.end

    def commit(self) -> None:
        """Write and sync everything that has been appended so far, in the calling thread.

        A bookie that serves requests uses `bookie.commit.GroupCommit` instead.
        """
        group = self.seal()
        if group is not None:
            self.write_and_sync(group)
            self.note_synced(group)

    def trim(self, mark: LogMark) -> None:
        """Delete the files before the one that contains `mark`, except the newest
        `journal_max_backups` of them.

        In BookKeeper: `Journal.checkpointComplete`, `journalMaxBackups`.
        """
        old = [file_id for file_id in journal_ids(self.disk) if file_id < mark.file_id]
        # Keep the newest files, in case someone has to examine a damaged bookie.
        for file_id in old[: max(0, len(old) - self.max_backups)]:
            self.disk.remove(_path(file_id))

    def close(self) -> None:
        """Close the file. Records that have not been committed are lost."""
        self._file.close()

    def _open_file(self, file_id: int) -> None:
        file: File = self.disk.create(_path(file_id))
        file.write(0, JOURNAL_HEADER.struct.pack(MAGIC, self.version)[: self._header_size])
        self._allocated = self._pre_alloc
        file.write(self._allocated - self._alignment, bytes(self._alignment))
        # Without this, the file's name might not survive a power failure.
        file.sync()
        self.disk.sync_folder("current")
        self._file = file
        self._written_file_id = file_id


def header_size(version: int) -> int:
    if version >= PADDED_SINCE:
        return JOURNAL_HEADER.size
    return 0 if version == 1 else 8


def journal_ids(disk: Disk) -> list[int]:
    """Return the ids of the journal files, oldest first."""
    return ids_in(disk, "current", ".txn")


def _path(file_id: int) -> str:
    return f"current/{LogMark(file_id, 0).file_name}"
