"""A bookie's settings from BookKeeper's own configuration file, `bk_server.conf`.

Keys are BookKeeper's; `known_keys` says which are obeyed, refused or ignored with a line.

In BookKeeper: `conf/ServerConfiguration.java`.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
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
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.storage.config import StorageConfig
from labkit.worlds.live.config.known_keys import PassedOver, bookkeeper_keys, passed_over
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
from labkit.worlds.live.net import LOOPBACK
from labkit.worlds.live.peers import PeerLimits
from labkit.worlds.live.processes.autorecovery_process import AutoRecoverySettings
from labkit.worlds.live.processes.bookie_process import BookieSettings

_STORAGE_KEYS: Keys = {
    "journalFormatVersionToWrite": ("journal_format_version_to_write", int),
    "fileInfoFormatVersionToWrite": ("file_info_format_version_to_write", int),
    "journalMaxSizeMB": ("journal_max_size_mb", int),
    "journalPreAllocSizeMB": ("journal_pre_alloc_size_mb", int),
    "journalAlignmentSize": ("journal_alignment_size", int),
    "journalMaxBackups": ("journal_max_backups", int),
    "journalMaxMemorySizeMb": ("journal_max_memory_size_mb", int),
    "journalFlushWhenQueueEmpty": ("journal_flush_when_queue_empty", boolean),
    "journalMaxGroupWaitMSec": ("journal_max_group_wait_ms", int),
    "journalBufferedWritesThreshold": ("journal_buffered_writes_threshold", int),
    "journalBufferedEntriesThreshold": ("journal_buffered_entries_threshold", int),
    "skipListSizeLimit": ("skip_list_size_limit", int),
    "logSizeLimit": ("log_size_limit", int),
    "entryLogPerLedgerEnabled": ("entry_log_per_ledger_enabled", boolean),
    "maximumNumberOfActiveEntryLogs": ("maximum_number_of_active_entry_logs", int),
    "pageSize": ("page_size", int),
    "pageLimit": ("page_limit", int),
    "openFileLimit": ("open_file_limit", int),
    "ledgerStorageClass": ("ledger_storage_class", str),
}

_GARBAGE_KEYS: Keys = {
    "gcWaitTime": ("gc_wait_time_ms", int),
    "gcOverreplicatedLedgerWaitTime": ("gc_overreplicated_ledger_wait_time_ms", int),
    "minorCompactionThreshold": ("minor_compaction_threshold", float),
    "minorCompactionInterval": ("minor_compaction_interval_s", float),
    "majorCompactionThreshold": ("major_compaction_threshold", float),
    "majorCompactionInterval": ("major_compaction_interval_s", float),
    "isThrottleByBytes": ("is_throttle_by_bytes", boolean),
    "compactionRateByEntries": ("compaction_rate_by_entries", int),
    "compactionRateByBytes": ("compaction_rate_by_bytes", int),
    "isForceGCAllowWhenNoSpace": ("is_force_gc_allow_when_no_space", boolean),
}

_DISK_KEYS: Keys = {
    "diskUsageThreshold": ("disk_usage_threshold", float),
    "diskUsageWarnThreshold": ("disk_usage_warn_threshold", float),
    "diskUsageLwmThreshold": ("disk_usage_lwm_threshold", float),
    "diskCheckInterval": ("disk_check_interval_ms", int),
    "readOnlyModeEnabled": ("read_only_mode_enabled", boolean),
    "readOnlyModeOnAnyDiskFullEnabled": ("read_only_mode_on_any_disk_full_enabled", boolean),
    "forceReadOnlyBookie": ("force_read_only_bookie", boolean),
}

_AUTORECOVERY_KEYS: Keys = {
    "auditorPeriodicCheckInterval": ("auditor_periodic_check_interval_s", int),
    "auditorPeriodicBookieCheckInterval": ("auditor_periodic_bookie_check_interval_s", int),
    "auditorReplicasCheckInterval": ("auditor_replicas_check_interval_s", int),
    "auditorPeriodicPlacementPolicyCheckInterval": (
        "auditor_periodic_placement_policy_check_interval_s",
        int,
    ),
    "repairedPlacementPolicyNotAdheringBookieEnabled": (
        "repaired_placement_policy_not_adhering_bookie_enabled",
        boolean,
    ),
    "minNumRacksPerWriteQuorum": ("min_num_racks_per_write_quorum", int),
    "enforceMinNumRacksPerWriteQuorum": ("enforce_min_num_racks_per_write_quorum", boolean),
    "auditorLedgerVerificationPercentage": ("auditor_ledger_verification_percentage", int),
    "lostBookieRecoveryDelay": ("lost_bookie_recovery_delay_s", int),
    "openLedgerRereplicationGracePeriod": ("open_ledger_rereplication_grace_period_ms", int),
    "rwRereplicateBackoffMs": ("rw_rereplicate_backoff_ms", int),
    "lockReleaseOfFailedLedgerGracePeriod": (
        "lock_release_of_failed_ledger_grace_period_ms",
        int,
    ),
    "rereplicationEntryBatchSize": ("rereplication_entry_batch_size", int),
    "replicationRateByBytes": ("replication_rate_by_bytes", int),
}

_PEER_KEYS: Keys = {
    "labkitMaxConnections": ("most_connections", int),
    "labkitPeerMemoryMB": ("most_memory_mb", int),
    "nettyMaxFrameSizeBytes": ("largest_frame", int),
}
"""BookKeeper has no limits over all connections, so two of the keys are labkit's own."""

