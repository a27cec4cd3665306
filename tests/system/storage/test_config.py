from typing import Any

import pytest

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.storage.config import MIB, StorageConfig


def config_with(name: str, value: int) -> StorageConfig:
    setting: dict[str, Any] = {name: value}
    return StorageConfig(**setting)


def test_defaults_are_bookkeepers() -> None:
    config = StorageConfig()
    assert (config.journal_max_size_mb, config.journal_pre_alloc_size_mb) == (2048, 16)
    assert (config.journal_alignment_size, config.journal_max_backups) == (512, 5)
    assert (config.skip_list_size_limit, config.log_size_limit) == (67108864, 1073741824)
    assert (config.page_size, config.page_limit) == (8192, -1)
    assert (config.journal_max_memory_size_mb, config.open_file_limit) == (64, 512)
    assert config.journal_flush_when_queue_empty
    assert config.journal_format_version_to_write == 6
    assert config.file_info_format_version_to_write == 1
    assert config.journal_max_group_wait_ms == 2
    assert config.journal_buffered_writes_threshold == 524288
    assert config.journal_buffered_entries_threshold == 0
    assert not config.entry_log_per_ledger_enabled
    assert config.maximum_number_of_active_entry_logs == 500
    assert config.ledger_storage_class.endswith(".SortedLedgerStorage")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("log_size_limit", 1024 * MIB + 1), ("page_limit", -2)),
        *(("journal_alignment_size", 700), ("journal_alignment_size", MIB)),
        *(("page_size", 0), ("page_size", -8), ("page_size", 12)),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_name_and_the_range(name: str, value: int) -> None:
    with pytest.raises(BKIncorrectParameterException, match=rf"{name} is {value}; it must"):
        config_with(name, value)


@pytest.mark.parametrize(
    ("name", "lowest"),
    [
        *(("journal_max_size_mb", 1), ("journal_pre_alloc_size_mb", 1)),
        *(("journal_max_backups", 0), ("journal_max_memory_size_mb", 1)),
        *(("skip_list_size_limit", 1), ("open_file_limit", 1)),
        *(("maximum_number_of_active_entry_logs", 1), ("journal_max_group_wait_ms", 0)),
        ("journal_buffered_writes_threshold", 0),
        ("journal_buffered_entries_threshold", 0),
        *(("journal_alignment_size", 512), ("log_size_limit", 2048)),
        *(("page_limit", 1), ("page_size", 8)),
    ],
)
def test_the_lowest_value_is_taken_and_a_lower_one_refused(name: str, lowest: int) -> None:
    assert getattr(config_with(name, lowest), name) == lowest
    with pytest.raises(BKIncorrectParameterException, match=rf"{name} is {lowest - 1}; it must"):
        config_with(name, lowest - 1)


@pytest.mark.parametrize(
    ("name", "highest"), [("journal_alignment_size", MIB // 2), ("log_size_limit", 1024 * MIB)]
)
def test_the_highest_value_is_taken(name: str, highest: int) -> None:
    assert getattr(config_with(name, highest), name) == highest


@pytest.mark.parametrize(("journal", "index"), [(3, 0), (4, 1), (5, 1), (6, 0), (7, 1)])
def test_journals_and_indexes_of_different_ages_are_not_written(journal: int, index: int) -> None:
    valid = "valid combinations: 4 or 5 with 0, and 6"
    with pytest.raises(BKIncorrectParameterException, match=valid):
        StorageConfig(
            journal_format_version_to_write=journal, file_info_format_version_to_write=index
        )


@pytest.mark.parametrize("name", ["SortedLedgerStorage", "InterleavedLedgerStorage"])
def test_both_storages_with_the_same_files_may_be_named(name: str) -> None:
    whole = f"org.apache.bookkeeper.bookie.{name}"
    assert StorageConfig(ledger_storage_class=whole).ledger_storage_class == whole
    with pytest.raises(
        BKIncorrectParameterException, match="labkit supports SortedLedgerStorage and"
    ):
        StorageConfig(ledger_storage_class=name)
