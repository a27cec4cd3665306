"""Results of the verbs about a cluster: one frozen dataclass for each kind."""

from dataclasses import dataclass
from enum import Enum

from labkit.system.model.ledger import LedgerMetadata


@dataclass(frozen=True, slots=True)
class ClusterMade:
    """A new cluster."""

    instance_id: str
    layout: str


@dataclass(frozen=True, slots=True)
class InstanceId:
    """A cluster's unique instance id."""

    instance_id: str


class BookieState(Enum):
    """A bookie's state by its registration."""

    READ_WRITE = "ReadWrite"
    READ_ONLY = "Readonly"
    DOWN = "Down"


@dataclass(frozen=True, slots=True)
class BookieOfCluster:
    """A bookie, and its address if it is alive."""

    bookie_id: str
    state: BookieState
    host: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True)
class LedgerId:
    """A ledger that the metadata store knows."""

    ledger_id: int


@dataclass(frozen=True, slots=True)
class LedgerNode:
    """A ledger's metadata; `version` counts the changes since its creation."""

    ledger_id: int
    version: int
    metadata: LedgerMetadata


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """An entry as a reader gets it from the bookies, its digest verified; `data` is the payload."""

    ledger_id: int
    entry_id: int
    last_add_confirmed: int
    size: int
    data: bytes


@dataclass(frozen=True, slots=True)
class LedgerDeleted:
    """A ledger that was deleted from the metadata store."""

    ledger_id: int


@dataclass(frozen=True, slots=True)
class SimpleTestPassed:
    """Entries that were written, confirmed, and read back unchanged."""

    ledger_id: int
    entry_count: int
    ensemble: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnderreplicatedMark:
    """A ledger that is short of copies; `ctime_ms` is the time of its last mark."""

    ledger_id: int
    missing_replicas: tuple[str, ...]
    ctime_ms: int


@dataclass(frozen=True, slots=True)
class ElectedAuditor:
    """The current auditor; None: there is none."""

    bookie_id: str | None


@dataclass(frozen=True, slots=True)
class AutoRecoveryState:
    """Whether ledgers are repaired."""

    enabled: bool


@dataclass(frozen=True, slots=True)
class AuditTriggered:
    """The auditor has been asked to look for lost bookies now."""

    auditor: str


@dataclass(frozen=True, slots=True)
class LedgerRecovery:
    """A ledger that had copies on lost bookies; `error` says why some could not be replaced."""

    ledger_id: int
    fragment_count: int
    recovered: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class StillNeeded:
    """Ledgers that have copies on a bookie that is being decommissioned."""

    bookie_id: str
    ledger_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CookieDeleted:
    """A bookie that no longer belongs to the cluster."""

    bookie_id: str
