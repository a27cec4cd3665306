import pytest

from labkit.model.errors import BKIncorrectParameterException
from labkit.storage.config import MIB, StorageConfig


def test_defaults_are_bookkeepers() -> None:
    config = StorageConfig()
    assert (config.journal_max_size_mb, config.journal_pre_alloc_size_mb) == (2048, 16)
    assert (config.journal_alignment_size, config.journal_max_backups) == (512, 5)
    assert (config.skip_list_size_limit, config.log_size_limit) == (67108864, 1073741824)
    assert config.page_size == 8192


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
