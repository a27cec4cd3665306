"""Settings of a partition's managed ledger.

In Pulsar: `managed-ledger/.../ManagedLedgerConfig.java`, `conf/broker.conf`.
"""

from dataclasses import dataclass

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.ledger import check_quorums

_MINUTE_MS = 60 * 1000
_HOUR_MS = 60 * _MINUTE_MS
UNLIMITED = -1

_LOWEST = {
    "min_ledger_age_ms": 0,
    "retention_time_ms": UNLIMITED,
    "retention_size_bytes": UNLIMITED,
    "cursor_persist_interval_ms": 0,
    "entry_cache_size_bytes": 0,
}
"""The lowest value of a setting; of all others it is 1."""


@dataclass(frozen=True, slots=True)
class ManagedLedgerConfig:
    """How a partition's ledgers are made, when the next one begins, how long the old ones stay, and
    how cursors are kept.

    A ledger is full once it has `max_entries_per_ledger` entries or `max_ledger_size_bytes`, or is
    `max_ledger_age_ms` old; provided that it is older than `min_ledger_age_ms`, unless that is 0.

    A ledger that every durable cursor has passed is deleted once it was closed `retention_time_ms`
    ago, or as soon as the others have `retention_size_bytes`; -1: that limit never deletes it.
    Rollover by age and retention are looked at every `check_interval_ms`.

    A cursor is stored at most every `cursor_persist_interval_ms`.  Its ledger is left for a new one
    after `max_entries_per_cursor_ledger` or `max_cursor_ledger_age_ms`.  It stores at most
    `max_ranges_stored` acknowledged ranges, and of these `max_ranges_in_node` in the metadata
    store: with more it stays in its ledger when it is closed.

    Quorums, ages and retention suit lessons, which keep what they wrote and see rollovers;
    Pulsar's own are in `PULSAR_DEFAULTS`.  Raises `BKIncorrectParameterException` for a value out
    of its range.
    """

    ensemble_size: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2
    max_entries_per_ledger: int = 50_000
    max_ledger_size_bytes: int = 2048 * 1024 * 1024
    max_ledger_age_ms: int = 4 * _HOUR_MS
    min_ledger_age_ms: int = 0
    retention_time_ms: int = UNLIMITED
    retention_size_bytes: int = UNLIMITED
    check_interval_ms: int = 2 * _MINUTE_MS
    cursor_persist_interval_ms: int = 1000
    max_entries_per_cursor_ledger: int = 50_000
    max_cursor_ledger_age_ms: int = 4 * _HOUR_MS
    max_ranges_stored: int = 10_000
    max_ranges_in_node: int = 1000
    entry_cache_size_bytes: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        check_quorums(self.ensemble_size, self.write_quorum, self.ack_quorum)
        for name in self.__slots__:
            lowest = _LOWEST.get(name, 1)
            if getattr(self, name) < lowest:
                raise BKIncorrectParameterException(
                    f"{name} is {getattr(self, name)}; it must be at least {lowest}"
                )


PULSAR_DEFAULTS = ManagedLedgerConfig(
    ensemble_size=2,
    write_quorum=2,
    ack_quorum=2,
    min_ledger_age_ms=10 * _MINUTE_MS,
    retention_time_ms=0,
    retention_size_bytes=0,
)
"""A broker's defaults: `conf/broker.conf`."""
