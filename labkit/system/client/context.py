"""What all ledgers of one client share: its settings and its connections to the cluster.

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
    """How long a client waits, and when it gives a bookie up.

    `request_timeout_s`: a bookie that has not answered by then has failed (`addEntryTimeoutSec`,
    `readEntryTimeoutSec`).  `speculative_read_timeout_ms`: a read without an answer by then asks
    the next bookie, too; 0: never.  `add_entry_quorum_timeout_s`: an add without Qa
    acknowledgements by then ends its writer, however many bookies were tried
    (`addEntryQuorumTimeoutSec`); 0 or -1: never.
    `delay_ensemble_change`: tolerate failures while Qa acknowledgements can still come.
    `max_allowed_ensemble_changes`: a writer that needs one more ends (`maxNumEnsembleChanges`).
    `max_pending_adds`: `LedgerWriter.drain` waits until fewer are unconfirmed.  A bookie that fails
    `bookie_error_threshold` adds within `bookie_error_interval_s` is passed over by placement for
    `bookie_quarantine_time_s`.  `explicit_lac_interval_ms`: how often writers send the
    LastAddConfirmed when no entry carries it; 0: never.

    With a `min_num_racks_per_write_quorum` above 0 each write set spans that many racks where it
    can; when enforced, no ensemble is made that cannot.
    """

    request_timeout_s: float = setting(5.0, at_least=0.001)
    speculative_read_timeout_ms: int = setting(2000, at_least=0)
    delay_ensemble_change: bool = False
    max_pending_adds: int = setting(5000, at_least=1)
    bookie_error_threshold: int = setting(5, at_least=1)
    bookie_error_interval_s: float = 60.0
    bookie_quarantine_time_s: float = 1800.0
    explicit_lac_interval_ms: int = setting(0, "bookkeeperExplicitLacIntervalInMills", at_least=0)
    add_entry_quorum_timeout_s: float = setting(
        -1.0, "bookkeeper_addEntryQuorumTimeoutSec", at_least=-1
    )
    max_allowed_ensemble_changes: int = setting(
        2**31 - 1, "bookkeeper_maxNumEnsembleChanges", at_least=0
    )
    min_num_racks_per_write_quorum: int = setting(
        0, "bookkeeperClientMinNumRacksPerWriteQuorum", at_least=0
    )
    enforce_min_num_racks_per_write_quorum: bool = setting(
        False, "bookkeeperClientEnforceMinNumRacksPerWriteQuorum"
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True, slots=True)
class ClientContext:
    """Handed to every writer, reader and recovery of the client."""

    config: ClientConfig
    manager: LedgerManager
    bookies: BookieClient
    watcher: BookieWatcher
    recorder: Recorder
