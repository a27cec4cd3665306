"""A broker's settings come from the command line and from Pulsar's configuration file."""

import base64
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from labkit.system.client.context import ClientConfig
from labkit.system.metadata.ledger_layout import LAYOUTS
from labkit.system.metadata.location import MetadataLocation
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.topic.config import PULSAR_DEFAULTS
from labkit.worlds.live.processes.broker_config import PULSAR_KEYS, BrokerSettings, broker_settings

SECRET = f"tokenSecretKey=data:;base64,{base64.b64encode(b'x' * 32).decode()}"


@dataclass
class Options:
    id: str | None = "broker-1"
    zookeeper: str | None = None
    conf: Path | None = None
    port: int | None = None
    web_port: int | None = None
    trace_from_start: bool = False


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return tmp_path / "broker.conf"


def settings(conf: Path, *lines: str) -> BrokerSettings:
    conf.write_text("\n".join(("zookeeperServers=zk:2181", *lines)))
    found, unused = broker_settings(Options(conf=conf))
    assert unused == {}
    return found


def test_without_a_file_defaults_are_those_of_pulsar() -> None:
    found, unused = broker_settings(Options(zookeeper="zk:2181"))
    assert unused == {}
    assert found.broker.managed_ledger == PULSAR_DEFAULTS
    assert not found.broker.broker_deduplication_enabled
    assert (found.host, found.port, found.certificate) == ("127.0.0.1", 0, None)


def test_keys_of_the_file_count_with_their_units(conf: Path) -> None:
    found = settings(
        conf,
        "managedLedgerDefaultEnsembleSize=3",
        "managedLedgerDefaultWriteQuorum=3",
        "managedLedgerMaxEntriesPerLedger=5",
        "managedLedgerMinLedgerRolloverTimeMinutes=0",
        "managedLedgerMaxSizePerLedgerMbytes=1",
        "defaultRetentionTimeInMinutes=-1",
        "defaultRetentionSizeInMB=2",
        "brokerDeduplicationEnabled=true",
        "allowAutoTopicCreationType=partitioned",
        "defaultNumPartitions=4",
        "brokerServicePort=6650",
        "bookkeeperClientMinNumRacksPerWriteQuorum=2",
        "bookkeeperClientEnforceMinNumRacksPerWriteQuorum=true",
        "bookkeeper_addEntryQuorumTimeoutSec=30",
        "bookkeeper_maxNumEnsembleChanges=4",
    )
    assert found.client == ClientConfig(
        add_entry_quorum_timeout_s=30.0,
        max_allowed_ensemble_changes=4,
        min_num_racks_per_write_quorum=2,
        enforce_min_num_racks_per_write_quorum=True,
    )
    assert found.broker.managed_ledger == replace(
        PULSAR_DEFAULTS,
        ensemble_size=3,
        write_quorum=3,
        max_entries_per_ledger=5,
        min_ledger_age_ms=0,
        max_ledger_size_bytes=1024 * 1024,
        retention_time_ms=-1,
        retention_size_bytes=2 * 1024 * 1024,
    )
    assert found.broker.broker_deduplication_enabled
    assert found.broker.default_num_partitions == 4
    assert found.port == 6650


def test_options_go_before_the_file(conf: Path) -> None:
    conf.write_text("zookeeperServers=zk:2181\nbrokerServicePort=6650\nwebServicePort=8080")
    found, _ = broker_settings(Options(zookeeper="other:2181", conf=conf, port=1, web_port=2))
    assert (found.metadata.servers, found.port, found.web_port) == ("other:2181", 1, 2)


def test_metadata_store_url_names_zookeeper_too(conf: Path) -> None:
    conf.write_text("metadataStoreUrl=zk:one:2181,two:2181/pulsar")
    found, _ = broker_settings(Options(conf=conf))
    assert found.metadata == MetadataLocation("one:2181,two:2181", "/pulsar")


def test_ledgers_may_have_another_name_beside_the_topics(conf: Path) -> None:
    uri = "bookkeeperMetadataServiceUri=zk+null://one:2181/pulsar/l2"
    found = settings(conf, "metadataStoreUrl=zk:one:2181/pulsar", uri)
    assert found.metadata == MetadataLocation("one:2181", "/pulsar", "/l2")


