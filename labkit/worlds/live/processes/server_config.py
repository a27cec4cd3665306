"""Settings of a bookie and of autorecovery, from BookKeeper's own file `bk_server.conf`.

A field's key stands beside it; `config/known_keys` says what happens with other keys.

In BookKeeper: `conf/ServerConfiguration.java`.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.bookie.disk_monitor import DiskConfig
from labkit.system.bookie.garbage_collection import GarbageConfig
from labkit.system.metadata.ledger_layout import LAYOUTS, LedgerLayout
from labkit.system.metadata.place import (
    DEFAULT_LEDGERS_ROOT,
    MetadataPlace,
    parse_place,
    place_of_servers,
)
from labkit.system.metadata.registration import check_bookie_id
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.settings import check_ranges, setting
from labkit.system.storage.config import StorageConfig
from labkit.worlds.live.config.known_keys import KnownKeys, obeyed_keys, refused_keys
from labkit.worlds.live.config.metadata_option import place_of_option
from labkit.worlds.live.config.properties import (
    errors_name_keys,
    fields_in,
    parse_properties,
    read_configuration,
)
from labkit.worlds.live.net import LOOPBACK
from labkit.worlds.live.peers import PeerLimits

_BOOKIE_PORT = 3181
"""BookKeeper's default port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieSettings:
    """The settings of a bookie's process.  Port 0 takes a free one; without `autorecovery` the
    process runs none.

    Directories are kept as configured, even relative to the working directory: the cookie records
    them in this form.

    Raises `BKIncorrectParameterException` when a value is out of range.
    """

    bookie_id: str = setting(key="bookieId")
    metadata: MetadataPlace
    host: str = setting(LOOPBACK, "advertisedAddress")
    journal_dirs: tuple[str, ...] = setting(key="journalDirectories")
    ledger_dirs: tuple[str, ...] = setting(key="ledgerDirectories")
    port: int = setting(0, "bookiePort", at_least=0, at_most=65535)
    flush_interval_ms: int = setting(10_000, "flushInterval", at_least=1)
    storage: StorageConfig
    garbage: GarbageConfig
    disk: DiskConfig
    autorecovery: AutoRecoveryConfig | None
    peers: PeerLimits
    allow_storage_expansion: bool = setting(False, "allowStorageExpansion")
    trace_from_start: bool

    def __post_init__(self) -> None:
        check_bookie_id(self.bookie_id)
        check_ranges(self)
        if not self.journal_dirs or not self.ledger_dirs:
            raise BKIncorrectParameterException(
                "a bookie needs at least one journal directory and one ledger directory"
            )


@dataclass(frozen=True, slots=True)
class AutoRecoverySettings:
    """The settings of an autorecovery process.  Raises `BKIncorrectParameterException`."""

    node: str
    metadata: MetadataPlace
    config: AutoRecoveryConfig
    trace_from_start: bool

    def __post_init__(self) -> None:
        # `whoisauditor` reads the id as a bookie's.
        check_bookie_id(self.node)


class BookieOptions(Protocol):
    """Options of the command line; None where an option is not given."""

    id: str | None
    data: Path | None
    zookeeper: str | None
    port: int | None
    flush_interval_ms: int | None
    trace_from_start: bool


class AutoRecoveryOptions(Protocol):
    """The command line of autorecovery as a separate process."""

    id: str | None
    zookeeper: str | None
    trace_from_start: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """A `bk_server.conf`: settings of a bookie's parts, and keys that several settings depend on.

    `properties` has the keys of the process itself, `unused_keys` those without effect, each with
    the key that may be meant.
    """

    properties: Mapping[str, str]
    unused_keys: Mapping[str, str]
    storage: StorageConfig
    garbage: GarbageConfig
    disk: DiskConfig
    autorecovery: AutoRecoveryConfig
    peers: PeerLimits
    auto_recovery_daemon_enabled: bool = setting(True, "autoRecoveryDaemonEnabled")
    journal_directory: tuple[str, ...] = setting((), "journalDirectory")
    index_directories: tuple[str, ...] = setting((), "indexDirectories")
    metadata_service_uri: str = setting("", "metadataServiceUri")
    zk_servers: str = setting("", "zkServers")
    zk_ledgers_root_path: str = setting("", "zkLedgersRootPath")
    ledger_manager_factory_class: str = setting("", "ledgerManagerFactoryClass")

    @property
    def metadata(self) -> MetadataPlace | None:
        """The place of the cluster's metadata; None if the file names none.

        As in BookKeeper `metadataServiceUri` goes before the older keys.  Raises
        `BKIncorrectParameterException`, for example when they contradict it.
        """
        uri, servers, root = self.metadata_service_uri, self.zk_servers, self.zk_ledgers_root_path
        if not uri:
            layout = _layout(self.ledger_manager_factory_class)
            return (
                place_of_servers(servers, root or DEFAULT_LEDGERS_ROOT, layout) if servers else None
            )
        place = parse_place(uri)
        if root in ("", DEFAULT_LEDGERS_ROOT):
            root = place.chroot + place.ledgers_root
        older = place_of_servers(servers or place.servers, root, place.layout)
        if older != place:
            raise BKIncorrectParameterException(
                f"metadataServiceUri is {uri}, and zkServers and zkLedgersRootPath name {older};"
                " remove these two"
            )
        return place

    def metadata_of_option(self, option: str) -> MetadataPlace:
        """The place that the option `--zookeeper` names beside this file.

        Raises `BKIncorrectParameterException`, for example when they contradict each other.
        """
        if self.metadata_service_uri:
            place = parse_place(self.metadata_service_uri)
            path = place.chroot + place.ledgers_root
            return place_of_option(option, "metadataServiceUri", path, place.layout)
        layout = _layout(self.ledger_manager_factory_class)
        path = self.zk_ledgers_root_path or DEFAULT_LEDGERS_ROOT
        keys = "zkLedgersRootPath or ledgerManagerFactoryClass"
        return place_of_option(option, keys, path, layout)


