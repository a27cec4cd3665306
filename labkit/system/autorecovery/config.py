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
    """Names and defaults are those of `conf/ServerConfiguration.java`, except the batch size: here
    it is a window that is always full, and 100 is what Pulsar's `conf/bookkeeper.conf` says.
    BookKeeper's own 10 would leave the bookies waiting for the network.

    Auditor: a periodic check with an interval of 0 is off (the bookie check then runs once, when
    the auditor is elected).  `lost_bookie_recovery_delay_s` only holds until the metadata store has
    one.  Of each fragment first and last entry are tested, and of the others
    `auditor_ledger_verification_percentage` (100: every entry).

    With a `min_num_racks_per_write_quorum` above 0 new copies keep to racks (as in `ClientConfig`),
    and the auditor's placement check reports closed ledgers that do not; the worker moves their
    copies if `repaired_placement_policy_not_adhering_bookie_enabled`.

    Worker: `rereplication_entry_batch_size` entries are stored at a time, and at most twice as
    many are read ahead; at most `replication_rate_by_bytes` bytes a second are copied (-1: no
    limit).  A ledger that is still open is recovered after the grace period, which fences its
    writer.

    Raises `BKIncorrectParameterException` for a value out of its range.
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
    def client(self) -> ClientConfig:
        """The settings of the client that autorecovery works with."""
        return ClientConfig(
            min_num_racks_per_write_quorum=self.min_num_racks_per_write_quorum,
            enforce_min_num_racks_per_write_quorum=self.enforce_min_num_racks_per_write_quorum,
        )
