"""The settings of a client, and the objects that all of its ledgers share.

In BookKeeper: `client/ClientContext.java`, `conf/ClientConfiguration.java`.
"""

from dataclasses import dataclass

from labkit.system.client.placement.bookie_watcher import BookieWatcher
from labkit.system.client.protocol.bookie_client import BookieClient
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.model.settings import check_ranges, setting
from labkit.system.trace.recorder import Recorder


@dataclass(frozen=True, slots=True)
class ClientConfig:
    request_timeout_s: float = setting(5.0, at_least=0.001)
    """A request fails if there is no response within this time; the failure may be reported up to
    a second late. (In BookKeeper: `addEntryTimeoutSec`, ...)
    """
    speculative_read_timeout_ms: int = setting(2000, at_least=0)
    """Each time this interval elapses, a read asks one more bookie for each entry that has not
    arrived. 0: ask another bookie only after an error.
    """
    delay_ensemble_change: bool = False
    """Do not replace a failed bookie while adds can still get Qa acknowledgements."""
    max_pending_adds: int = setting(5000, at_least=1)
    """`LedgerWriter.drain` waits until fewer than this many adds are unconfirmed."""
    bookie_error_threshold: int = setting(5, at_least=1)
    """A bookie that fails this many adds within `bookie_error_interval_s` is quarantined."""
    bookie_error_interval_s: float = 60.0
    bookie_quarantine_time_s: float = 1800.0
    """How long placement avoids a quarantined bookie."""
    explicit_lac_interval_ms: int = setting(0, "bookkeeperExplicitLacIntervalInMills", at_least=0)
    """If no later entry contains LastAddConfirmed, the writer sends it to the bookies at this
    interval (0: never).
    """
    add_entry_quorum_timeout_s: float = setting(
        -1.0, "bookkeeper_addEntryQuorumTimeoutSec", at_least=-1
    )
    """The writer fails if an add lacks Qa acknowledgements by then; 0 or -1: no timeout."""
    max_allowed_ensemble_changes: int = setting(
        2**31 - 1, "bookkeeper_maxNumEnsembleChanges", at_least=0
    )
    """The writer ends if it needs more ensemble changes than this."""
    min_num_racks_per_write_quorum: int = setting(
        0, "bookkeeperClientMinNumRacksPerWriteQuorum", at_least=0
    )
    """Each write set spans at least this many racks if possible; 0: ignore racks."""
    enforce_min_num_racks_per_write_quorum: bool = setting(
        False, "bookkeeperClientEnforceMinNumRacksPerWriteQuorum"
    )
    """Raise an error instead of using an ensemble whose write sets span too few racks."""

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True, slots=True)
class ClientContext:
    config: ClientConfig
    manager: LedgerManager
    bookie_client: BookieClient
    watcher: BookieWatcher
    recorder: Recorder
