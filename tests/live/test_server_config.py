from pathlib import Path

import pytest

from labkit.bookie.garbage_collection import GarbageConfig
from labkit.live.server_config import read_server_config
from labkit.model.errors import BKIncorrectParameterException
from labkit.storage.config import StorageConfig


def conf(folder: Path, *lines: str) -> Path:
    path = folder / "bk_server.conf"
    path.write_text("\n".join(lines))
    return path


def test_bookkeepers_keys_are_understood(tmp_path: Path) -> None:
    config = read_server_config(
        conf(
            tmp_path,
            "# a comment",
            "journalDirectories=/data/j1, /data/j2",
            "journalMaxSizeMB = 64",
            "journalFlushWhenQueueEmpty=false",
            "gcWaitTime=1000",
            "majorCompactionThreshold=0.5",
            "statsProviderClass=org.example.Stats",
        )
    )
    assert config.storage == StorageConfig(
        journal_max_size_mb=64, journal_flush_when_queue_empty=False
    )
    assert config.garbage == GarbageConfig(gc_wait_time_ms=1000, major_compaction_threshold=0.5)
    assert config.directories("journalDirectories", "journalDirectory") == (
        Path("/data/j1"),
        Path("/data/j2"),
    )


def test_keys_without_effect_are_named(tmp_path: Path) -> None:
    assert read_server_config(conf(tmp_path, "httpServerEnabled=true")).unknown == (
        "httpServerEnabled",
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("journalMaxSizeMB", "line 1: 'journalMaxSizeMB' is no key=value"),
        ("journalMaxSizeMB=big", "journalMaxSizeMB is 'big'; it must be a number"),
        ("journalFlushWhenQueueEmpty=1", "journalFlushWhenQueueEmpty is '1'"),
        ("journalMaxSizeMB=0", "journal_max_size_mb is 0; it must be at least 1"),
        ("minorCompactionThreshold=0.9", "0 < minor < major <= 1"),
    ],
)
def test_what_cannot_be_taken_is_said(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match=message):
        read_server_config(conf(tmp_path, line))
