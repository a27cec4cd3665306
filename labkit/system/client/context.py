"""What all ledgers of one client share: its settings and its connections to the cluster.

In BookKeeper: `client/ClientContext.java`, `conf/ClientConfiguration.java`.
"""

from dataclasses import dataclass

from labkit.system.client.placement.bookie_watcher import BookieWatcher
from labkit.system.client.protocol.bookie_client import BookieClient
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.model.errors import BKIncorrectParameterException
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

    request_timeout_s: float = 5.0
    speculative_read_timeout_ms: int = 2000
    delay_ensemble_change: bool = False
    max_pending_adds: int = 5000
    bookie_error_threshold: int = 5
    bookie_error_interval_s: float = 60.0
    bookie_quarantine_time_s: float = 1800.0
    explicit_lac_interval_ms: int = 0
    add_entry_quorum_timeout_s: float = -1.0
    max_allowed_ensemble_changes: int = 2**31 - 1
    min_num_racks_per_write_quorum: int = 0
    enforce_min_num_racks_per_write_quorum: bool = False

    def __post_init__(self) -> None:
        for name, lowest in (
            ("request_timeout_s", 0.001),
            ("speculative_read_timeout_ms", 0),
            ("max_pending_adds", 1),
            ("explicit_lac_interval_ms", 0),
            ("bookie_error_threshold", 1),
            ("add_entry_quorum_timeout_s", -1),
            ("max_allowed_ensemble_changes", 0),
            ("min_num_racks_per_write_quorum", 0),
        ):
            if getattr(self, name) < lowest:
                raise BKIncorrectParameterException(
                    f"{name} is {getattr(self, name)}; it must be at least {lowest}"
                )


@dataclass(frozen=True, slots=True)
class ClientContext:
    """Handed to every writer, reader and recovery of the client."""

    config: ClientConfig
    manager: LedgerManager
    bookies: BookieClient
    watcher: BookieWatcher
    recorder: Recorder
