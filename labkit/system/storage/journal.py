"""The journal: the write-ahead log that makes an entry durable.

A file is `<hex id>.txn`: a 512-byte header, then records, padded with zeros to a multiple of the
alignment before every write, then preallocated zeros.  A record is its length (i32) and a body that
begins with ledger id and entry id; a negative entry id marks any other record.  Records
carry no checksum, so a torn tail and the preallocated zeros end a file in the same way.

`Journal` writes: `append` only buffers, `seal` closes the group, `write` puts the group on disk and
syncs it, `mark_synced` notes that this is done.  `write` may run in another thread meanwhile.  Adds
with deferred sync take its two steps apart: `put`, and `sync` when it is asked for.

In BookKeeper: `bookie/Journal.java`, `bookie/JournalChannel.java`.
"""

import struct
from dataclasses import dataclass

from labkit.system.model.layout import Field, Layout
from labkit.system.model.length_prefixed import LENGTH_SIZE, join_in_parts
from labkit.system.storage.config import MIB, StorageConfig
from labkit.system.storage.disk import Disk, File, ids_in
from labkit.system.storage.log_mark import START, LogMark

JOURNAL_HEADER = Layout(
    "journal header",
    Field("magic", "4s", "BKLG"),
    Field("version", "i", "6: with explicit-LAC records"),
    Field("padding", "504x", "zeros up to the first record"),
)

RECORD_HEADER = Layout(
    "journal record",
    Field("length", "i", "bytes that follow"),
    Field("ledger id", "q", "the ledger"),
    Field("entry id", "q", "0 or more: an entry; negative: a special record"),
)

RECORD_BODY = Layout(
    "body of a ledger key or explicit LAC record",
    Field("length", "i", "bytes that follow"),
)

PADDING_HEADER = Layout(
    "journal padding",
    Field("mask", "i", "-0x100: what follows is padding"),
    Field("zero count", "i", "zero bytes that follow"),
)

MAGIC = b"BKLG"
VERSION = 6
PADDED_SINCE = 5
"""From this version on the header fills 512 bytes and groups are padded."""
EXPLICIT_LAC_SINCE = 6
"""From this version on there are explicit-LAC records."""
PADDING_MASK = -0x100

LEDGER_KEY = -0x1000
"""Entry id of the record that holds a ledger's master key: i32 length, key."""
FENCE = -0x2000
"""Entry id of the record that fences a ledger: nothing follows."""
EXPLICIT_LAC = -0x8000
"""Entry id of the record that holds an explicit LAC: i32 length, body."""

_PART_SIZE = MIB
"""Bytes of a group that are written by one call, about."""

_IDS = struct.Struct(">qq")


def ledger_key_record(ledger_id: int, master_key: bytes) -> bytes:
    """Body of the record that goes before a ledger's first entry in each process life."""
    return _IDS.pack(ledger_id, LEDGER_KEY) + _with_length(master_key)


def fence_record(ledger_id: int) -> bytes:
    """Body of the record that fences the ledger."""
    return _IDS.pack(ledger_id, FENCE)


def explicit_lac_record(ledger_id: int, lac_body: bytes) -> bytes:
    """Body of the record that keeps an explicit LAC."""
    return _IDS.pack(ledger_id, EXPLICIT_LAC) + _with_length(lac_body)


def _with_length(body: bytes) -> bytes:
    return RECORD_BODY.struct.pack(len(body)) + body


