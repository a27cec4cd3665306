"""Settings of autorecovery.

In BookKeeper: `conf/ServerConfiguration.java`, `conf/ClientConfiguration.java`.
"""

from dataclasses import dataclass

from labkit.system.client.context import ClientConfig
from labkit.system.model.settings import check_ranges, setting

_DAY_S = 86_400
UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class AutoRecoveryConfig:
    """Settings of the auditor and the worker.

    Names and defaults are BookKeeper's, except that `rereplication_entry_batch_size` is the size of
    a sliding window, and its default of 100 is the value in Pulsar's `conf/bookkeeper.conf`.

    Auditor: An interval of 0 disables a periodic check, but the bookie check still runs once when
    an auditor is elected. `lost_bookie_recovery_delay_s` is used only if the metadata store
    contains no valid delay.

    Auditor and worker: To check a fragment, they read its first and last entries from each bookie,
    and a random `auditor_ledger_verification_percentage` percent of its other entries.

    If `min_num_racks_per_write_quorum` is above 0, new copies are placed on different racks, and
    the auditor's placement check reports closed ledgers whose copies are on too few racks. With
    `repaired_placement_policy_not_adhering_bookie_enabled`, the worker moves such copies.

    Worker: Up to `rereplication_entry_batch_size` entries are stored at a time, and up to twice as
    many are read in advance. `replication_rate_by_bytes` limits the total bytes stored per second
    on all targets (-1: no limit). If an open ledger still has missing copies after
    `open_ledger_rereplication_grace_period_ms`, it is recovered, which fences its writer. If copies
    are missing after a repair, the ledger remains locked for up to
    `lock_release_of_failed_ledger_grace_period_ms`. After an error, the worker pauses for
    `rw_rereplicate_backoff_ms`.

    Raises `BKIncorrectParameterException` if a value is out of range.
    """

    auditor_periodic_check_interval_s: int = setting(
        7 * _DAY_S, "auditorPeriodicCheckInterval", at_least=0
    )
    auditor_periodic_bookie_check_interval_s: int = setting(
        _DAY_S, "auditorPeriodicBookieCheckInterval", at_least=0
    )
    auditor_replicas_check_interval_s: int = setting(0, "auditorReplicasCheckInterval", at_least=0)
    auditor_ledger_verification_percentage: int = setting(
        0, "auditorLedgerVerificationPercentage", at_least=0, at_most=100
    )
    lost_bookie_recovery_delay_s: int = setting(0, "lostBookieRecoveryDelay", at_least=0)
    open_ledger_rereplication_grace_period_ms: int = setting(
        30_000, "openLedgerRereplicationGracePeriod", at_least=0
    )
    rw_rereplicate_backoff_ms: int = setting(5_000, "rwRereplicateBackoffMs", at_least=1)
    lock_release_of_failed_ledger_grace_period_ms: int = setting(
        300_000, "lockReleaseOfFailedLedgerGracePeriod", at_least=0
    )
    rereplication_entry_batch_size: int = setting(100, "rereplicationEntryBatchSize", at_least=1)
    replication_rate_by_bytes: int = setting(
        UNLIMITED, "replicationRateByBytes", at_least=1, or_else=UNLIMITED
    )
    min_num_racks_per_write_quorum: int = setting(0, "minNumRacksPerWriteQuorum", at_least=0)
    enforce_min_num_racks_per_write_quorum: bool = setting(
        False, "enforceMinNumRacksPerWriteQuorum"
    )
    auditor_periodic_placement_policy_check_interval_s: int = setting(
        0, "auditorPeriodicPlacementPolicyCheckInterval", at_least=0
    )
    repaired_placement_policy_not_adhering_bookie_enabled: bool = setting(
        False, "repairedPlacementPolicyNotAdheringBookieEnabled"
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def client_config(self) -> ClientConfig:
        return ClientConfig(
            min_num_racks_per_write_quorum=self.min_num_racks_per_write_quorum,
            enforce_min_num_racks_per_write_quorum=self.enforce_min_num_racks_per_write_quorum,
        )
