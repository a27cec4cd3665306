import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.bookie.disk_monitor import DiskConfig
from labkit.system.bookie.garbage_collection import GarbageConfig
from labkit.system.metadata.ledger_layout import FLAT
from labkit.system.metadata.location import MetadataLocation
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.storage.config import StorageConfig
from labkit.worlds.live.config.properties import fields_in
from labkit.worlds.live.peers import PeerLimits
from labkit.worlds.live.processes.server_config import (
    BOOKKEEPER_KEYS,
    BookieSettings,
    autorecovery_settings,
    bookie_settings,
    parse_server_config,
    read_server_config,
)
from tests.worlds.live.bookie_options import Options

STORAGES = "org.apache.bookkeeper.bookie."
SORTED, INTERLEAVED = f"{STORAGES}SortedLedgerStorage", f"{STORAGES}InterleavedLedgerStorage"
OPTIONS = Options("b0", Path("data"), zookeeper="127.0.0.1:2181")


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
            "gcOverreplicatedLedgerWaitTime=5000",
            "majorCompactionThreshold=0.5",
            "isThrottleByBytes=true",
            "compactionRateByEntries=50",
            "isForceGCAllowWhenNoSpace=true",
            "diskUsageThreshold=0.99",
            "diskUsageWarnThreshold=0.8",
            "diskUsageLwmThreshold=0.7",
            "diskCheckInterval=500",
            "readOnlyModeEnabled=false",
            "readOnlyModeOnAnyDiskFullEnabled=true",
            "nettyMaxFrameSizeBytes=1048576",
            "labkitMaxConnections=50",
            "labkitPeerMemoryMB=64",
            "statsProviderClass=org.example.Stats",
        )
    )
    assert config.peers == PeerLimits(50, 64, 1048576)
    assert config.storage == StorageConfig(
        journal_max_size_mb=64, journal_flush_when_queue_empty=False
    )
    assert config.garbage == GarbageConfig(
        gc_wait_time_ms=1000,
        gc_overreplicated_ledger_wait_time_ms=5000,
        major_compaction_threshold=0.5,
        is_throttle_by_bytes=True,
        compaction_rate_by_entries=50,
        is_force_gc_allow_when_no_space=True,
    )
    assert config.disk == DiskConfig(0.99, 0.8, 0.7, 500, False, True)
    assert config.unused_keys == {"statsProviderClass": ""}
    found = fields_in(config.properties, BookieSettings)
    assert found == {"journal_dirs": ("/data/j1", "/data/j2")}


def test_bookkeepers_keys_of_autorecovery_are_understood(tmp_path: Path) -> None:
    config = read_server_config(
        conf(
            tmp_path,
            "autoRecoveryDaemonEnabled=false",
            "auditorPeriodicCheckInterval=1",
            "auditorPeriodicBookieCheckInterval=2",
            "auditorReplicasCheckInterval=3",
            "auditorLedgerVerificationPercentage=4",
            "lostBookieRecoveryDelay=5",
            "openLedgerRereplicationGracePeriod=6",
            "rwRereplicateBackoffMs=7",
            "lockReleaseOfFailedLedgerGracePeriod=8",
            "rereplicationEntryBatchSize=9",
            "replicationRateByBytes=10",
            "minNumRacksPerWriteQuorum=11",
            "enforceMinNumRacksPerWriteQuorum=true",
            "auditorPeriodicPlacementPolicyCheckInterval=12",
            "repairedPlacementPolicyNotAdheringBookieEnabled=true",
        )
    )
    assert config.autorecovery == AutoRecoveryConfig(
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, True, 12, True
    )
    assert config.unused_keys == {}


def test_directories_stay_as_they_are_written(tmp_path: Path) -> None:
    """The cookie contains the directories as written, and BookKeeper compares it as text."""
    lines = "zkServers=127.0.0.1", "bookieId=b", "ledgerDirectories=data/"
    settings = settings_of(tmp_path, *lines, "journalDirectories=j/../j0, ./j1")
    assert settings.journal_dirs == ("j/../j0", "./j1")
    assert settings.ledger_dirs == ("data/",)
    # One journal directory may also have the older key.
    assert settings_of(tmp_path, *lines, "journalDirectory=/j").journal_dirs == ("/j",)


def settings_of(folder: Path, *lines: str) -> BookieSettings:
    """Return the settings of a bookie without command-line options."""
    return bookie_settings(Options(), read_server_config(conf(folder, *lines)))


PLACES = ("zkServers=127.0.0.1", "journalDirectories=j", "ledgerDirectories=l")