def test_keys_without_effect_are_named(conf: Path) -> None:
    conf.write_text("zookeeperServers=zk:2181\nnoSuchKey=1\nanother=2")
    assert broker_settings(Options(conf=conf))[1] == {"another": "", "noSuchKey": ""}


def test_tokens_are_asked_for_if_the_file_says_so(conf: Path) -> None:
    found = settings(conf, "authenticationEnabled=true", SECRET)
    assert found.tokens is not None
    assert found.tokens.key == b"x" * 32
    assert settings(conf, "authenticationEnabled=false", SECRET).tokens is None
    seconds = "authenticationRefreshCheckSeconds=5"
    assert settings(conf, seconds).broker.authentication_refresh_check_s == 5


@pytest.mark.parametrize(
    ("option", "lines", "location"),
    [
        ("new:1", ("metadataStoreUrl=zk:old:1",), MetadataLocation("new:1")),
        ("new:1/p", ("metadataStoreUrl=zk:old:1/p",), MetadataLocation("new:1", "/p")),
        (
            "zk+null://new:1/p/l2",
            ("metadataStoreUrl=zk:old:1/p", "bookkeeperMetadataServiceUri=zk+flat://old:1/p/l2"),
            MetadataLocation("new:1", "/p", "/l2", LAYOUTS["flat"]),
        ),
        ("new:1/p", ("zookeeperServers=old:1",), MetadataLocation("new:1", "/p")),
        ("new:1", ("metadataStoreUrl=zk:old:1/p",), None),
        ("new:1", ("bookkeeperMetadataServiceUri=zk://old:1/other",), None),
        ("zk+flat://new:1/l", ("bookkeeperMetadataServiceUri=zk+hierarchical://o:1/l",), None),
    ],
)
def test_the_zookeeper_of_the_command_line_replaces_servers_and_contradicts_no_path(
    conf: Path, option: str, lines: tuple[str, ...], location: MetadataLocation | None
) -> None:
    conf.write_text("\n".join(lines))
    if location is None:
        with pytest.raises(BKIncorrectParameterException, match="another path or ledger manager"):
            broker_settings(Options(zookeeper=option, conf=conf))
    else:
        assert broker_settings(Options(zookeeper=option, conf=conf))[0].metadata == location


