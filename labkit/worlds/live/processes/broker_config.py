"""A broker's settings, from Pulsar's configuration file `broker.conf` and the command line.

Each field declares its key in the file. `config/known_keys` explains what happens with other keys.

In Pulsar: `broker/ServiceConfiguration.java`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from labkit.system.broker.config import BrokerConfig
from labkit.system.client.context import ClientConfig
from labkit.system.metadata.location import MetadataLocation, parse_location
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.settings import InvalidSettingException, check_ranges, setting
from labkit.system.topic.config import PULSAR_DEFAULTS, ManagedLedgerConfig
from labkit.worlds.live.config.known_keys import (
    REFUSED,
    KnownKeys,
    RefusedKey,
    obeyed_keys,
    refused_keys,
)
from labkit.worlds.live.config.metadata_option import resolve_metadata_option
from labkit.worlds.live.config.properties import (
    explain_setting_errors,
    fields_in,
    parse_properties,
    read_configuration,
)
from labkit.worlds.live.config.token_config import TokenKeys, token_settings
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.processes.server_config import BOOKKEEPER_KEYS
from labkit.worlds.live.tokens import TokenSettings

_PLAIN, _PARTITIONED = "non-partitioned", "partitioned"
_PULSAR_MAX_MESSAGE_SIZE = "5242880"
"""Pulsar's default for `maxMessageSize`. A message of this size plus its metadata exceeds the
bookies' default frame size, so this value is taken to mean the largest size that fits.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings of a broker process.

    Port 0 selects a free port. Without a certificate, the broker has no TLS port. If `tokens` is
    set, clients must present a valid token. If `super_user_roles` is set (even if empty), all other
    roles need grants. Raises `BKIncorrectParameterException` for a value out of range.
    """

    broker_id: str
    metadata: MetadataLocation
    broker: BrokerConfig
    client: ClientConfig
    trace_from_start: bool
    host: str = setting(LOOPBACK, "advertisedAddress")
    port: int = setting(0, "brokerServicePort", at_least=0, at_most=65535)
    tls_port: int = setting(0, "brokerServicePortTls", at_least=0, at_most=65535)
    web_port: int = setting(0, "webServicePort", at_least=0, at_most=65535)
    certificate: Path | None = setting(None, "tlsCertificateFilePath")
    private_key: Path | None = setting(None, "tlsKeyFilePath")
    tokens: TokenSettings | None = None
    super_user_roles: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_ranges(self)
        if (self.certificate is None) != (self.private_key is None):
            raise BKIncorrectParameterException(
                "TLS requires both tlsCertificateFilePath and tlsKeyFilePath"
            )


class BrokerOptions(Protocol):
    """The command line options of a broker. Options that were not given are None."""

    id: str | None
    zookeeper: str | None
    conf: Path | None
    port: int | None
    web_port: int | None
    trace_from_start: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _BrokerFile:
    """Keys of `broker.conf` that are not settings themselves, but determine settings."""

    allow_auto_topic_creation_type: str = setting(_PLAIN, "allowAutoTopicCreationType")
    authentication_enabled: bool = setting(False, "authenticationEnabled")
    authorization_enabled: bool = setting(False, "authorizationEnabled")
    super_user_roles: tuple[str, ...] = setting((), "superUserRoles")
    metadata_store_url: str = setting("", "metadataStoreUrl")
    zookeeper_servers: str = setting("", "zookeeperServers")
    bookkeeper_metadata_service_uri: str = setting("", "bookkeeperMetadataServiceUri")
    configuration_metadata_store_url: str = setting("", "configurationMetadataStoreUrl")
    configuration_store_servers: str = setting("", "configurationStoreServers")
    global_zookeeper_servers: str = setting("", "globalZookeeperServers")

    def __post_init__(self) -> None:
        if self.allow_auto_topic_creation_type not in (_PLAIN, _PARTITIONED):
            raise InvalidSettingException(
                self, f"{{allow_auto_topic_creation_type}}; expected {_PLAIN} or {_PARTITIONED}"
            )
        if self.authorization_enabled and not self.authentication_enabled:
            raise InvalidSettingException(
                self,
                "{authorization_enabled.name} requires {authentication_enabled.name}=true, because"
                " a client's role is taken from its token",
            )

    def metadata(self, option: str | None) -> MetadataLocation:
        """Return the location of the metadata.

        Topics and ledgers are stored below the same path in the same ZooKeeper. `option` is the
        value of `--zookeeper`. Raises `BKIncorrectParameterException`.
        """
        configured = self._configured_location()
        if not option:
            if configured is None or not (self.metadata_store_url or self.zookeeper_servers):
                raise BKIncorrectParameterException(
                    "specify --zookeeper, or metadataStoreUrl in a file passed with --conf"
                )
            return configured
        if configured is None:
            return parse_location(option)
        keys = "metadataStoreUrl or bookkeeperMetadataServiceUri"
        path = configured.chroot + configured.ledgers_root
        return resolve_metadata_option(option, keys, path, configured.layout)

    def _configured_location(self) -> MetadataLocation | None:
        uri = self.bookkeeper_metadata_service_uri
        topics = self.metadata_store_url.removeprefix("zk:") or self.zookeeper_servers
        if not topics:
            return parse_location(uri) if uri else None
        location = parse_location(topics)
        for name in (
            "configuration_metadata_store_url",
            "configuration_store_servers",
            "global_zookeeper_servers",
        ):
            store = getattr(self, name).removeprefix("zk:")
            if store and parse_location(store) != location:
                raise InvalidSettingException(
                    self,
                    f"{{{name}}}; labkit's broker keeps namespaces in the same store as topics:"
                    " remove this key, or give it the same servers as {metadata_store_url.name}",
                )
        ledgers = parse_location(uri) if uri else location
        if (ledgers.servers, ledgers.chroot) != (location.servers, location.chroot):
            raise InvalidSettingException(
                self,
                "{bookkeeper_metadata_service_uri}; labkit's broker keeps ledgers in the same store"
                " as topics: use"
                f" zk+null://{location.servers.replace(',', ';')}{location.chroot}/ledgers"
                " (the last component may have another name)",
            )
        return ledgers


_OBEYED = obeyed_keys(
    (
        ManagedLedgerConfig,
        BrokerConfig,
        ClientConfig,
        BrokerSettings,
        TokenKeys,
        TokenSettings,
        _BrokerFile,
    )
)
_CLIENT_PREFIX = "bookkeeper_"
"""The prefix of keys that Pulsar passes to the BookKeeper client."""


def _refused_keys() -> Iterator[RefusedKey]:
    yield from refused_keys("pulsar_refused_keys.tsv")
    for key in BOOKKEEPER_KEYS.refused.values():
        if key.by == REFUSED:
            yield replace(key, name=_CLIENT_PREFIX + key.name)
    for name in sorted(BOOKKEEPER_KEYS.obeyed):
        if _CLIENT_PREFIX + name not in _OBEYED:
            why = "it is a setting of bookies, not of their clients"
            yield RefusedKey(_CLIENT_PREFIX + name, REFUSED, (), why)


PULSAR_KEYS = KnownKeys(_OBEYED, {key.name: key for key in _refused_keys()})
"""The keys of `broker.conf`, including those that Pulsar passes to the BookKeeper client."""


def broker_settings(options: BrokerOptions) -> tuple[BrokerSettings, Mapping[str, str]]:
    """Return a broker's settings, and the keys in the file that have no effect.

    The command line takes precedence over the file, and the file over the defaults. Each unused key
    is mapped to the known key that was probably meant, or to "". Raises
    `BKIncorrectParameterException`.
    """
    properties: dict[str, str] = {}
    if options.conf is not None:
        properties = parse_properties(read_configuration(options.conf), str(options.conf))
    unused = PULSAR_KEYS.unused(properties)
    process = fields_in(properties, BrokerSettings)
    for name in ("port", "web_port"):
        if (given := getattr(options, name)) is not None:
            process[name] = given
    if not options.id:
        raise BKIncorrectParameterException("specify --id")
    if "tls_port" in process and "certificate" not in process:
        raise BKIncorrectParameterException(
            f"brokerServicePortTls is {process['tls_port']}, but TLS requires"
            " tlsCertificateFilePath and tlsKeyFilePath"
        )
    with explain_setting_errors(properties, options):
        file = _BrokerFile(**fields_in(properties, _BrokerFile))
        settings = BrokerSettings(
            **process,
            broker_id=options.id,
            metadata=file.metadata(options.zookeeper),
            tokens=token_settings(properties) if file.authentication_enabled else None,
            super_user_roles=file.super_user_roles if file.authorization_enabled else None,
            broker=_broker_config(properties, file),
            client=ClientConfig(**fields_in(properties, ClientConfig)),
            trace_from_start=options.trace_from_start,
        )
    return settings, unused


def _broker_config(properties: Mapping[str, str], file: _BrokerFile) -> BrokerConfig:
    ledgers = replace(PULSAR_DEFAULTS, **fields_in(properties, ManagedLedgerConfig))
    if (ledgers.retention_time_ms == 0) != (ledgers.retention_size_bytes == 0):
        # Pulsar's brokers accept this in the file, but reject it as a namespace policy.
        raise BKIncorrectParameterException(
            "only one of defaultRetentionTimeInMinutes and defaultRetentionSizeInMB is 0, so"
            " nothing would be retained: set that key to -1 (no limit) or to a positive value, or"
            " set both keys to 0"
        )
    fields = {"default_num_partitions": 1, **fields_in(properties, BrokerConfig)}
    if properties.get("maxMessageSize") == _PULSAR_MAX_MESSAGE_SIZE:
        del fields["max_message_size"]
    config = BrokerConfig(**fields, managed_ledger=ledgers)
    is_plain = file.allow_auto_topic_creation_type == _PLAIN
    return replace(config, default_num_partitions=0) if is_plain else config
