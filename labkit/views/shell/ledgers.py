"""The verbs `ledger`, `listledgers` and `readledger` for the files of a stopped bookie.

The index of a ledger locates its entries. After a crash, the journal may contain further entries
after LastLogMark, which replay will write to an entry log.

In BookKeeper: `tools/cli/commands/bookie/LedgerCommand.java`.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter

from labkit.system.model.entry import Digest
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import Disk
from labkit.system.storage.entry_log import log_name
from labkit.system.storage.index.ledger_index import (
    DATA_OFFSET,
    INDEX_SLOT,
    IndexHeader,
    LedgerIndex,
    index_path,
    ledger_ids_on_disk,
)
from labkit.system.storage.journal import FENCE
from labkit.system.storage.other_storages import reject_other_storages
from labkit.views.shell.entry_log import EntryReader
from labkit.views.shell.folders import BookieFolders, ShellError
from labkit.views.shell.journal import explicit_lac_of, records_from_mark, view_entry
from labkit.views.shell.records import (
    Damage,
    EntryLocation,
    LedgerIndexFile,
    LedgerSummary,
    NoLocations,
    Source,
    StoredEntry,
)
from labkit.views.xray.file_spans import index_slots

_PAGE_SIZE = StorageConfig().page_size


def read_index(
    folders: BookieFolders, ledger_id: int
) -> Iterator[LedgerIndexFile | EntryLocation | NoLocations]:
    """Yield the header of a ledger's index, then every slot.

    Raises `ShellError` if the index does not exist, and `StorageDamagedException` if its header is
    damaged.
    """
    directory = find_index(folders, ledger_id)
    if directory is None:
        raise _no_index(folders, ledger_id)
    header = load_header(directory, ledger_id)
    file = directory.open(index_path(ledger_id))
    size = max(file.size() - DATA_OFFSET, 0)
    yield LedgerIndexFile(
        ledger_id,
        directory.path(index_path(ledger_id)),
        header.master_key,
        size,
        size // INDEX_SLOT.size,
        header.fenced,
        explicit_lac_of(header.explicit_lac),
    )
    for first, count, location in index_slots(file):
        if location:
            yield EntryLocation(first, location >> 32, location & 0xFFFFFFFF)
        else:
            yield NoLocations(first, first + count - 1)


def read_ledger(
    folders: BookieFolders,
    ledger_id: int,
    first: int = 0,
    last: int | None = None,
    digest: Digest | None = None,
) -> Iterator[Source | StoredEntry | Damage]:
    """Yield a ledger's entries from `first` to `last` (None: to the end).

    A `Source` precedes the entries of each file, and a `Damage` replaces entries that cannot be
    read. Raises `ShellError` if the bookie has no entries of the ledger.
    """
    file = ""
    for found in _entries(folders, ledger_id, first, last, digest):
        if isinstance(found, StoredEntry) and found.file != file:
            file = found.file
            yield Source(file)
        yield found


def _entries(
    folders: BookieFolders, ledger_id: int, first: int, last: int | None, digest: Digest | None
) -> Iterator[StoredEntry | Damage]:
    directory = find_index(folders, ledger_id)
    replayed = {
        record.entry_id: (name, record)
        for name, record in (records_from_mark(folders) if folders.journals else ())
        if record.ledger_id == ledger_id
    }
    if directory is None and not replayed:
        raise _no_index(folders, ledger_id)
    located = _locations(directory, ledger_id) if directory else iter(())
    only_in_journal = ((entry_id, 0) for entry_id in sorted(replayed) if entry_id >= 0)
    reader = EntryReader(folders)
    for entry_id, group in groupby(merge(located, only_in_journal), key=itemgetter(0)):
        location = max(location for _, location in group)
        if entry_id < first:
            continue
        if last is not None and entry_id > last:
            break
        if location == 0:
            name, record = replayed[entry_id]
            yield view_entry(name, record.offset, ledger_id, entry_id, record.body, digest)
            continue
        try:
            data = reader.read(location, ledger_id, entry_id)
        except StorageDamagedException as error:
            yield Damage(
                index_path(ledger_id), DATA_OFFSET + entry_id * INDEX_SLOT.size, str(error)
            )
            continue
        log, offset = log_name(location >> 32), (location & 0xFFFFFFFF) - 4
        yield view_entry(log, offset, ledger_id, entry_id, data, digest)


def list_ledgers(folders: BookieFolders) -> Iterator[LedgerSummary | Damage]:
    """Yield every ledger that has an index, or records in the journal that will be replayed."""
    in_journal: dict[int, set[int]] = {}
    fenced: set[int] = set()
    for _, record in records_from_mark(folders) if folders.journals else ():
        in_journal.setdefault(record.ledger_id, set())
        if record.entry_id >= 0:
            in_journal[record.ledger_id].add(record.entry_id)
        elif record.entry_id == FENCE:
            fenced.add(record.ledger_id)
    indexes = {i: d for d in index_directories(folders) for i in ledger_ids_on_disk(d)}
    for ledger_id in sorted(in_journal.keys() | indexes.keys()):
        directory = indexes.get(ledger_id)
        replayed = in_journal.get(ledger_id, set())
        try:
            if directory is None:
                yield LedgerSummary(ledger_id, "", ledger_id in fenced, 0, *_count(replayed, -1))
            else:
                yield _summary(directory, ledger_id, ledger_id in fenced, replayed)
        except StorageDamagedException as error:
            yield Damage(index_path(ledger_id), 0, str(error))


def _summary(
    directory: Disk, ledger_id: int, fenced_in_journal: bool, replayed: set[int]
) -> LedgerSummary:
    fenced = fenced_in_journal or load_header(directory, ledger_id).fenced
    entry_count, last = 0, -1
    for last, _ in _locations(directory, ledger_id):
        entry_count += 1
        replayed.discard(last)
    file = directory.path(index_path(ledger_id))
    return LedgerSummary(ledger_id, file, fenced, entry_count, *_count(replayed, last))


def _count(replayed: set[int], last_located: int) -> tuple[int, int]:
    return len(replayed), max(last_located, *replayed, -1)


def find_index(folders: BookieFolders, ledger_id: int) -> Disk | None:
    """Return the directory that contains the ledger's index, or None.

    Raises the same errors as `index_directories`.
    """
    path = index_path(ledger_id)
    return next((d for d in index_directories(folders) if d.exists(path)), None)


def index_directories(folders: BookieFolders) -> Sequence[Disk]:
    """Return the directories that contain indexes.

    Raises `OtherStorageException` if the directories belong to a different kind of ledger storage,
    because the shell would otherwise report its ledgers as missing.
    """
    reject_other_storages(folders.indexes)
    return folders.indexes


def load_header(directory: Disk, ledger_id: int) -> IndexHeader:
    index = LedgerIndex.load(ledger_id, directory, _PAGE_SIZE)
    index.close()
    return index.header


def _locations(directory: Disk, ledger_id: int) -> Iterator[tuple[int, int]]:
    file = directory.open(index_path(ledger_id))
    for entry_id, _, location in index_slots(file):
        if location:
            yield entry_id, location
    file.close()


def _no_index(folders: BookieFolders, ledger_id: int) -> ShellError:
    if not folders.indexes:
        return ShellError("no directory with indexes was given: use --data, --ledgers or --index")
    names = ", ".join(directory.path("") for directory in folders.indexes)
    return ShellError(
        f"this bookie has no entries of ledger {ledger_id} (read as decimal):"
        f" {index_path(ledger_id)} does not exist in {names}"
    )