NOTHING_KEPT, ONLY_ZOOKEEPER = "nothing would be retained", "labkit supports only ZooKeeper"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("defaultRetentionTimeInMinutes=60", NOTHING_KEPT),
        ("defaultRetentionSizeInMB=100", NOTHING_KEPT),
        ("defaultRetentionTimeInMinutes=-1\ndefaultRetentionSizeInMB=0", NOTHING_KEPT),
        ("metadataStoreUrl=etcd:http://one:2379", ONLY_ZOOKEEPER),
        ("metadataStoreUrl=oxia://one:6648/ns", ONLY_ZOOKEEPER),
        ("metadataStoreUrl=rocksdb:///data/md", ONLY_ZOOKEEPER),
        ("bookkeeperMetadataServiceUri=metadata-store:zk:zk:2181/ledgers", ONLY_ZOOKEEPER),
        ("bookkeeperMetadataServiceUri=zk://other:2181/ledgers", "in the same store as topics"),
        ("bookkeeperMetadataServiceUri=zk://zk:2181/a/ledgers", r"zk:2181/ledgers \(the last"),
        ("configurationMetadataStoreUrl=o:2181", "onMetadataStoreUrl is o:2181; .*same store"),
        ("configurationStoreServers=o:2181", "configurationStoreServers is o:2181; .*same store"),
        ("globalZookeeperServers=o:2181", "globalZookeeperServers is o:2181; .*same store"),
        ("authorizationEnabled=true", "requires authenticationEnabled"),
        (
            "dispatcherReadFailureBackoffInitialTimeInMs=200\n"
            "dispatcherReadFailureBackoffMaxTimeInMs=100",
            "must not exceed the second",
        ),
        ("authenticationEnabled=true", "requires tokenSecretKey or tokenPublicKey"),
        ("brokerServicePort=many", "brokerServicePort is 'many'; expected a number"),
        (
            "brokerServicePort=70000",
            "brokerServicePort is 70000; it must be at least 0 and at most 65535",
        ),
        ("tlsCertificateFilePath=/a", "TLS requires both"),
        ("brokerServicePortTls=6651", "brokerServicePortTls is 6651, but TLS requires tlsCert"),
        ("brokerServicePortTls=0", "brokerServicePortTls is 0, but TLS requires tlsCert"),
        ("allowAutoTopicCreationType=bogus", "bogus; expected non-partitioned or partitioned"),
        ("defaultNumPartitions=abc", "defaultNumPartitions is 'abc'; expected a number"),
        ("maxMessageSize=100000000", "maxMessageSize is 100000000"),
        ("keepAliveIntervalSeconds=0", "keepAliveIntervalSeconds is 0"),
        (
            "managedLedgerDefaultEnsembleSize=1",
            "managedLedgerDefaultEnsembleSize is 1, managedLedgerDefaultWriteQuorum is 2",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(conf: Path, line: str, reason: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match=reason):
        settings(conf, line)


@pytest.mark.parametrize("key", sorted(PULSAR_KEYS.obeyed))
def test_a_refused_number_is_refused_under_the_key_that_was_written(conf: Path, key: str) -> None:
    """The message names the key in the file, because operators do not know Python's field names."""
    for number in ("-7", "9" * 30):
        conf.write_text(f"zookeeperServers=zk:2181\n{key}={number}")
        message = refusal(conf)
        assert not message or key in message
        assert not re.search(r"\b[a-z]+(_[a-z]+)+\b", message)


def refusal(file: Path) -> str:
    """Return the error with which a broker rejects the file, or an empty string."""
    try:
        broker_settings(Options(conf=file))
    except BKIncorrectParameterException as error:
        return str(error)
    return ""


def test_a_broker_without_a_name_or_zookeeper_is_refused() -> None:
    with pytest.raises(BKIncorrectParameterException, match="specify --zookeeper"):
        broker_settings(Options())
    with pytest.raises(BKIncorrectParameterException, match="specify --id"):
        broker_settings(Options(id=None, zookeeper="zk:2181"))


def test_authorization_names_its_superusers_and_needs_authentication(conf: Path) -> None:
    on = ("authenticationEnabled=true", SECRET)
    assert settings(conf, *on, "superUserRoles=a").super_user_roles is None
    found = settings(conf, *on, "authorizationEnabled=true", "superUserRoles=a, b,")
    assert found.super_user_roles == ("a", "b")
    assert settings(conf, *on, "authorizationEnabled=true").super_user_roles == ()


def test_pauses_after_failed_reads_are_pulsars(conf: Path) -> None:
    broker = settings(conf).broker
    assert broker.dispatcher_read_failure_backoff_initial_ms == 15_000
    assert broker.dispatcher_read_failure_backoff_max_ms == 60_000
    found = settings(conf, "dispatcherReadFailureBackoffInitialTimeInMs=100").broker
    assert found.dispatcher_read_failure_backoff_initial_ms == 100


def test_a_file_of_pulsars_own_defaults_starts_a_broker(conf: Path) -> None:
    keys = (Path(__file__).parents[1] / "config" / "keys" / "pulsar-4.2.4.txt").read_text("utf-8")
    conf.write_text(keys)
    found, unused = broker_settings(Options(zookeeper="zk:2181", conf=conf))
    assert found.broker.managed_ledger == PULSAR_DEFAULTS
    assert (found.certificate, found.tokens, found.super_user_roles) == (None, None, None)
    assert "authenticationEnabled" not in unused


def test_namespaces_lie_beside_topics(conf: Path) -> None:
    both = "metadataStoreUrl=zk:one:2181", "configurationMetadataStoreUrl=zk:one:2181"
    assert settings(conf, *both).metadata == MetadataLocation("one:2181")