def padding(offset: int, alignment: int) -> bytes:
    """The padding at `offset` after which the file goes on at a multiple of `alignment`.

    A padding record has at least 8 bytes; with fewer left it spills into the next block.
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
    """Records that one write and one sync make durable, and the padding behind them, from `offset`
    to `end`.  The group that `ends_file` must be synced before the next one is put.
    """

    file_id: int
    offset: int
    records: list[bytes]
    padding: bytes
    end: LogMark
    ends_file: bool


class Journal:
    """The journal of one directory, as its only writer.

    Invariants: records are durable in the order of `append`; `synced` never moves back; a group
    lies wholly in one file.
    """

    def __init__(
        self, disk: Disk, config: StorageConfig, first_file_id: int, synced: LogMark = START
    ) -> None:
        """Start a new file: `first_file_id`, or the one after the largest that exists.

        `synced` is where the records of earlier files end.
        """
        self.synced = synced
        self.version = config.journal_format_version_to_write
        self._disk = disk
        self._alignment = config.journal_alignment_size
        self._max_size = config.journal_max_size_mb * MIB
        self._pre_alloc = config.journal_pre_alloc_size_mb * MIB
        # The last block of a preallocation is written whole, so it must begin on the alignment.
        self._pre_alloc -= self._pre_alloc % self._alignment
        self._max_backups = config.journal_max_backups
        # Always a new file: an earlier process may have left the last one with a torn tail.
        existing = journal_ids(disk)
        self._file_id = existing[-1] + 1 if existing else first_file_id
        self._header_size = header_size(self.version)
        self._offset = self._header_size
        self._records: list[bytes] = []
        self._group_offset = self._offset
        self._open_file(self._file_id)

    def append(self, *records: bytes) -> LogMark:
        """Buffer records; returns where the first will lie, and the others follow it directly.
        Durable once their group is written.
        """
        mark = LogMark(self._file_id, self._offset)
        self._records += records
        self._offset += sum(map(len, records)) + LENGTH_SIZE * len(records)
        return mark

    @property
    def group_bytes(self) -> int:
        """Bytes of the records in the group that is not sealed yet."""
        return self._offset - self._group_offset

    @property
    def group_records(self) -> int:
        """Records in the group that is not sealed yet."""
        return len(self._records)

    def seal(self) -> JournalGroup | None:
        """Close the group of all records buffered so far; None if there are none.

        The records that follow go into the next group, in a new file once this one is full.
        """
        if not self._records:
            return None
        pad = b""
        # To whole blocks: the next group must not rewrite one that holds durable records.
        if self.version >= PADDED_SINCE:
            pad = padding(self._offset, self._alignment)
            self._offset += len(pad)
        end = LogMark(self._file_id, self._offset)
        ends_file = end.offset > self._max_size
        group = JournalGroup(self._file_id, self._group_offset, self._records, pad, end, ends_file)
        if ends_file:
            self._file_id += 1
            self._offset = self._header_size
        self._records = []
        self._group_offset = self._offset
        return group

    def write(self, group: JournalGroup) -> None:
        """Put a group on disk; durable on return.  Groups must come in the order of `seal`.

        Raises `OSError`; nothing may be written or acknowledged after that.
        """
        self.put(group)
        self.sync()

    def put(self, group: JournalGroup) -> None:
        """Hand a group to the operating system: it survives this process, but no power cut before
        `sync`.  Raises `OSError`, as `write`.
        """
        if group.file_id != self._written_file_id:
            self._file.close()
            self._open_file(group.file_id)
        if group.end.offset > self._allocated:
            # Ahead of the records: a sync of a group then need not write the file's length.
            while group.end.offset > self._allocated:
                self._allocated += self._pre_alloc
            self._file.write(self._allocated - self._alignment, bytes(self._alignment))
        offset = group.offset
        # A whole group, joined, would take its memory a second time.
        for part in join_in_parts(group.records, _PART_SIZE):
            is_last = group.end.offset == offset + len(part) + len(group.padding)
            self._file.write(offset, part + group.padding if is_last else part)
            offset += len(part)

    def sync(self) -> None:
        """Make durable what was put.  Raises `OSError`, as `write`."""
        self._file.sync()

    def mark_synced(self, group: JournalGroup) -> None:
        """All records up to the group's end are durable."""
        self.synced = group.end

    def commit(self) -> None:
        """Make everything buffered durable, here and now."""
        group = self.seal()
        if group is not None:
            self.write(group)
            self.mark_synced(group)

    def trim(self, mark: LogMark) -> None:
        """Remove journals that replay from `mark` does not need, except the newest backups.

        In BookKeeper: `Journal.checkpointComplete`, `journalMaxBackups`.
        """
        old = [file_id for file_id in journal_ids(self._disk) if file_id < mark.file_id]
        # Backups are never replayed; they are for a person who looks into a damaged bookie.
        for file_id in old[: max(0, len(old) - self._max_backups)]:
            self._disk.remove(_path(file_id))

    def close(self) -> None:
        """Close the file.  Records that were not committed are lost."""
        self._file.close()

    def _open_file(self, file_id: int) -> None:
        file: File = self._disk.create(_path(file_id))
        file.write(0, JOURNAL_HEADER.struct.pack(MAGIC, self.version)[: self._header_size])
        self._allocated = self._pre_alloc
        file.write(self._allocated - self._alignment, bytes(self._alignment))
        # The name, too: a power cut must not take a file with acknowledged records.
        file.sync()
        self._disk.sync_folder("current")
        self._file = file
        self._written_file_id = file_id


def header_size(version: int) -> int:
    """Where the first record of a file of this version lies."""
    if version >= PADDED_SINCE:
        return JOURNAL_HEADER.size
    return 0 if version == 1 else 8


def journal_ids(disk: Disk) -> list[int]:
    """Ids of the journal files in a journal directory, oldest first."""
    return ids_in(disk, "current", ".txn")


def _path(file_id: int) -> str:
    return f"current/{LogMark(file_id, 0).file_name}"