BOOKKEEPER_KEYS = KnownKeys(
    obeyed_keys(
        (
            StorageConfig,
            GarbageConfig,
            DiskConfig,
            AutoRecoveryConfig,
            PeerLimits,
            BookieSettings,
            ServerConfig,
        )
    ),
    {key.name: key for key in refused_keys("bookkeeper_refused_keys.tsv")},
)
"""The keys of `bk_server.conf`."""


def read_server_config(path: Path, *, bookie: bool = True) -> ServerConfig:
    """Read a `bk_server.conf`.  Raises `BKIncorrectParameterException`."""
    return parse_server_config(read_configuration(path), str(path), bookie=bookie)


def parse_server_config(data: bytes, name: str, *, bookie: bool = True) -> ServerConfig:
    """The settings in the file called `name`, for a `bookie` or for autorecovery alone.

    Raises `BKIncorrectParameterException`, which names the wrong line or key.
    """
    properties = parse_properties(data, name)
    unused = BOOKKEEPER_KEYS.unused(properties, bookie=bookie)
    with errors_name_keys(properties):
        return ServerConfig(
            properties=properties,
            unused_keys=unused,
            storage=StorageConfig(**fields_in(properties, StorageConfig) if bookie else {}),
            garbage=GarbageConfig(**fields_in(properties, GarbageConfig)),
            disk=DiskConfig(**fields_in(properties, DiskConfig)),
            autorecovery=AutoRecoveryConfig(**fields_in(properties, AutoRecoveryConfig)),
            peers=PeerLimits(**fields_in(properties, PeerLimits)),
            **fields_in(properties, ServerConfig),
        )


def bookie_settings(options: BookieOptions, config: ServerConfig | None) -> BookieSettings:
    """A bookie's settings, from the command line, the file or the defaults, in this order.

    Raises `BKIncorrectParameterException` when a setting that a bookie needs is missing.
    """
    config = config or parse_server_config(b"", "no file")
    process = fields_in(config.properties, BookieSettings)
    process.setdefault("journal_dirs", config.journal_directory)
    process.setdefault("ledger_dirs", ())
    if config.index_directories not in ((), process["ledger_dirs"]):
        raise BKIncorrectParameterException(
            "indexDirectories differs from ledgerDirectories; labkit keeps indexes in the latter"
        )
    process["bookie_id"], process["port"] = _id_and_port(options.id, options.port, config)
    if not process["bookie_id"]:
        raise _missing("--id", "bookieId or advertisedAddress")
    if options.data:
        data = options.data.absolute()
        process["journal_dirs"], process["ledger_dirs"] = (f"{data}/journal",), (f"{data}/ledgers",)
    if options.flush_interval_ms is not None:
        process["flush_interval_ms"] = options.flush_interval_ms
    with errors_name_keys(config.properties, options):
        return BookieSettings(
            **process,
            metadata=_metadata(options.zookeeper, config),
            storage=config.storage,
            garbage=config.garbage,
            disk=config.disk,
            autorecovery=config.autorecovery if config.auto_recovery_daemon_enabled else None,
            peers=config.peers,
            trace_from_start=options.trace_from_start,
        )


def autorecovery_settings(
    options: AutoRecoveryOptions, config: ServerConfig | None
) -> AutoRecoverySettings:
    """The settings of an autorecovery process; options go before the file.

    Raises `BKIncorrectParameterException`.
    """
    config = config or parse_server_config(b"", "no file")
    return AutoRecoverySettings(
        _id_and_port(options.id, None, config)[0] or socket.gethostname(),
        _metadata(options.zookeeper, config),
        config.autorecovery,
        options.trace_from_start,
    )


def _id_and_port(
    id_option: str | None, port_option: int | None, config: ServerConfig
) -> tuple[str, int]:
    """The bookie's id, "" if there is none, and its port, 0 for a free one.

    As in BookKeeper the id is `bookieId`, else `advertisedAddress:bookiePort`.  Raises
    `BKIncorrectParameterException`.
    """
    process = fields_in(config.properties, BookieSettings)
    bookie_id, address = id_option or process.get("bookie_id", ""), process.get("host", "")
    is_port_of_id = bool(address and not bookie_id)
    port: int | None = port_option
    if port is None:
        port = process.get("port", _BOOKIE_PORT if is_port_of_id else 0)
    if is_port_of_id and port == 0:
        raise BKIncorrectParameterException(
            "bookiePort is 0, and without bookieId it is part of the bookie's id; name a port"
        )
    return f"{address}:{port}" if is_port_of_id else bookie_id, port


def _layout(factory: str) -> LedgerLayout | None:
    """The layout that `ledgerManagerFactoryClass` names; None if it is not set.

    Raises `BKIncorrectParameterException`.
    """
    named = {layout.factory_class: layout for layout in LAYOUTS.values()}
    if factory and factory not in named:
        raise BKIncorrectParameterException(
            f"ledgerManagerFactoryClass is {factory}; labkit has {', '.join(named)}"
        )
    return named.get(factory)


def _metadata(option: str | None, config: ServerConfig) -> MetadataPlace:
    place = config.metadata_of_option(option) if option else config.metadata
    if place is None:
        raise _missing("--zookeeper", "metadataServiceUri")
    return place


def _missing(option: str, key: str) -> BKIncorrectParameterException:
    return BKIncorrectParameterException(f"give {option}, or {key} in a file with --conf")
