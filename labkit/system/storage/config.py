"""Settings of the storage; names and defaults are those of `conf/ServerConfiguration.java`."""

from dataclasses import dataclass

from labkit.system.model.errors import BKIncorrectParameterException

MIB = 1024 * 1024
_OF_BOOKKEEPER = "org.apache.bookkeeper.bookie."
_LEDGER_STORAGES = ("SortedLedgerStorage", "InterleavedLedgerStorage")


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """Sizes in bytes unless the name says MB.

    A group of journal records is written as soon as the one before it is synced.  Without
    `journal_flush_when_queue_empty` (BookKeeper's default) it waits for more records until the
    first of them is `journal_max_group_wait_ms` old, or there are more bytes or records than the
    two thresholds say (0: no threshold).

    No more than `page_limit` changed index pages are in memory (-1: as many as labkit likes).

    `ledger_storage_class` is one of BookKeeper's two storages whose files labkit writes; both have
    the same files, so either may be named.

    Raises `BKIncorrectParameterException` when a value is out of range.
    """

    journal_format_version_to_write: int = 6
    file_info_format_version_to_write: int = 1
    journal_max_size_mb: int = 2048
    journal_pre_alloc_size_mb: int = 16
    journal_alignment_size: int = 512
    journal_max_backups: int = 5
    journal_max_memory_size_mb: int = 64
    journal_flush_when_queue_empty: bool = True
    journal_max_group_wait_ms: int = 2
    journal_buffered_writes_threshold: int = 512 * 1024
    journal_buffered_entries_threshold: int = 0
    skip_list_size_limit: int = 64 * MIB
    log_size_limit: int = 1024 * MIB
    entry_log_per_ledger_enabled: bool = False
    maximum_number_of_active_entry_logs: int = 500
    page_size: int = 8192
    page_limit: int = -1
    open_file_limit: int = 512
    ledger_storage_class: str = _OF_BOOKKEEPER + _LEDGER_STORAGES[0]

    def __post_init__(self) -> None:
        for name, lowest in (
            ("journal_max_size_mb", 1),
            ("journal_pre_alloc_size_mb", 1),
            ("journal_max_backups", 0),
            ("journal_max_memory_size_mb", 1),
            ("skip_list_size_limit", 1),
            ("open_file_limit", 1),
            ("maximum_number_of_active_entry_logs", 1),
            ("journal_max_group_wait_ms", 0),
            ("journal_buffered_writes_threshold", 0),
            ("journal_buffered_entries_threshold", 0),
        ):
            if getattr(self, name) < lowest:
                raise BKIncorrectParameterException(
                    f"{name} is {getattr(self, name)}; it must be at least {lowest}"
                )
        versions = self.journal_format_version_to_write, self.file_info_format_version_to_write
        if versions not in ((4, 0), (5, 0), (6, 1)):
            raise BKIncorrectParameterException(
                f"journal_format_version_to_write is {versions[0]} and"
                f" file_info_format_version_to_write {versions[1]}; allowed are 4 or 5 with 0, and"
                " 6 with 1: only those two keep an explicit LAC"
            )
        # At most half of the smallest preallocation, whose last block is written first.
        if not 512 <= self.journal_alignment_size <= MIB // 2 or self.journal_alignment_size % 512:
            raise BKIncorrectParameterException(
                f"journal_alignment_size is {self.journal_alignment_size};"
                " it must be a multiple of 512 between 512 and 524288"
            )
        if not 2048 <= self.log_size_limit <= 1024 * MIB:
            raise BKIncorrectParameterException(
                f"log_size_limit is {self.log_size_limit}; it must lie between 2 KiB and 1 GiB"
            )
        if self.page_limit < 1 and self.page_limit != -1:
            raise BKIncorrectParameterException(
                f"page_limit is {self.page_limit}; it must be at least 1, or -1 for the default"
            )
        if self.page_size < 8 or self.page_size % 8:
            raise BKIncorrectParameterException(
                f"page_size is {self.page_size}; it must be a multiple of 8"
            )
        if self.ledger_storage_class not in (_OF_BOOKKEEPER + name for name in _LEDGER_STORAGES):
            raise BKIncorrectParameterException(
                f"ledger_storage_class is {self.ledger_storage_class}; labkit has"
                f" {' and '.join(_LEDGER_STORAGES)} of {_OF_BOOKKEEPER.rstrip('.')}"
            )
