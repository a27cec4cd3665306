"""Settings of bookies and autorecovery, from BookKeeper's `bk_server.conf` and the command line.

Each field declares its key in the file. `config/known_keys` explains what happens with other keys.

In BookKeeper: `conf/ServerConfiguration.java`.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.bookie.disk_monitor import DiskConfig
from labkit.system.bookie.garbage_collection import GarbageConfig
from labkit.system.metadata.ledger_layout import LAYOUTS, LedgerLayout
from labkit.system.metadata.location import (
    DEFAULT_LEDGERS_ROOT,
    MetadataLocation,
    location_of_servers,
    parse_location,
)
from labkit.system.metadata.registration import check_bookie_id
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.settings import check_ranges, setting
from labkit.system.storage.config import StorageConfig
from labkit.worlds.live.config.known_keys import KnownKeys, obeyed_keys, refused_keys
from labkit.worlds.live.config.metadata_option import resolve_metadata_option
from labkit.worlds.live.config.properties import (
    explain_setting_errors,
    fields_in,
    parse_properties,
    read_configuration,
)
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.peers import PeerLimits

_BOOKIE_PORT = 3181
"""BookKeeper's default port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieSettings:
    """The settings of a bookie process.

    Port 0 selects a free port. If `autorecovery` is None, the process does not run autorecovery.
    Relative directories are not resolved, because the cookie records directories as they are
    configured. Raises `BKIncorrectParameterException` for a value out of range.
    """

    bookie_id: str = setting(key="bookieId")
    metadata: MetadataLocation
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
    """The settings of an autorecovery process. Raises `BKIncorrectParameterException`."""

    node: str
    metadata: MetadataLocation
    config: AutoRecoveryConfig
    trace_from_start: bool

    def __post_init__(self) -> None:
        # `whoisauditor` parses the id as a bookie id.
        check_bookie_id(self.node)


class AutoRecoveryOptions(Protocol):
    """The command line options of autorecovery. Options that were not given are None."""

    id: str | None
    zookeeper: str | None
    trace_from_start: bool


class BookieOptions(AutoRecoveryOptions, Protocol):
    data: Path | None
    port: int | None
    flush_interval_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The contents of a `bk_server.conf`: the settings of the components, and keys that determine
    further settings.

    `properties` contains all keys of the file with their values. `unused_keys` contains the keys
    that have no effect, each mapped to the known key that was probably meant, or to "".
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
    def metadata(self) -> MetadataLocation | None:
        """The location of the cluster's metadata, or None if the file does not set it.

        As in BookKeeper, `metadataServiceUri` takes precedence over the older keys. Raises
        `BKIncorrectParameterException`, for example if the keys conflict.
        """
        uri, servers, root = self.metadata_service_uri, self.zk_servers, self.zk_ledgers_root_path
        if not uri:
            layout = _layout(self.ledger_manager_factory_class)
            if not servers:
                return None
            return location_of_servers(servers, root or DEFAULT_LEDGERS_ROOT, layout)
        location = parse_location(uri)
        if root in ("", DEFAULT_LEDGERS_ROOT):
            root = location.chroot + location.ledgers_root
        older = location_of_servers(servers or location.servers, root, location.layout)
        if older != location:
            raise BKIncorrectParameterException(
                f"metadataServiceUri is {uri}, but zkServers and zkLedgersRootPath refer to"
                f" {older}; remove these two"
            )
        return location

    def metadata_of_option(self, option: str) -> MetadataLocation:
        """Combine `--zookeeper` with this file. Raises `BKIncorrectParameterException`."""
        if self.metadata_service_uri:
            location = parse_location(self.metadata_service_uri)
            path = location.chroot + location.ledgers_root
            return resolve_metadata_option(option, "metadataServiceUri", path, location.layout)
        layout = _layout(self.ledger_manager_factory_class)
        path = self.zk_ledgers_root_path or DEFAULT_LEDGERS_ROOT
        keys = "zkLedgersRootPath or ledgerManagerFactoryClass"
        return resolve_metadata_option(option, keys, path, layout)


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


