"""Settings of a partition's managed ledger.

In Pulsar: `managed-ledger/.../ManagedLedgerConfig.java`, `conf/broker.conf`.
"""

from dataclasses import dataclass

from labkit.system.model.settings import InvalidSettingException, check_ranges, setting

_SECOND_MS = 1000
_MINUTE_MS = 60 * _SECOND_MS
_MIB = 1024 * 1024
_HOUR_MS = 60 * _MINUTE_MS
UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class ManagedLedgerConfig:
    """Settings for a partition's ledgers (replication, rollover and retention) and cursors.

    A ledger is full if it contains `max_entries_per_ledger` entries or `max_ledger_size_bytes`
    bytes, or is `max_ledger_age_ms` old. However, no ledger is full before it is
    `min_ledger_age_ms` old (0: no minimum).

    A ledger that every durable cursor has passed is deleted if it was closed more than
    `retention_time_ms` ago, or if the ledgers after it have reached `retention_size_bytes` (-1: no
    limit). Rollover by age and retention are checked every `check_interval_ms`.

    A cursor is stored at most once per `cursor_persist_interval_ms`, with at most
    `max_ranges_stored` acknowledged ranges. If there are more than `max_ranges_in_node` ranges, the
    state stays in the cursor's ledger when the cursor is closed.

    The default quorums, ages and retention are meant for lessons, which keep all their data and
    show rollovers. Raises `BKIncorrectParameterException` if a value is out of range.
    """

    ensemble_size: int = setting(3, "managedLedgerDefaultEnsembleSize")
    write_quorum: int = setting(3, "managedLedgerDefaultWriteQuorum")
    ack_quorum: int = setting(2, "managedLedgerDefaultAckQuorum")
    max_entries_per_ledger: int = setting(50_000, "managedLedgerMaxEntriesPerLedger", at_least=1)
    max_ledger_size_bytes: int = setting(
        2048 * _MIB, "managedLedgerMaxSizePerLedgerMbytes", unit=_MIB, at_least=1
    )
    max_ledger_age_ms: int = setting(
        4 * _HOUR_MS, "managedLedgerMaxLedgerRolloverTimeMinutes", unit=_MINUTE_MS, at_least=1
    )
    min_ledger_age_ms: int = setting(
        0, "managedLedgerMinLedgerRolloverTimeMinutes", unit=_MINUTE_MS, at_least=0
    )
    retention_time_ms: int = setting(
        UNLIMITED, "defaultRetentionTimeInMinutes", unit=_MINUTE_MS, at_least=UNLIMITED
    )
    retention_size_bytes: int = setting(
        UNLIMITED, "defaultRetentionSizeInMB", unit=_MIB, at_least=UNLIMITED
    )
    check_interval_ms: int = setting(
        2 * _MINUTE_MS, "retentionCheckIntervalInSeconds", unit=_SECOND_MS, at_least=1
    )
    cursor_persist_interval_ms: int = setting(1000, at_least=0)
    max_entries_per_cursor_ledger: int = setting(
        50_000, "managedLedgerCursorMaxEntriesPerLedger", at_least=1
    )
    max_cursor_ledger_age_ms: int = setting(
        4 * _HOUR_MS, "managedLedgerCursorRolloverTimeInSeconds", unit=_SECOND_MS, at_least=1
    )
    max_ranges_stored: int = setting(10_000, "managedLedgerMaxUnackedRangesToPersist", at_least=1)
    max_ranges_in_node: int = setting(
        1000, "managedLedgerMaxUnackedRangesToPersistInMetadataStore", at_least=1
    )
    entry_cache_size_bytes: int = setting(
        16 * _MIB, "managedLedgerCacheSizeMB", unit=_MIB, at_least=0
    )

    def __post_init__(self) -> None:
        if not self.ensemble_size >= self.write_quorum >= self.ack_quorum >= 1:
            raise InvalidSettingException(
                self,
                "{ensemble_size}, {write_quorum} and {ack_quorum}; expected {ensemble_size.name}"
                " >= {write_quorum.name} >= {ack_quorum.name} >= 1",
            )
        check_ranges(self)


PULSAR_DEFAULTS = ManagedLedgerConfig(
    ensemble_size=2,
    write_quorum=2,
    ack_quorum=2,
    min_ledger_age_ms=10 * _MINUTE_MS,
    retention_time_ms=0,
    retention_size_bytes=0,
)
"""The defaults of Pulsar's `conf/broker.conf`."""
