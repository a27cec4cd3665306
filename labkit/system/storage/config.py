"""Storage settings. Names and defaults match `conf/ServerConfiguration.java`, except that
`journalFlushWhenQueueEmpty` is on by default.
"""

from dataclasses import dataclass

from labkit.system.model.settings import InvalidSettingException, check_ranges, setting

MIB = 1024 * 1024
_PACKAGE = "org.apache.bookkeeper.bookie."
_LEDGER_STORAGES = ("SortedLedgerStorage", "InterleavedLedgerStorage")


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """Settings of a bookie's storage. Sizes are in bytes unless the name of the setting ends in
    `mb`.

    By default, a group of journal records is written as soon as the previous group has been synced.
    If `journal_flush_when_queue_empty` is off (BookKeeper's default), the group then also waits up
    to `journal_max_group_wait_ms` for more records. The wait ends early if the group exceeds the
    threshold for its size in bytes or for its number of records (0 disables a threshold).

    `page_limit` is the maximum number of index pages with unwritten changes (-1: chosen by labkit).
    If this limit is exceeded, all indexes are written immediately.

    `ledger_storage_class` names one of the two BookKeeper storage classes whose file formats labkit
    supports.

    Raises `BKIncorrectParameterException` if a value is out of range.
    """

    journal_format_version_to_write: int = setting(6, "journalFormatVersionToWrite")
    file_info_format_version_to_write: int = setting(1, "fileInfoFormatVersionToWrite")
    journal_max_size_mb: int = setting(2048, "journalMaxSizeMB", at_least=1)
    journal_pre_alloc_size_mb: int = setting(16, "journalPreAllocSizeMB", at_least=1)
    # Preallocation writes the last block of a new file. The block must not overwrite the file's
    # header, so it can be at most half of the smallest preallocation.
    journal_alignment_size: int = setting(
        512, "journalAlignmentSize", at_least=512, at_most=MIB // 2, multiple_of=512
    )
    journal_max_backups: int = setting(5, "journalMaxBackups", at_least=0)
    journal_max_memory_size_mb: int = setting(64, "journalMaxMemorySizeMb", at_least=1)
    journal_flush_when_queue_empty: bool = setting(True, "journalFlushWhenQueueEmpty")
    journal_max_group_wait_ms: int = setting(2, "journalMaxGroupWaitMSec", at_least=0)
    journal_buffered_writes_threshold: int = setting(
        512 * 1024, "journalBufferedWritesThreshold", at_least=0
    )
    journal_buffered_entries_threshold: int = setting(
        0, "journalBufferedEntriesThreshold", at_least=0
    )
    skip_list_size_limit: int = setting(64 * MIB, "skipListSizeLimit", at_least=1)
    log_size_limit: int = setting(1024 * MIB, "logSizeLimit", at_least=2048, at_most=1024 * MIB)
    entry_log_per_ledger_enabled: bool = setting(False, "entryLogPerLedgerEnabled")
    maximum_number_of_active_entry_logs: int = setting(
        500, "maximumNumberOfActiveEntryLogs", at_least=1
    )
    page_size: int = setting(8192, "pageSize", at_least=8, multiple_of=8)
    page_limit: int = setting(-1, "pageLimit", at_least=1, or_else=-1)
    open_file_limit: int = setting(512, "openFileLimit", at_least=1)
    ledger_storage_class: str = setting(_PACKAGE + _LEDGER_STORAGES[0], "ledgerStorageClass")

    def __post_init__(self) -> None:
        check_ranges(self)
        versions = self.journal_format_version_to_write, self.file_info_format_version_to_write
        if versions not in ((4, 0), (5, 0), (6, 1)):
            raise InvalidSettingException(
                self,
                "{journal_format_version_to_write} and {file_info_format_version_to_write}; valid"
                " combinations: 4 or 5 with 0, and 6 with 1 (which stores explicit LACs)",
            )
        if self.ledger_storage_class not in (_PACKAGE + name for name in _LEDGER_STORAGES):
            raise InvalidSettingException(
                self,
                f"{{ledger_storage_class}}; labkit supports {' and '.join(_LEDGER_STORAGES)} of"
                f" {_PACKAGE.rstrip('.')}",
            )
