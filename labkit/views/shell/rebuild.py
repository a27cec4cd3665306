"""The verb `rebuildindex`: rebuilds a ledger's index from the entry logs and the journals.

If an entry has several copies, the newest one is used. The master key, the fence and the explicit
LAC are read from the journals, and from the old index if its header is readable. If the header is
lost, the ledger is fenced, because the lost header may have contained a fence, and a writer that
recovery has fenced must not resume. The new header has the version of the old one or, if that is
lost, the version that a bookie with this journal version writes.

In BookKeeper: `bookie/InterleavedStorageRegenerateIndexOp.java`.
"""

from collections.abc import Iterator

from labkit.system.model.entry import MAX_ENTRY_ID, Digest
from labkit.system.model.errors import StorageDamagedException
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import Disk
from labkit.system.storage.entry_log import location_of, log_ids, scan_entry_log
from labkit.system.storage.index.ledger_index import IndexHeader, LedgerIndex, index_path
from labkit.system.storage.journal import EXPLICIT_LAC_SINCE, journal_ids
from labkit.system.storage.journal_scan import JournalScan
from labkit.views.shell.folders import BookieFolders, ShellError
from labkit.views.shell.journal import (
    all_records,
    digest_matches,
    explicit_lac_of,
    records_from_mark,
    view_record,
)
from labkit.views.shell.ledgers import find_index, load_header
from labkit.views.shell.records import (
    EntryLocation,
    ExplicitLacRecord,
    FenceRecord,
    LedgerKeyRecord,
    RebuiltIndex,
)
from labkit.views.xray.file_spans import index_slots


def rebuild_index(
    folders: BookieFolders,
    ledger_id: int,
    master_key: bytes | None = None,
    digest: Digest | None = None,
) -> RebuiltIndex:
    """Return the index that the ledger should have, without writing it.

    If `digest` is given, a copy with a wrong digest is used only if the entry has no other copy.
    Raises `ShellError` if the logs contain no entries of the ledger, or if its master key is not
    found.
    """
    directory = find_index(folders, ledger_id)
    old = _readable_header(directory, ledger_id)
    valid, invalid = _entries_in_logs(folders, ledger_id, digest)
    if not valid and not invalid:
        raise ShellError(
            f"the entry logs contain no entries of ledger {ledger_id}; if the journal does, the"
            " bookie will replay them on its next start"
        )
    before = _old_locations(directory, ledger_id) if old is not None else {}
    locations = sorted((before | invalid | valid).items())
    journal = _JournalFacts(folders, ledger_id)
    fenced, reason = _fence(old, journal)
    home = directory or folders.indexes[0]
    return RebuiltIndex(
        ledger_id,
        home.path(""),
        home.path(index_path(ledger_id)),
        old.version if old is not None else _version_from_journals(folders),
        master_key or _master_key(ledger_id, old, journal),
        fenced,
        reason,
        _newest_lac(old, journal),
        tuple(EntryLocation(e, at >> 32, at & 0xFFFFFFFF) for e, at in locations),
        tuple(sorted((before.keys() | invalid.keys()) - valid.keys())),
        len(_entries_to_replay(folders, ledger_id) - valid.keys()),
    )


def write_index(disk: Disk, rebuilt: RebuiltIndex) -> None:
    """Atomically replace the old index with the rebuilt one.

    No bookie may be using the directory.
    """
    header = IndexHeader(rebuilt.master_key, rebuilt.fenced, rebuilt.explicit_lac, rebuilt.version)
    index = LedgerIndex(rebuilt.ledger_id, header, disk, StorageConfig().page_size)
    for entry in rebuilt.locations:
        index.set_locations([entry.entry_id], [location_of(entry.log_id, entry.offset)])
    index.flush()
    index.close()


