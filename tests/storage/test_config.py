import pytest

from labkit.model.errors import BKIncorrectParameterException
from labkit.storage.config import MIB, StorageConfig


def test_defaults_are_bookkeepers() -> None:
    config = StorageConfig()
    assert (config.journal_max_size_mb, config.journal_pre_alloc_size_mb) == (2048, 16)
    assert (config.journal_alignment_size, config.journal_max_backups) == (512, 5)
    assert (config.skip_list_size_limit, config.log_size_limit) == (67108864, 1073741824)
    assert (config.page_size, config.page_limit) == (8192, -1)
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
        *(("journal_max_size_mb", 0), ("journal_max_size_mb", -1)),
        *(("journal_pre_alloc_size_mb", 0), ("journal_max_backups", -1)),
        *(("skip_list_size_limit", 0), ("log_size_limit", 2047)),
        *(("log_size_limit", 1024 * MIB + 1), ("journal_alignment_size", 700)),
        *(("page_size", 0), ("page_size", -8), ("page_size", 12)),
        *(("page_limit", 0), ("page_limit", -2)),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_name_and_the_range(name: str, value: int) -> None:
    with pytest.raises(BKIncorrectParameterException, match=rf"{name} is {value}; it must"):
        StorageConfig(**{name: value})