_PROCESS_KEYS: Keys = {
    "bookiePort": ("port", int),
    "flushInterval": ("flush_interval_ms", int),
}

_BOOKIE_PORT = 3181
"""BookKeeper's default port."""
OBEYED_KEYS = {
    *_STORAGE_KEYS,
    *_GARBAGE_KEYS,
    *_DISK_KEYS,
    *_AUTORECOVERY_KEYS,
    *_PEER_KEYS,
    *_PROCESS_KEYS,
    "advertisedAddress",
    "allowStorageExpansion",
    "autoRecoveryDaemonEnabled",
    "bookieId",
    "indexDirectories",
    "journalDirectory",
    "journalDirectories",
    "ledgerDirectories",
    "ledgerManagerFactoryClass",
    "metadataServiceUri",
    "zkLedgersRootPath",
    "zkServers",
}


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


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Those settings in a configuration file that labkit knows.

    `passed_over` names the keys that have no effect here.
    """

    properties: Mapping[str, str]
    storage: StorageConfig
    garbage: GarbageConfig
    disk: DiskConfig
    autorecovery: AutoRecoveryConfig
    peers: PeerLimits
    passed_over: PassedOver

    def value(self, *keys: str) -> str:
        """The value of the first of these keys that has one; empty if none has."""
        return next((self.properties[key] for key in keys if self.properties.get(key)), "")

    def number(self, key: str, default: int) -> int:
        """A whole number.  Raises `BKIncorrectParameterException`."""
        return int(values(self.properties, {key: (key, int)}).get(key, default))

    def switch(self, key: str, default: bool) -> bool:
        """Whether the switch is on.  Raises `BKIncorrectParameterException`."""
        return bool(values(self.properties, {key: (key, boolean)}).get(key, default))

    @property
    def metadata(self) -> MetadataPlace | None:
        """The place of the cluster's metadata; None if the file names none.

        As in BookKeeper `metadataServiceUri` goes before the older keys.  Raises
        `BKIncorrectParameterException`, for example when they contradict it.
        """
        uri, servers = self.value("metadataServiceUri"), self.value("zkServers")
        root = self.value("zkLedgersRootPath")
        if not uri:
            layout = _layout(self.value("ledgerManagerFactoryClass"))
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
        if uri := self.value("metadataServiceUri"):
            place = parse_place(uri)
            path = place.chroot + place.ledgers_root
            return place_of_option(option, "metadataServiceUri", path, place.layout)
        layout = _layout(self.value("ledgerManagerFactoryClass"))
        path = self.value("zkLedgersRootPath") or DEFAULT_LEDGERS_ROOT
        keys = "zkLedgersRootPath or ledgerManagerFactoryClass"
        return place_of_option(option, keys, path, layout)

    def directories(self, *keys: str) -> tuple[str, ...]:
        """The comma-separated directories of the first of these keys that is set, as written."""
        parts = self.value(*keys).split(",")
        return tuple(part.strip() for part in parts if part.strip())


_NO_FILE = ServerConfig(
    {},
    StorageConfig(),
    GarbageConfig(),
    DiskConfig(),
    AutoRecoveryConfig(),
    PeerLimits(),
    PassedOver(),
)


def read_server_config(path: Path, *, bookie: bool = True) -> ServerConfig:
    """Read a `bk_server.conf`.  Raises `BKIncorrectParameterException`."""
    return parse_server_config(read_configuration(path), str(path), bookie=bookie)


def parse_server_config(data: bytes, name: str, *, bookie: bool = True) -> ServerConfig:
    """The settings in the file called `name`, for a `bookie` or for autorecovery alone.

    Raises `BKIncorrectParameterException`, which names the wrong line or key.
    """
    properties = parse_properties(data, name)
    without_effect = passed_over(properties, bookkeeper_keys(), bookie=bookie)
    return ServerConfig(
        properties,
        configured(StorageConfig, _STORAGE_KEYS, properties) if bookie else StorageConfig(),
        configured(GarbageConfig, _GARBAGE_KEYS, properties),
        configured(DiskConfig, _DISK_KEYS, properties),
        configured(AutoRecoveryConfig, _AUTORECOVERY_KEYS, properties),
        configured(PeerLimits, _PEER_KEYS, properties),
        without_effect,
    )


def bookie_settings(options: BookieOptions, config: ServerConfig | None) -> BookieSettings:
    """A bookie's settings, from the command line, the file or the defaults, in this order.

    Raises `BKIncorrectParameterException` when a setting that a bookie needs is missing.
    """
    config = config or _NO_FILE
    data = options.data.absolute() if options.data else None
    journal_dirs = config.directories("journalDirectories", "journalDirectory")
    ledger_dirs = config.directories("ledgerDirectories")
    if config.directories("indexDirectories") not in ((), ledger_dirs):
        raise BKIncorrectParameterException(
            "indexDirectories differs from ledgerDirectories; labkit keeps indexes in the latter"
        )
    bookie_id, port = _id_and_port(options.id, options.port, config)
    flush_interval_ms = options.flush_interval_ms
    if flush_interval_ms is None:
        flush_interval_ms = config.number("flushInterval", 10_000)
    settings = partial(
        BookieSettings,
        _needed("--id", bookie_id, "bookieId or advertisedAddress"),
        _metadata(options.zookeeper, config),
        config.value("advertisedAddress") or LOOPBACK,
        (f"{data}/journal",) if data else journal_dirs,
        (f"{data}/ledgers",) if data else ledger_dirs,
        port,
        flush_interval_ms,
        config.storage,
        config.garbage,
        config.disk,
        config.autorecovery if config.switch("autoRecoveryDaemonEnabled", True) else None,
        config.peers,
        config.switch("allowStorageExpansion", False),
        options.trace_from_start,
    )
    with naming(_PROCESS_KEYS, config.properties, options):
        return settings()


def autorecovery_settings(
    options: AutoRecoveryOptions, config: ServerConfig | None
) -> AutoRecoverySettings:
    """The settings of an autorecovery process; options go before the file.

    Raises `BKIncorrectParameterException`.
    """
    config = config or _NO_FILE
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
    bookie_id, address = id_option or config.value("bookieId"), config.value("advertisedAddress")
    is_port_of_id = bool(address and not bookie_id)
    port = port_option
    if port is None:
        port = config.number("bookiePort", _BOOKIE_PORT if is_port_of_id else 0)
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


def _needed(option: str, value: str, key: str) -> str:
    if not value:
        raise _missing(option, key)
    return value


def _missing(option: str, key: str) -> BKIncorrectParameterException:
    return BKIncorrectParameterException(f"give {option}, or {key} in a file with --conf")
