"""Settings of autorecovery.

In BookKeeper: `conf/ServerConfiguration.java`, `conf/ClientConfiguration.java`.
"""

from dataclasses import dataclass

from labkit.system.client.context import ClientConfig
from labkit.system.model.errors import BKIncorrectParameterException

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

    auditor_periodic_check_interval_s: int = 7 * _DAY_S
    auditor_periodic_bookie_check_interval_s: int = _DAY_S
    auditor_replicas_check_interval_s: int = 0
    auditor_ledger_verification_percentage: int = 0
    lost_bookie_recovery_delay_s: int = 0
    open_ledger_rereplication_grace_period_ms: int = 30_000
    rw_rereplicate_backoff_ms: int = 5_000
    lock_release_of_failed_ledger_grace_period_ms: int = 300_000
    rereplication_entry_batch_size: int = 100
    replication_rate_by_bytes: int = UNLIMITED
    min_num_racks_per_write_quorum: int = 0
    enforce_min_num_racks_per_write_quorum: bool = False
    auditor_periodic_placement_policy_check_interval_s: int = 0
    repaired_placement_policy_not_adhering_bookie_enabled: bool = False

    @property
    def client(self) -> ClientConfig:
        """The settings of the client that autorecovery works with."""
        return ClientConfig(
            min_num_racks_per_write_quorum=self.min_num_racks_per_write_quorum,
            enforce_min_num_racks_per_write_quorum=self.enforce_min_num_racks_per_write_quorum,
        )

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if name in ("rereplication_entry_batch_size", "rw_rereplicate_backoff_ms"):
                _check(name, value, value >= 1, "at least 1")
            elif name == "replication_rate_by_bytes":
                _check(name, value, value >= 1 or value == UNLIMITED, "at least 1, or -1: no limit")
            elif name == "auditor_ledger_verification_percentage":
                _check(name, value, 0 <= value <= 100, "0 to 100")
            else:
                _check(name, value, value >= 0, "at least 0")


def _check(name: str, value: int, is_allowed: bool, allowed: str) -> None:
    if not is_allowed:
        raise BKIncorrectParameterException(f"{name} is {value}; allowed is {allowed}")