@pytest.mark.parametrize(
    ("lines", "field", "value"),
    [
        ((), "autorecovery", AutoRecoveryConfig()),
        (("autoRecoveryDaemonEnabled=true",), "autorecovery", AutoRecoveryConfig()),
        (("autoRecoveryDaemonEnabled=false",), "autorecovery", None),
        ((), "host", "127.0.0.1"),
        (("advertisedAddress=192.0.2.7",), "host", "192.0.2.7"),
        ((), "allow_storage_expansion", False),
        (("allowStorageExpansion=false",), "allow_storage_expansion", False),
        (("allowStorageExpansion=true",), "allow_storage_expansion", True),
        (("forceReadOnlyBookie=true",), "disk", DiskConfig(force_read_only_bookie=True)),
        ((f"ledgerStorageClass={SORTED}",), "storage", StorageConfig()),
        (
            (f"ledgerStorageClass={INTERLEAVED}",),
            "storage",
            StorageConfig(ledger_storage_class=INTERLEAVED),
        ),
        (("indexDirectories=l",), "ledger_dirs", ("l",)),
    ],
)
def test_a_setting_is_that_of_the_file_or_the_default(
    tmp_path: Path, lines: tuple[str, ...], field: str, value: object
) -> None:
    config = read_server_config(conf(tmp_path, "bookieId=b", *PLACES, *lines))
    assert config.unused_keys == {}
    assert getattr(bookie_settings(Options(), config), field) == value


@pytest.mark.parametrize(
    ("lines", "bookie_id", "port"),
    [
        (["bookieId=b", "advertisedAddress=192.0.2.7"], "b", 0),
        (["bookieId=b", "bookiePort=3000"], "b", 3000),
        (["advertisedAddress=192.0.2.7"], "192.0.2.7:3181", 3181),
        (["advertisedAddress=bk.example", "bookiePort=3000"], "bk.example:3000", 3000),
    ],
)
def test_a_bookie_without_a_configured_id_has_its_address_and_port_as_one(
    tmp_path: Path, lines: list[str], bookie_id: str, port: int
) -> None:
    config = read_server_config(conf(tmp_path, *PLACES, *lines))
    settings = bookie_settings(Options(), config)
    assert (settings.bookie_id, settings.port) == (bookie_id, port)
    assert autorecovery_settings(Options(), config).node == bookie_id


def test_the_port_in_an_id_is_the_one_that_the_bookie_serves(tmp_path: Path) -> None:
    lines = ["advertisedAddress=192.0.2.7", *PLACES]
    settings = bookie_settings(Options(port=4000), read_server_config(conf(tmp_path, *lines)))
    assert (settings.bookie_id, settings.port) == ("192.0.2.7:4000", 4000)
    with pytest.raises(BKIncorrectParameterException, match="bookiePort must not be 0"):
        settings_of(tmp_path, *lines, "bookiePort=0")
    with pytest.raises(BKIncorrectParameterException, match="bookieId or advertisedAddress"):
        settings_of(tmp_path, *PLACES)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("journalMaxSizeMB", "line 1 is not of the form key=value"),
        ("journalMaxSizeMB=big", "journalMaxSizeMB is 'big'; expected a number"),
        ("journalFlushWhenQueueEmpty=1", "journalFlushWhenQueueEmpty is '1'"),
        ("journalMaxSizeMB=0", "journalMaxSizeMB is 0; it must be at least 1"),
        (
            "minorCompactionThreshold=0.9",
            "minorCompactionThreshold is 0.9 and majorCompactionThreshold is 0.8",
        ),
        ("compactionRateByEntries=0", "compactionRateByEntries is 0; it must be at least 1"),
        ("diskUsageThreshold=0.8", "diskUsageWarnThreshold is 0.9 and diskUsageThreshold is 0.8"),
        (
            "auditorLedgerVerificationPercentage=101",
            "Percentage is 101; it must be at least 0 and at most 100",
        ),
        ("gcWaitTime=3600001", "minorCompactionInterval is 3600, which is shorter than"),
        ("majorCompactionInterval=60", "majorCompactionInterval is 60"),
        ("minorCompactionInterval=1", "minorCompactionInterval is 1"),
        ("diskCheckInterval=0", "diskCheckInterval is 0; it must be at least 1"),
        ("autoRecoveryDaemonEnabled=yes", "autoRecoveryDaemonEnabled is 'yes'"),
        ("ledgerStorageClass=com.example.Mine", "SortedLedgerStorage and Interleaved"),
        (f"ledgerStorageClass={STORAGES}storage.ldb.DbLedgerStorage", "Sorted.* and Interleaved"),
        ("forceReadOnlyBookie=true\nreadOnlyModeEnabled=false", "requires readOnlyModeEnabled"),
    ],
)
def test_what_cannot_be_taken_is_said(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match=message):
        read_server_config(conf(tmp_path, line))


@pytest.mark.parametrize("key", sorted(BOOKKEEPER_KEYS.obeyed))
def test_a_refused_number_is_refused_under_the_key_that_was_written(
    tmp_path: Path, key: str
) -> None:
    """The message names the key in the file, because operators do not know Python's field names."""
    for number in ("-7", "9" * 30):
        message = refusal(conf(tmp_path, f"{key}={number}"))
        assert not message or key in message
        assert not re.search(r"\b[a-z]+(_[a-z]+)+\b", message)