def read_server_config(path: Path | None, *, bookie: bool = True) -> ServerConfig:
    """Read a `bk_server.conf`, or use defaults without one. Raises the errors of
    `parse_server_config`.
    """
    data = b"" if path is None else read_configuration(path)
    return parse_server_config(data, str(path), bookie=bookie)


def parse_server_config(data: bytes, name: str, *, bookie: bool = True) -> ServerConfig:
    """Parse the contents of the file called `name`, for a bookie or for autorecovery alone.

    Raises `BKIncorrectParameterException`, whose message names the invalid line or key.
    """
    properties = parse_properties(data, name)
    unused = BOOKKEEPER_KEYS.unused(properties, bookie=bookie)
    with explain_setting_errors(properties):
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


def bookie_settings(options: BookieOptions, config: ServerConfig) -> BookieSettings:
    """Return a bookie's settings from the command line, the file and the defaults.

    The command line takes precedence over the file. Raises `BKIncorrectParameterException` if a
    required setting is missing.
    """
    process = fields_in(config.properties, BookieSettings)
    process.setdefault("journal_dirs", config.journal_directory)
    process.setdefault("ledger_dirs", ())
    if config.index_directories not in ((), process["ledger_dirs"]):
        raise BKIncorrectParameterException(
            "indexDirectories differs from ledgerDirectories; labkit stores indexes in the latter"
        )
    process["bookie_id"], process["port"] = _id_and_port(options.id, options.port, process)
    if not process["bookie_id"]:
        raise _missing("--id", "bookieId or advertisedAddress")
    if options.data:
        data = options.data.absolute()
        process["journal_dirs"], process["ledger_dirs"] = (f"{data}/journal",), (f"{data}/ledgers",)
    if options.flush_interval_ms is not None:
        process["flush_interval_ms"] = options.flush_interval_ms
    with explain_setting_errors(config.properties, options):
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
    options: AutoRecoveryOptions, config: ServerConfig
) -> AutoRecoverySettings:
    """Combine the command-line options with the settings in the file. Raises
    `BKIncorrectParameterException`.
    """
    return AutoRecoverySettings(
        _id_and_port(options.id, None, fields_in(config.properties, BookieSettings))[0]
        or socket.gethostname(),
        _metadata(options.zookeeper, config),
        config.autorecovery,
        options.trace_from_start,
    )


def _id_and_port(
    id_option: str | None, port_option: int | None, process: Mapping[str, Any]
) -> tuple[str, int]:
    """Return the bookie's id ("" if it is not configured) and its port (0 for any free port).

    `process` contains the settings in the file. As in BookKeeper, the id is `bookieId` or, if that
    is not set, `advertisedAddress:bookiePort`. Raises `BKIncorrectParameterException`.
    """
    bookie_id, address = id_option or process.get("bookie_id", ""), process.get("host", "")
    is_port_of_id = bool(address and not bookie_id)
    port: int | None = port_option
    if port is None:
        port = process.get("port", _BOOKIE_PORT if is_port_of_id else 0)
    if is_port_of_id and port == 0:
        raise BKIncorrectParameterException(
            "bookiePort must not be 0 without bookieId, because it is part of the bookie's id"
        )
    return f"{address}:{port}" if is_port_of_id else bookie_id, port


def _layout(factory: str) -> LedgerLayout | None:
    """Return the layout with this factory class, or None for "". Raises
    `BKIncorrectParameterException`.
    """
    by_class = {layout.factory_class: layout for layout in LAYOUTS.values()}
    if factory and factory not in by_class:
        raise BKIncorrectParameterException(
            f"unknown ledgerManagerFactoryClass {factory}; labkit supports {', '.join(by_class)}"
        )
    return by_class.get(factory)


def _metadata(option: str | None, config: ServerConfig) -> MetadataLocation:
    location = config.metadata_of_option(option) if option else config.metadata
    if location is None:
        raise _missing("--zookeeper", "metadataServiceUri")
    return location


def _missing(option: str, key: str) -> BKIncorrectParameterException:
    return BKIncorrectParameterException(f"specify {option}, or {key} in a file passed with --conf")
