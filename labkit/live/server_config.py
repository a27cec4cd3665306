"""A bookie's settings from BookKeeper's own configuration file, `bk_server.conf`.

Keys are BookKeeper's; those that labkit does not know are named to the caller, not dropped in
silence.

In BookKeeper: `conf/ServerConfiguration.java`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from labkit.bookie.garbage_collection import GarbageConfig
from labkit.live.bookie_process import BookieSettings
from labkit.model.errors import BKIncorrectParameterException
from labkit.storage.config import StorageConfig


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


_STORAGE_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "journalFormatVersionToWrite": ("journal_format_version_to_write", int),
    "fileInfoFormatVersionToWrite": ("file_info_format_version_to_write", int),
    "journalMaxSizeMB": ("journal_max_size_mb", int),
    "journalPreAllocSizeMB": ("journal_pre_alloc_size_mb", int),
    "journalAlignmentSize": ("journal_alignment_size", int),
    "journalMaxBackups": ("journal_max_backups", int),
    "journalMaxMemorySizeMb": ("journal_max_memory_size_mb", int),
    "journalFlushWhenQueueEmpty": ("journal_flush_when_queue_empty", _boolean),
    "journalMaxGroupWaitMSec": ("journal_max_group_wait_ms", int),
    "journalBufferedWritesThreshold": ("journal_buffered_writes_threshold", int),
    "journalBufferedEntriesThreshold": ("journal_buffered_entries_threshold", int),
    "skipListSizeLimit": ("skip_list_size_limit", int),
    "logSizeLimit": ("log_size_limit", int),
    "entryLogPerLedgerEnabled": ("entry_log_per_ledger_enabled", _boolean),
    "maximumNumberOfActiveEntryLogs": ("maximum_number_of_active_entry_logs", int),
    "pageSize": ("page_size", int),
    "openFileLimit": ("open_file_limit", int),
}

_GARBAGE_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "gcWaitTime": ("gc_wait_time_ms", int),
    "minorCompactionThreshold": ("minor_compaction_threshold", float),
    "minorCompactionInterval": ("minor_compaction_interval_s", float),
    "majorCompactionThreshold": ("major_compaction_threshold", float),
    "majorCompactionInterval": ("major_compaction_interval_s", float),
    "compactionRateByBytes": ("compaction_rate_by_bytes", int),
}

_OTHER_KEYS = {
    "bookieId",
    "bookiePort",
    "flushInterval",
    "journalDirectory",
    "journalDirectories",
    "ledgerDirectories",
    "zkServers",
    "metadataServiceUri",
}


class BookieOptions(Protocol):
    """What the command line says; None where it says nothing."""

    id: str | None
    data: Path | None
    zookeeper: str | None
    port: int | None
    flush_interval_ms: int | None
    trace_from_start: bool


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What a configuration file says, as far as labkit knows it.

    `unknown` names the keys that have no effect here.
    """

    properties: Mapping[str, str]
    storage: StorageConfig
    garbage: GarbageConfig
    unknown: tuple[str, ...]

    def value(self, *keys: str) -> str:
        """What the first of these keys that is set says; empty if none is."""
        return next((self.properties[key] for key in keys if key in self.properties), "")

    def number(self, key: str, default: int) -> int:
        """A whole number.  Raises `BKIncorrectParameterException`."""
        return int(_values(self.properties, {key: (key, int)}).get(key, default))

    @property
    def zookeeper(self) -> str:
        """The metadata store's "host:port", several with commas; empty if none is named."""
        uri = self.value("metadataServiceUri").partition("://")[2].partition("/")[0]
        return self.value("zkServers") or uri.replace(";", ",")

    def directories(self, *keys: str) -> tuple[Path, ...]:
        """The comma-separated directories of the first of these keys that is set."""
        parts = self.value(*keys).split(",")
        return tuple(Path(part.strip()).absolute() for part in parts if part.strip())


def read_server_config(path: Path) -> ServerConfig:
    """Read a `bk_server.conf`.

    Raises `OSError`, and `BKIncorrectParameterException` naming the line or key that is wrong.
    """
    properties = _read_properties(path)
    known = _STORAGE_KEYS.keys() | _GARBAGE_KEYS.keys() | _OTHER_KEYS
    return ServerConfig(
        properties,
        StorageConfig(**_values(properties, _STORAGE_KEYS)),
        GarbageConfig(**_values(properties, _GARBAGE_KEYS)),
        tuple(sorted(properties.keys() - known)),
    )


def _read_properties(path: Path) -> dict[str, str]:
    properties: dict[str, str] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        key, separator, value = text.partition("=")
        if not separator:
            raise BKIncorrectParameterException(f"{path}, line {number}: {text!r} is no key=value")
        properties[key.strip()] = value.strip()
    return properties


def _values(
    properties: Mapping[str, str], keys: Mapping[str, tuple[str, Callable[[str], Any]]]
) -> dict[str, Any]:
    values = {}
    for key, (field, convert) in keys.items():
        if key in properties:
            try:
                values[field] = convert(properties[key])
            except ValueError:
                raise BKIncorrectParameterException(
                    f"{key} is {properties[key]!r}; it must be a number (a switch: true or false)"
                ) from None
    return values


def bookie_settings(options: BookieOptions, config: ServerConfig | None) -> BookieSettings:
    """What a bookie is to do: the command line's options, then the file, then the defaults.

    Raises `BKIncorrectParameterException` when neither says what a bookie cannot do without.
    """
    config = config or ServerConfig({}, StorageConfig(), GarbageConfig(), ())
    data = options.data.absolute() if options.data else None
    journal_dirs = config.directories("journalDirectories", "journalDirectory")
    ledger_dirs = config.directories("ledgerDirectories")
    port = options.port if options.port is not None else config.number("bookiePort", 0)
    flush_interval_ms = options.flush_interval_ms
    if flush_interval_ms is None:
        flush_interval_ms = config.number("flushInterval", 10_000)
    return BookieSettings(
        _needed("--id", options.id or config.value("bookieId"), "bookieId"),
        _needed("--zookeeper", options.zookeeper or config.zookeeper, "zkServers"),
        (data / "journal",) if data else journal_dirs,
        (data / "ledgers",) if data else ledger_dirs,
        port,
        flush_interval_ms,
        config.storage,
        config.garbage,
        options.trace_from_start,
    )


def _needed(option: str, value: str, key: str) -> str:
    if not value:
        raise BKIncorrectParameterException(f"say {option}, or {key} in a file with --conf")
    return value