def refusal(file: Path) -> str:
    """Return the error with which a bookie rejects the file, or an empty string."""
    try:
        bookie_settings(OPTIONS, read_server_config(file))
    except BKIncorrectParameterException as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("port", 70000, "--port is 70000"), ("flush_interval_ms", 0, "--flush-interval-ms is 0")],
)
def test_a_refused_option_of_the_command_line_is_named_as_such(
    tmp_path: Path, field: str, value: int, message: str
) -> None:
    option: dict[str, Any] = {field: value}
    config = read_server_config(conf(tmp_path, "bookiePort=3182", "flushInterval=100"))
    with pytest.raises(BKIncorrectParameterException, match=message):
        bookie_settings(replace(OPTIONS, **option), config)


def test_a_line_that_is_not_utf_8_is_named() -> None:
    with pytest.raises(BKIncorrectParameterException, match=r"the.conf, line 2 is not valid UTF-8"):
        parse_server_config(b"bookieId=b\nzkServers=\xff\n", "the.conf")


MANAGERS = "org.apache.bookkeeper.meta."


@pytest.mark.parametrize(
    ("lines", "location"),
    [
        (["zkServers=h1:2181, h2:2181"], MetadataLocation("h1:2181,h2:2181")),
        (["zkServers=h:2181", "zkLedgersRootPath=/a/l"], MetadataLocation("h:2181", "/a", "/l")),
        (["zkServers=h:1", "metadataServiceUri="], MetadataLocation("h:1")),
        (["metadataServiceUri=zk+flat://h:1/a/l"], MetadataLocation("h:1", "/a", "/l", FLAT)),
        (
            ["zkServers=h:1", f"ledgerManagerFactoryClass={MANAGERS}FlatLedgerManagerFactory"],
            MetadataLocation("h:1", layout=FLAT),
        ),
        (
            ["metadataServiceUri=zk://h:1/a/l", "zkServers=h:1", "zkLedgersRootPath=/ledgers"],
            MetadataLocation("h:1", "/a", "/l"),
        ),
        ([], None),
    ],
)
def test_the_place_of_metadata_is_bookkeepers(
    tmp_path: Path, lines: list[str], location: MetadataLocation | None
) -> None:
    assert read_server_config(conf(tmp_path, *lines)).metadata == location


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["metadataServiceUri=etcd+hierarchical:http://h:1/a"], "labkit supports only ZooKeeper"),
        (["metadataServiceUri=zk://h:1/l", "zkServers=other:1"], "remove these two"),
        (["metadataServiceUri=zk://h:1/l", "zkLedgersRootPath=/other"], "remove these two"),
        (
            ["zkServers=h:1", f"ledgerManagerFactoryClass={MANAGERS}MSLedger"],
            "MSLedger; labkit supports",
        ),
    ],
)
def test_two_places_and_other_stores_are_refused(
    tmp_path: Path, lines: list[str], reason: str
) -> None:
    with pytest.raises(BKIncorrectParameterException, match=reason):
        _ = read_server_config(conf(tmp_path, *lines)).metadata


@pytest.mark.parametrize(
    ("option", "lines", "location"),
    [
        ("new:1", ["zkServers=old:1"], MetadataLocation("new:1")),
        (
            "new:1",
            ["metadataServiceUri=zk+flat://old:1/ledgers"],
            MetadataLocation("new:1", layout=FLAT),
        ),
        ("zk://new:1/a/l", ["zkLedgersRootPath=/ledgers"], MetadataLocation("new:1", "/a", "/l")),
        ("zk://new:1/a/l", ["zkLedgersRootPath=/a/l"], MetadataLocation("new:1", "/a", "/l")),
        ("new:1", ["zkLedgersRootPath=/other"], None),
        ("new:1", ["metadataServiceUri=zk://old:1/other"], None),
        (
            "zk+hierarchical://new:1/ledgers",
            [f"ledgerManagerFactoryClass={MANAGERS}FlatLedgerManagerFactory"],
            None,
        ),
    ],
)
def test_the_zookeeper_of_the_command_line_replaces_servers_and_contradicts_no_path(
    tmp_path: Path, option: str, lines: list[str], location: MetadataLocation | None
) -> None:
    config = read_server_config(conf(tmp_path, *lines))
    if location is None:
        with pytest.raises(BKIncorrectParameterException, match="another path or ledger manager"):
            config.metadata_of_option(option)
    else:
        assert config.metadata_of_option(option) == location


def test_separate_index_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BKIncorrectParameterException, match="labkit stores indexes in the latter"):
        settings_of(tmp_path, "bookieId=b", *PLACES, "indexDirectories=/i")


def test_what_has_no_value_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    config = read_server_config(conf(tmp_path, "bookiePort=", "diskUsageThreshold=", "bookieId="))
    assert fields_in(config.properties, BookieSettings) == {}
    assert config.disk == DiskConfig()


def test_a_key_with_two_values_is_refused(tmp_path: Path) -> None:
    config = read_server_config(conf(tmp_path, "bookiePort=1", "bookiePort = 1"))
    assert fields_in(config.properties, BookieSettings) == {"port": 1}
    with pytest.raises(BKIncorrectParameterException, match="line 2: bookiePort is already set"):
        read_server_config(conf(tmp_path, "bookiePort=1", "bookiePort=2"))
