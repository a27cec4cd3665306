"""A broker's settings from Pulsar's own configuration file, `broker.conf`.

Keys are Pulsar's; `known_keys` says which are obeyed, refused or ignored with a line.

In Pulsar: `broker/ServiceConfiguration.java`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from labkit.system.broker.config import BrokerConfig
from labkit.system.client.context import ClientConfig
from labkit.system.metadata.place import MetadataPlace, parse_place
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.topic.config import PULSAR_DEFAULTS, UNLIMITED
from labkit.worlds.live.config.known_keys import PassedOver, passed_over, pulsar_keys
from labkit.worlds.live.config.metadata_option import place_of_option
from labkit.worlds.live.config.properties import (
    Keys,
    boolean,
    configured,
    naming,
    parse_properties,
    read_configuration,
    values,
)
from labkit.worlds.live.config.token_config import token_settings
from labkit.worlds.live.net import LOOPBACK
from labkit.worlds.live.tokens import TokenSettings


def _times(unit: int) -> Callable[[str], int]:
    """Reads a number of units; a negative number means no limit."""
    return lambda text: int(text) * unit if int(text) >= 0 else UNLIMITED


def _message_size(text: str) -> int:
    """Pulsar's default does not fit, with metadata, into the bookies' default frame; here it means
    the largest size that fits.
    """
    return BrokerConfig().max_message_size if int(text) == _PULSARS_SIZE else int(text)


_PLAIN, _PARTITIONED = "non-partitioned", "partitioned"
_PULSARS_SIZE = 5 * 1024 * 1024
_MINUTES = _times(60 * 1000)
_SECONDS = _times(1000)
_MEBIBYTES = _times(1024 * 1024)

_LEDGER_KEYS: Keys = {
    "managedLedgerDefaultEnsembleSize": ("ensemble_size", int),
    "managedLedgerDefaultWriteQuorum": ("write_quorum", int),
    "managedLedgerDefaultAckQuorum": ("ack_quorum", int),
    "managedLedgerMaxEntriesPerLedger": ("max_entries_per_ledger", int),
    "managedLedgerMaxSizePerLedgerMbytes": ("max_ledger_size_bytes", _MEBIBYTES),
    "managedLedgerMaxLedgerRolloverTimeMinutes": ("max_ledger_age_ms", _MINUTES),
    "managedLedgerMinLedgerRolloverTimeMinutes": ("min_ledger_age_ms", _MINUTES),
    "defaultRetentionTimeInMinutes": ("retention_time_ms", _MINUTES),
    "defaultRetentionSizeInMB": ("retention_size_bytes", _MEBIBYTES),
    "retentionCheckIntervalInSeconds": ("check_interval_ms", _SECONDS),
    "managedLedgerCursorMaxEntriesPerLedger": ("max_entries_per_cursor_ledger", int),
    "managedLedgerCursorRolloverTimeInSeconds": ("max_cursor_ledger_age_ms", _SECONDS),
    "managedLedgerMaxUnackedRangesToPersist": ("max_ranges_stored", int),
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore": ("max_ranges_in_node", int),
    "managedLedgerCacheSizeMB": ("entry_cache_size_bytes", _MEBIBYTES),
}

_BROKER_KEYS: Keys = {
    "clusterName": ("cluster_name", str),
    "ttlDurationDefaultInSeconds": ("ttl_duration_default_s", int),
    "messageExpiryCheckIntervalInMinutes": (
        "message_expiry_check_interval_s",
        lambda text: 60 * float(text),
    ),
    "maxMessageSize": ("max_message_size", _message_size),
    "keepAliveIntervalSeconds": ("keep_alive_interval_s", float),
    "authenticationRefreshCheckSeconds": ("authentication_refresh_check_s", float),
    "allowAutoTopicCreation": ("allow_auto_topic_creation", boolean),
    "maxNumPartitionsPerPartitionedTopic": ("max_num_partitions_per_partitioned_topic", int),
    "brokerDeduplicationEnabled": ("broker_deduplication_enabled", boolean),
    "dispatcherReadFailureBackoffInitialTimeInMs": (
        "dispatcher_read_failure_backoff_initial_ms",
        int,
    ),
    "dispatcherReadFailureBackoffMaxTimeInMs": ("dispatcher_read_failure_backoff_max_ms", int),
}

_CLIENT_KEYS: Keys = {
    "bookkeeperExplicitLacIntervalInMills": ("explicit_lac_interval_ms", int),
    "bookkeeperClientMinNumRacksPerWriteQuorum": ("min_num_racks_per_write_quorum", int),
    "bookkeeperClientEnforceMinNumRacksPerWriteQuorum": (
        "enforce_min_num_racks_per_write_quorum",
        boolean,
    ),
    "bookkeeper_addEntryQuorumTimeoutSec": ("add_entry_quorum_timeout_s", float),
    "bookkeeper_maxNumEnsembleChanges": ("max_allowed_ensemble_changes", int),
}

_PROCESS_KEYS: Keys = {
    "advertisedAddress": ("host", str),
    "brokerServicePort": ("port", int),
    "brokerServicePortTls": ("tls_port", int),
    "webServicePort": ("web_port", int),
    "tlsCertificateFilePath": ("certificate", Path),
    "tlsKeyFilePath": ("private_key", Path),
}

_OTHER_KEYS = {
    "allowAutoTopicCreationType",
    "authenticationEnabled",
    "authorizationEnabled",
    "bookkeeperMetadataServiceUri",
    "defaultNumPartitions",
    "metadataStoreUrl",
    "superUserRoles",
    "tokenAllowedClockSkewSeconds",
    "tokenAudience",
    "tokenAudienceClaim",
    "tokenAuthClaim",
    "tokenPublicAlg",
    "tokenPublicKey",
    "tokenSecretKey",
    "zookeeperServers",
}
_TOPIC_STORES = ("metadataStoreUrl", "zookeeperServers")
_CONFIGURATION_STORES = (
    "configurationMetadataStoreUrl",
    "configurationStoreServers",
    "globalZookeeperServers",
)
OBEYED_KEYS = _OTHER_KEYS.union(
    _LEDGER_KEYS, _BROKER_KEYS, _CLIENT_KEYS, _PROCESS_KEYS, _CONFIGURATION_STORES
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings of a broker's process.

    Port 0 takes a free one; without a certificate there is no TLS port.  With `tokens` clients must
    present a valid token; with `super_user_roles`, which may be empty, all other roles need grants.
    Raises `BKIncorrectParameterException` when a value is out of range.
    """

    broker_id: str
    metadata: MetadataPlace
    broker: BrokerConfig
    client: ClientConfig
    trace_from_start: bool
    host: str = LOOPBACK
    port: int = 0
    tls_port: int = 0
    web_port: int = 0
    certificate: Path | None = None
    private_key: Path | None = None
    tokens: TokenSettings | None = None
    super_user_roles: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("port", "tls_port", "web_port"):
            if not 0 <= getattr(self, name) <= 65535:
                raise BKIncorrectParameterException(
                    f"{name} is {getattr(self, name)}; allowed are 1 to 65535, and 0 for a free one"
                )
        if (self.certificate is None) != (self.private_key is None):
            raise BKIncorrectParameterException(
                "TLS needs both tlsCertificateFilePath and tlsKeyFilePath"
            )