class _JournalFacts:
    """A ledger's master keys, fence and explicit LAC, as recorded in the existing journals."""

    def __init__(self, folders: BookieFolders, ledger_id: int) -> None:
        self.keys: set[bytes] = set()
        self.fenced_in = ""
        self.explicit_lac = b""
        for name, record in all_records(folders):
            if record.ledger_id != ledger_id or record.entry_id >= 0:
                continue
            view = view_record(record, name, None)
            if isinstance(view, LedgerKeyRecord):
                self.keys.add(view.master_key)
            elif isinstance(view, FenceRecord):
                self.fenced_in = name
            elif isinstance(view, ExplicitLacRecord):
                self.explicit_lac = view.body


def _readable_header(directory: Disk | None, ledger_id: int) -> IndexHeader | None:
    if directory is None:
        return None
    try:
        return load_header(directory, ledger_id)
    except StorageDamagedException:
        # This verb is meant for damaged indexes, so it can use journals and the password instead of
        # the header.
        return None


def _version_from_journals(folders: BookieFolders) -> int:
    """Return the version that the bookie writes to new indexes, inferred from its journals.

    Explicit LACs were added to journals and indexes at the same time.
    """
    for directory in folders.journals:
        for journal_id in journal_ids(directory)[-1:]:
            return int(JournalScan(directory, journal_id).version >= EXPLICIT_LAC_SINCE)
    return StorageConfig().file_info_format_version_to_write


def _entries_in_logs(
    folders: BookieFolders, ledger_id: int, digest: Digest | None
) -> tuple[dict[int, int], dict[int, int]]:
    """Return two dictionaries of locations, keyed by entry id: one for good copies, and one for
    copies with a wrong digest.

    If an entry has several copies of one kind, the newest one is used. Without `digest`, all copies
    are considered good.
    """
    valid: dict[int, int] = {}
    invalid: dict[int, int] = {}
    for log_id, disk in _logs(folders):
        for offset, found_ledger, entry_id, data in scan_entry_log(disk, log_id):
            if found_ledger != ledger_id or not 0 <= entry_id <= MAX_ENTRY_ID:
                continue
            matches = digest is None or digest_matches(data, digest, ledger_id, entry_id)
            found = valid if matches else invalid
            found[entry_id] = location_of(log_id, offset + LENGTH_SIZE)
    return valid, invalid


def _logs(folders: BookieFolders) -> Iterator[tuple[int, Disk]]:
    logs = [(log_id, d) for d in folders.ledgers for log_id in log_ids(d)]
    yield from sorted(logs, key=lambda log: log[0])


def _old_locations(directory: Disk | None, ledger_id: int) -> dict[int, int]:
    assert directory is not None
    slots = index_slots(directory.open(index_path(ledger_id)))
    return {entry_id: location for entry_id, _, location in slots if location}


def _entries_to_replay(folders: BookieFolders, ledger_id: int) -> set[int]:
    if not folders.journals:
        return set()
    records = (record for _, record in records_from_mark(folders))
    return {r.entry_id for r in records if r.ledger_id == ledger_id and r.entry_id >= 0}


def _master_key(ledger_id: int, old: IndexHeader | None, journal: _JournalFacts) -> bytes:
    keys = journal.keys | ({old.master_key} if old is not None else set())
    if len(keys) == 1:
        return keys.pop()
    found = "no master key" if not keys else "different master keys"
    raise ShellError(
        f"the old index and the journals contain {found} for ledger {ledger_id}; give the ledger's"
        " password with --password"
    )


def _fence(old: IndexHeader | None, journal: _JournalFacts) -> tuple[bool, str]:
    if journal.fenced_in:
        return True, f"a fence record in {journal.fenced_in}"
    if old is None:
        return True, "the header of the old index is lost, and it may have contained a fence"
    return old.fenced, "as in the old index"


def _newest_lac(old: IndexHeader | None, journal: _JournalFacts) -> bytes:
    bodies = [journal.explicit_lac, old.explicit_lac if old is not None else b""]
    return max(bodies, key=lambda body: -1 if (lac := explicit_lac_of(body)) is None else lac)
