"""The verb `localconsistencycheck`: checks that each location in an index refers to a complete
entry.

In BookKeeper: `InterleavedLedgerStorage.localConsistencyCheck`.
"""

from labkit.system.model.entry import Digest
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.disk import Disk
from labkit.system.storage.entry_log import log_name
from labkit.system.storage.index.ledger_index import index_path, ledger_ids_on_disk
from labkit.views.shell.entry_log import EntryReader
from labkit.views.shell.folders import BookieFolders
from labkit.views.shell.journal import digest_matches
from labkit.views.shell.ledgers import index_directories, load_header
from labkit.views.shell.records import ConsistencyReport
from labkit.views.xray.file_spans import index_slots


def check_consistency(folders: BookieFolders, digest: Digest | None = None) -> ConsistencyReport:
    """Read every entry that an index refers to, and check its digest if `digest` is given.

    Raises the same errors as `index_directories`.
    """
    reader = EntryReader(folders)
    ledger_count = entry_count = 0
    errors: list[str] = []
    for directory in index_directories(folders):
        for ledger_id in ledger_ids_on_disk(directory):
            ledger_count += 1
            try:
                load_header(directory, ledger_id)
            except StorageDamagedException as error:
                errors.append(str(error))
                continue
            entry_count += _check_ledger(directory, ledger_id, reader, digest, errors)
    return ConsistencyReport(ledger_count, entry_count, tuple(errors))


def _check_ledger(
    directory: Disk,
    ledger_id: int,
    reader: EntryReader,
    digest: Digest | None,
    errors: list[str],
) -> int:
    entry_count = 0
    file = directory.open(index_path(ledger_id))
    for entry_id, _, location in index_slots(file):
        if location == 0:
            continue
        entry_count += 1
        try:
            data = reader.read(location, ledger_id, entry_id)
        except StorageDamagedException as error:
            errors.append(str(error))
            continue
        if digest and not digest_matches(data, digest, ledger_id, entry_id):
            errors.append(
                f"entry log {log_name(location >> 32)}, offset {location & 0xFFFFFFFF}: the"
                f" {digest.type.name} digest of entry {entry_id} of ledger {ledger_id} does not"
                " match"
            )
    file.close()
    return entry_count