class BrokerOptions(Protocol):
    """Options of the command line; None where an option is not given."""

    id: str | None
    zookeeper: str | None
    conf: Path | None
    port: int | None
    web_port: int | None
    trace_from_start: bool


def broker_settings(options: BrokerOptions) -> tuple[BrokerSettings, PassedOver]:
    """A broker's settings, from the command line, the file or the defaults, in this order; and the
    file's keys that have no effect here.

    Raises `BKIncorrectParameterException`, and `OSError` when a file cannot be read.
    """
    properties: dict[str, str] = {}
    if options.conf is not None:
        properties = parse_properties(read_configuration(options.conf), str(options.conf))
    without_effect = passed_over(properties, pulsar_keys())
    process = values(properties, _PROCESS_KEYS)
    for name in ("port", "web_port"):
        if (given := getattr(options, name)) is not None:
            process[name] = given
    if not options.id:
        raise BKIncorrectParameterException("give --id")
    if "tls_port" in process and "certificate" not in process:
        raise BKIncorrectParameterException(
            f"brokerServicePortTls is {process['tls_port']}; TLS needs tlsCertificateFilePath and"
            " tlsKeyFilePath, too"
        )
    settings = partial(
        BrokerSettings,
        broker_id=options.id,
        metadata=_metadata(options.zookeeper, properties),
        tokens=_tokens(properties),
        super_user_roles=_super_user_roles(properties),
        broker=_broker_config(properties),
        client=configured(ClientConfig, _CLIENT_KEYS, properties),
        trace_from_start=options.trace_from_start,
        **process,
    )
    with naming(_PROCESS_KEYS, properties, options):
        return settings(), without_effect


