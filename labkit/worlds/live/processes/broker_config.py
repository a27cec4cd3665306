"""A broker's settings from Pulsar's own configuration file, `broker.conf`.

A field's key stands beside it; `config/known_keys` says what happens with other keys.

In Pulsar: `broker/ServiceConfiguration.java`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from labkit.system.broker.config import BrokerConfig
from labkit.system.client.context import ClientConfig
from labkit.system.metadata.place import MetadataPlace, parse_place
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
from labkit.worlds.live.config.metadata_option import place_of_option
from labkit.worlds.live.config.properties import (
    errors_name_keys,
    fields_in,
    parse_properties,
    read_configuration,
)
from labkit.worlds.live.config.token_config import TokenKeys, token_settings
from labkit.worlds.live.net import LOOPBACK
from labkit.worlds.live.processes.server_config import BOOKKEEPER_KEYS
from labkit.worlds.live.tokens import TokenSettings

_PLAIN, _PARTITIONED = "non-partitioned", "partitioned"
_PULSARS_MESSAGE_SIZE = "5242880"
"""Pulsar's default of `maxMessageSize`.  With metadata it does not fit into the bookies' default
frame; here it means the largest size that fits.
"""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _BrokerFile:
    """The keys of `broker.conf` on which several settings depend."""

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
                self, f"{{allow_auto_topic_creation_type}}; it must be {_PLAIN} or {_PARTITIONED}"
            )
        if self.authorization_enabled and not self.authentication_enabled:
            raise InvalidSettingException(
                self,
                "{authorization_enabled.name} needs {authentication_enabled.name}=true: a role"
                " comes with a token",
            )

    def metadata(self, option: str | None) -> MetadataPlace:
        """The place of topics and ledgers, which are below one path of one ZooKeeper.

        `option` is the option `--zookeeper`.  Raises `BKIncorrectParameterException`.
        """
        named = self._named_place()
        if not option:
            if named is None or not (self.metadata_store_url or self.zookeeper_servers):
                raise BKIncorrectParameterException("give --zookeeper")
            return named
        if named is None:
            return parse_place(option)
        keys = "metadataStoreUrl or bookkeeperMetadataServiceUri"
        return place_of_option(option, keys, named.chroot + named.ledgers_root, named.layout)

    def _named_place(self) -> MetadataPlace | None:
        """Return the metadata place that the file configures, or None."""
        uri = self.bookkeeper_metadata_service_uri
        topics = self.metadata_store_url.removeprefix("zk:") or self.zookeeper_servers
        if not topics:
            return parse_place(uri) if uri else None
        place = parse_place(topics)
        for name in (
            "configuration_metadata_store_url",
            "configuration_store_servers",
            "global_zookeeper_servers",
        ):
            store = getattr(self, name).removeprefix("zk:")
            if store and parse_place(store) != place:
                raise InvalidSettingException(
                    self,
                    f"{{{name}}}; labkit's broker keeps namespaces beside topics: remove it, or"
                    " name the same servers as in {metadata_store_url.name}",
                )
        ledgers = parse_place(uri) if uri else place
        if (ledgers.servers, ledgers.chroot) != (place.servers, place.chroot):
            raise InvalidSettingException(
                self,
                "{bookkeeper_metadata_service_uri}; labkit's broker keeps ledgers beside topics:"
                f" write zk+null://{place.servers.replace(',', ';')}{place.chroot}/ledgers, or"
                " another name in place of ledgers",
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
_OF_THE_CLIENT = "bookkeeper_"
"""The prefix of the keys that Pulsar passes on to BookKeeper's client."""


def _refused() -> Iterator[RefusedKey]:
    yield from refused_keys("pulsar_refused_keys.tsv")
    for key in BOOKKEEPER_KEYS.refused.values():
        if key.by == REFUSED:
            yield replace(key, name=_OF_THE_CLIENT + key.name)
    for name in sorted(BOOKKEEPER_KEYS.obeyed):
        if _OF_THE_CLIENT + name not in _OBEYED:
            why = "it is a bookie's, not its client's"
            yield RefusedKey(_OF_THE_CLIENT + name, REFUSED, (), why)


PULSAR_KEYS = KnownKeys(_OBEYED, {key.name: key for key in _refused()})
"""The keys of `broker.conf`, and those that Pulsar passes on to BookKeeper's client."""


def broker_settings(options: BrokerOptions) -> tuple[BrokerSettings, Mapping[str, str]]:
    """A broker's settings, from the command line, the file or the defaults, in this order; and the
    file's keys without effect, each with the key that may be meant.

    Raises `BKIncorrectParameterException`.
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
        raise BKIncorrectParameterException("give --id")
    if "tls_port" in process and "certificate" not in process:
        raise BKIncorrectParameterException(
            f"brokerServicePortTls is {process['tls_port']}; TLS needs tlsCertificateFilePath and"
            " tlsKeyFilePath, too"
        )
    with errors_name_keys(properties, options):
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
        # Pulsar's brokers accept this here, but refuse it as a namespace's policy.
        raise BKIncorrectParameterException(
            "of defaultRetentionTimeInMinutes and defaultRetentionSizeInMB only one is 0, which"
            " keeps nothing: set the other one to -1 (no limit) or above, or both to 0"
        )
    fields = {"default_num_partitions": 1, **fields_in(properties, BrokerConfig)}
    if properties.get("maxMessageSize") == _PULSARS_MESSAGE_SIZE:
        del fields["max_message_size"]
    config = BrokerConfig(**fields, managed_ledger=ledgers)
    is_plain = file.allow_auto_topic_creation_type == _PLAIN
    return replace(config, default_num_partitions=0) if is_plain else config
