"""Tests which BookKeeper and Pulsar configuration keys labkit honours, rejects or ignores."""

from pathlib import Path

import pytest

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.storage.config import StorageConfig
from labkit.worlds.live.config.known_keys import KnownKeys, RefusedKey, describe_unused
from labkit.worlds.live.processes.broker_config import PULSAR_KEYS
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.processes.server_config import BOOKKEEPER_KEYS, parse_server_config

KEYS = Path(__file__).parent / "keys"
OF_BOOKKEEPER = ("bookkeeper-4.18.0.txt", "bk_server.conf-4.18.0.txt")
OF_PULSAR = ("pulsar-4.2.4.txt", "broker.conf.txt")
CLIENT = "bookkeeper_"
OURS = "labkit"
REFUSING = [
    (table, key) for table in (BOOKKEEPER_KEYS, PULSAR_KEYS) for key in table.refused.values()
]


def lines(*names: str) -> list[str]:
    return [line for name in names for line in (KEYS / name).read_text("utf-8").splitlines()]


def names(*lists: str) -> set[str]:
    return {line.partition("=")[0] for line in lines(*lists)}


def with_values(*lists: str) -> dict[str, str]:
    """Return the keys in these lists that have a value."""
    pairs = (line.partition("=") for line in lines(*lists))
    return {name: value for name, equals, value in pairs if equals}


@pytest.mark.parametrize(
    ("table", "lists"), [(BOOKKEEPER_KEYS, OF_BOOKKEEPER), (PULSAR_KEYS, OF_PULSAR)]
)
def test_each_key_is_one_of_bookkeepers_or_pulsars(
    table: KnownKeys, lists: tuple[str, ...]
) -> None:
    ours = {name for name in (*table.obeyed, *table.refused) if not name.startswith(OURS)}
    client = {CLIENT + name for name in names(*OF_BOOKKEEPER)}
    assert ours - names(*lists) - client <= {CLIENT + name for name in BOOKKEEPER_KEYS.obeyed}
    assert not table.obeyed.keys() & table.refused.keys()


@pytest.mark.parametrize(("table", "key"), REFUSING, ids=lambda it: getattr(it, "name", ""))
def test_a_refused_key_is_named_and_what_labkit_does_anyway_is_accepted(
    table: KnownKeys, key: RefusedKey
) -> None:
    for value in (*key.accepted, ""):
        assert table.unused({key.name: value}) == {}
    message = f"^labkit does not support this value of {key.name}: .+; remove the key"
    with pytest.raises(BKIncorrectParameterException, match=message):
        table.unused({key.name: "other"})


@pytest.mark.parametrize(
    ("table", "published"),
    [
        (BOOKKEEPER_KEYS, with_values("bk_server.conf-4.18.0.txt")),
        (PULSAR_KEYS, with_values("pulsar-4.2.4.txt")),
    ],
)
def test_a_published_default_is_never_refused(table: KnownKeys, published: dict[str, str]) -> None:
    assert published.keys() > table.unused(published).keys()


@pytest.mark.parametrize(
    ("table", "line"),
    [
        *(
            (BOOKKEEPER_KEYS, line)
            for line in (
                "tlsKeyStore=/its/path",
                "bookieAuthProviderFactoryClass=org.example.Auth",
                "journalSyncData=false",
                "journalWriteData=false",
                "zkEnableSecurity=true",
                "delayEnsembleChange=true",
            )
        ),
        *(
            (PULSAR_KEYS, line)
            for line in (
                "authenticationProviders=org.apache.pulsar.broker.authentication."
                "AuthenticationProviderTls",
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
            )
        ),
    ],
)
def test_no_server_starts_without_what_decides_on_durability_place_or_access(
    table: KnownKeys, line: str
) -> None:
    key, _, value = line.partition("=")
    with pytest.raises(
        BKIncorrectParameterException, match=f"^labkit does not support this value of {key}:"
    ):
        table.unused({key: value})


def test_a_refusal_shows_no_password() -> None:
    with pytest.raises(BKIncorrectParameterException) as refused:
        PULSAR_KEYS.unused({"tlsKeyStorePassword": "sesame"})
    assert "sesame" not in str(refused.value)


def test_a_switch_may_be_written_in_capitals() -> None:
    assert BOOKKEEPER_KEYS.unused({"journalSyncData": "TRUE"}) == {}


def test_an_unknown_key_is_ignored_and_the_one_that_may_be_meant_is_named_first() -> None:
    found = BOOKKEEPER_KEYS.unused({"joumalSyncData": "true", "aKey": "1", "another": ""})
    assert found == {"joumalSyncData": "journalSyncData", "aKey": ""}
    assert describe_unused(found) == (
        "labkit does not use these keys: joumalSyncData (did you mean journalSyncData?), aKey"
    )


def test_keys_without_effect_are_named_in_a_line_however_many_there_are() -> None:
    line = describe_unused({f"key{number}": "" for number in range(23)})
    assert line.endswith(", key18, key19 and 3 others")


def test_autorecovery_alone_does_not_mind_what_its_bookies_store() -> None:
    for line in (b"ledgerStorageClass=org.example.Storage", b"journalSyncData=false"):
        assert parse_server_config(line, "the.conf", bookie=False).storage == StorageConfig()
    with pytest.raises(BKIncorrectParameterException, match="tlsKeyStore"):
        parse_server_config(b"tlsKeyStore=/its/path", "the.conf", bookie=False)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"openLedgerRereplicationGracePeriod": 1000}, ""),
        ({"openLedgerRereplicationGrace": 1000}, "mean openLedgerRereplicationGracePeriod"),
        ({"numAddWorkerThreads": 4}, "not use the key numAddWorkerThreads$"),
        ({"journalSyncData": "false"}, "this value of journalSyncData"),
    ],
)
def test_a_cluster_in_python_refuses_impossible_and_unknown_keys(
    keys: dict[str, object], reason: str
) -> None:
    if not reason:
        BOOKKEEPER_KEYS.require_used(keys)
        return
    with pytest.raises(BKIncorrectParameterException, match=reason):
        BOOKKEEPER_KEYS.require_used(keys)
    with pytest.raises(BKIncorrectParameterException, match=reason):
        LocalCluster(autorecovery=keys)
