"""Every key of BookKeeper's and of Pulsar's configuration is obeyed, refused or harmless."""

from collections.abc import Callable
from pathlib import Path

import pytest

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.live.config.known_keys import (
    BY_A_BOOKIE,
    HARMLESS,
    OBEYED,
    REFUSED,
    KnownKey,
    PassedOver,
    Table,
    bookkeeper_keys,
    check_keys,
    passed_over,
    pulsar_keys,
)
from labkit.worlds.live.processes import broker_config, server_config
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.processes.server_config import parse_server_config

KEYS = Path(__file__).parent / "keys"
OF_BOOKKEEPER = ("bookkeeper-4.18.0.txt", "bk_server.conf-4.18.0.txt")
OF_PULSAR = ("pulsar-4.2.4.txt", "broker.conf.txt")
CLIENT = "bookkeeper_"
OURS = "labkit"
TABLES = pytest.mark.parametrize("keys", [bookkeeper_keys, pulsar_keys])
REFUSING = [
    (table, key)
    for table in (bookkeeper_keys(), pulsar_keys())
    for key in table.values()
    if key.kind in (REFUSED, BY_A_BOOKIE)
]


def lines(*names: str) -> list[str]:
    return [line for name in names for line in (KEYS / name).read_text("utf-8").splitlines()]


def names(*lists: str) -> set[str]:
    return {line.partition("=")[0] for line in lines(*lists)}


def with_values(*lists: str) -> dict[str, str]:
    """The keys that have a value there."""
    pairs = (line.partition("=") for line in lines(*lists))
    return {name: value for name, equals, value in pairs if equals}


@pytest.mark.parametrize(
    ("keys", "lists"), [(bookkeeper_keys, OF_BOOKKEEPER), (pulsar_keys, OF_PULSAR)]
)
def test_the_table_has_each_key(keys: Callable[[], Table], lists: tuple[str, ...]) -> None:
    table = {name for name in keys() if not name.startswith((CLIENT, OURS))}
    assert table == names(*lists)


@pytest.mark.parametrize(
    ("keys", "module"), [(bookkeeper_keys, server_config), (pulsar_keys, broker_config)]
)
def test_what_the_table_calls_obeyed_is_what_labkit_reads(
    keys: Callable[[], Table], module: object
) -> None:
    obeyed = {key.name for key in keys().values() if key.kind == OBEYED}
    assert obeyed == module.OBEYED_KEYS  # type: ignore[attr-defined]


@TABLES
def test_every_key_has_a_kind_and_a_reason_unless_it_is_obeyed(keys: Callable[[], Table]) -> None:
    kinds = {OBEYED, REFUSED, BY_A_BOOKIE, HARMLESS}
    assert {key.kind for key in keys().values()} <= kinds
    assert [key.name for key in keys().values() if not key.why and key.kind != OBEYED] == []


@pytest.mark.parametrize(("table", "key"), REFUSING, ids=lambda it: getattr(it, "name", ""))
def test_a_refused_key_is_named_and_what_labkit_does_anyway_is_accepted(
    table: Table, key: KnownKey
) -> None:
    for value in (*key.accepted, ""):
        assert passed_over({key.name: value}, table) == PassedOver()
    with pytest.raises(BKIncorrectParameterException, match=f"^{key.name} asks for .*remove it"):
        passed_over({key.name: "other"}, table)


@pytest.mark.parametrize(
    ("keys", "published"),
    [
        (bookkeeper_keys, with_values("bk_server.conf-4.18.0.txt")),
        (pulsar_keys, with_values("pulsar-4.2.4.txt")),
    ],
)
def test_a_published_default_is_never_refused(
    keys: Callable[[], Table], published: dict[str, str]
) -> None:
    assert passed_over(published, keys()).unknown == {}


@pytest.mark.parametrize(
    "line",
    [
        "tlsKeyStore=/its/path",
        "bookieAuthProviderFactoryClass=org.example.Auth",
        "journalSyncData=false",
        "journalWriteData=false",
        "zkEnableSecurity=true",
        "delayEnsembleChange=true",
    ],
)
def test_a_bookie_does_not_start_without_what_decides_on_durability_place_or_access(
    line: str,
) -> None:
    with pytest.raises(BKIncorrectParameterException, match=line.partition("=")[0]):
        parse_server_config(line.encode(), "the.conf")


@pytest.mark.parametrize(
    "line",
    [
        "authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderTls",
        "anonymousUserRole=somebody",
        "tlsRequireTrustedClientCertOnConnect=true",
        "encryptionRequireOnProducer=true",
        "managedLedgerDigestType=MAC",
        "managedLedgerOffloadDriver=aws-s3",
        "bookkeeperClientIsolationGroups=group",
        "subscriptionTypesEnabled=Exclusive",
        "bookkeeper_delayEnsembleChange=true",
        "bookkeeper_tlsKeyStore=/its/path",
        "bookkeeper_zkServers=elsewhere:2181",
    ],
)
def test_nor_does_a_broker(line: str) -> None:
    key, _, value = line.partition("=")
    with pytest.raises(BKIncorrectParameterException, match=f"^{key} asks"):
        passed_over({key: value}, pulsar_keys())


def test_a_refusal_shows_no_password() -> None:
    with pytest.raises(BKIncorrectParameterException) as refused:
        passed_over({"tlsKeyStorePassword": "sesame"}, pulsar_keys())
    assert "sesame" not in str(refused.value)


def test_a_switch_may_be_written_in_capitals() -> None:
    assert passed_over({"journalSyncData": "TRUE"}, bookkeeper_keys()) == PassedOver()


def test_an_unknown_key_is_ignored_and_the_one_that_may_be_meant_is_named() -> None:
    found = passed_over({"joumalSyncData": "true", "xyzzy": "1"}, bookkeeper_keys())
    assert found.unknown == {"joumalSyncData": "journalSyncData", "xyzzy": ""}
    assert found.lines() == [
        "no such key, and without effect: joumalSyncData (journalSyncData?), xyzzy"
    ]


def test_keys_without_effect_are_named_in_a_line_however_many_there_are() -> None:
    assert PassedOver(("a", "b")).lines() == ["without effect here: a, b"]
    [line] = PassedOver(tuple(f"key{number}" for number in range(23))).lines()
    assert line.endswith(", key18, key19 and 3 others")
    assert PassedOver().lines() == []


def test_autorecovery_alone_does_not_mind_what_its_bookies_store() -> None:
    storage = b"ledgerStorageClass=org.example.Storage"
    assert not parse_server_config(storage, "the.conf", bookie=False).passed_over.unknown
    with pytest.raises(BKIncorrectParameterException, match="tlsKeyStore"):
        parse_server_config(b"tlsKeyStore=/its/path", "the.conf", bookie=False)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"openLedgerRereplicationGracePeriod": 1000, "numAddWorkerThreads": 4}, ""),
        ({"openLedgerRereplicationGrace": 1000}, "is it openLedgerRereplicationGracePeriod"),
        ({"xyzzy": 1}, "there is no key xyzzy$"),
        ({"journalSyncData": "false"}, "journalSyncData asks"),
    ],
)
def test_a_cluster_in_python_refuses_impossible_and_unknown_keys(
    keys: dict[str, object], reason: str
) -> None:
    if not reason:
        check_keys(keys, bookkeeper_keys())
        return
    with pytest.raises(BKIncorrectParameterException, match=reason):
        check_keys(keys, bookkeeper_keys())
    with pytest.raises(BKIncorrectParameterException, match=reason):
        LocalCluster(autorecovery=keys)