def _broker_config(properties: Mapping[str, str]) -> BrokerConfig:
    ledgers = configured(partial(replace, PULSAR_DEFAULTS), _LEDGER_KEYS, properties)
    if (ledgers.retention_time_ms == 0) != (ledgers.retention_size_bytes == 0):
        # Pulsar's brokers accept this here, but refuse it as a namespace's policy.
        raise BKIncorrectParameterException(
            "of defaultRetentionTimeInMinutes and defaultRetentionSizeInMB only one is 0, which"
            " keeps nothing: set the other one to -1 (no limit) or above, or both to 0"
        )
    config = partial(BrokerConfig, managed_ledger=ledgers)
    kind = properties.get("allowAutoTopicCreationType") or _PLAIN
    if kind not in (_PLAIN, _PARTITIONED):
        raise BKIncorrectParameterException(
            f"allowAutoTopicCreationType is {kind}; it must be {_PLAIN} or {_PARTITIONED}"
        )
    keys: Keys = {**_BROKER_KEYS, "defaultNumPartitions": ("default_num_partitions", int)}
    partitioned = configured(partial(config, default_num_partitions=1), keys, properties)
    return replace(partitioned, default_num_partitions=0) if kind == _PLAIN else partitioned


def _metadata(option: str | None, properties: Mapping[str, str]) -> MetadataPlace:
    """The place of topics and ledgers: both are below one path of one ZooKeeper."""
    named = _named_place(properties)
    if not option:
        if named is None or not any(map(properties.get, _TOPIC_STORES)):
            raise BKIncorrectParameterException("give --zookeeper")
        return named
    if named is None:
        return parse_place(option)
    keys = "metadataStoreUrl or bookkeeperMetadataServiceUri"
    return place_of_option(option, keys, named.chroot + named.ledgers_root, named.layout)


def _named_place(properties: Mapping[str, str]) -> MetadataPlace | None:
    """The place that the file names; None if it names none."""
    url = properties.get("metadataStoreUrl", "").removeprefix("zk:")
    uri = properties.get("bookkeeperMetadataServiceUri", "")
    topics = url or properties.get("zookeeperServers", "")
    if not topics:
        return parse_place(uri) if uri else None
    place = parse_place(topics)
    for key in _CONFIGURATION_STORES:
        configured = properties.get(key, "").removeprefix("zk:")
        if configured and parse_place(configured) != place:
            raise BKIncorrectParameterException(
                f"{key} is {configured}; labkit's broker keeps namespaces beside topics: remove it,"
                " or name the same servers as in metadataStoreUrl"
            )
    ledgers = parse_place(uri) if uri else place
    if (ledgers.servers, ledgers.chroot) != (place.servers, place.chroot):
        raise BKIncorrectParameterException(
            f"bookkeeperMetadataServiceUri is {uri}; labkit's broker keeps ledgers beside topics:"
            f" write zk+null://{place.servers.replace(',', ';')}{place.chroot}/ledgers, or another"
            " name in place of ledgers"
        )
    return ledgers


def _super_user_roles(properties: Mapping[str, str]) -> tuple[str, ...] | None:
    keys = {key: (key, boolean) for key in ("authorizationEnabled", "authenticationEnabled")}
    enabled = values(properties, keys)
    if not enabled.get("authorizationEnabled"):
        return None
    if not enabled.get("authenticationEnabled"):
        raise BKIncorrectParameterException(
            "authorizationEnabled needs authenticationEnabled=true: a role comes with a token"
        )
    roles = properties.get("superUserRoles", "").split(",")
    return tuple(role.strip() for role in roles if role.strip())


def _tokens(properties: Mapping[str, str]) -> TokenSettings | None:
    on = values(properties, {"authenticationEnabled": ("on", boolean)}).get("on")
    return token_settings(properties) if on else None
