"""Results of the verbs about a cluster: one frozen dataclass for each kind, with its text."""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from labkit.system.model.entry import DigestType
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.views.shell.records import Result, dump


@dataclass(frozen=True, slots=True)
class ClusterMade(Result):
    """A new cluster."""

    instance_id: str
    layout: str

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"New cluster with layout {self.layout}, InstanceId: {self.instance_id}"


@dataclass(frozen=True, slots=True)
class InstanceId(Result):
    """A cluster's unique instance id."""

    instance_id: str

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"InstanceId: {self.instance_id}"


class BookieStatus(Enum):
    """A bookie's state by its registration."""

    READ_WRITE = "ReadWrite"
    READ_ONLY = "Readonly"
    DOWN = "Down"


@dataclass(frozen=True, slots=True)
class BookieOfCluster(Result):
    """A bookie, and its address if it is alive."""

    bookie_id: str
    state: BookieStatus
    host: str = ""
    port: int = 0

    def lines(self, with_data: bool) -> Iterator[str]:
        at = "" if self.state is BookieStatus.DOWN else f", IP:{self.host}, Port:{self.port}"
        yield f"BookieID:{self.bookie_id}{at}, State:{self.state.value}"


@dataclass(frozen=True, slots=True)
class LedgerId(Result):
    """A ledger that the metadata store knows."""

    ledger_id: int

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"ledgerID: {self.ledger_id}"


@dataclass(frozen=True, slots=True)
class LedgerNode(Result):
    """A ledger's metadata; `version` counts the changes since its creation."""

    ledger_id: int
    version: int
    metadata: LedgerMetadata

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"ledgerID: {self.ledger_id}"
        yield describe_metadata(self.metadata)


@dataclass(frozen=True, slots=True)
class ReadEntry(Result):
    """An entry as a reader gets it from the bookies, its digest verified; `data` is the payload."""

    ledger_id: int
    entry_id: int
    last_add_confirmed: int
    size: int
    data: bytes

    def lines(self, with_data: bool) -> Iterator[str]:
        ids = f"Lid={self.ledger_id}, Eid={self.entry_id}"
        yield f"--------- {ids}, PayloadSize={self.size} ---------"
        yield f"LastConfirmed:  {self.last_add_confirmed}"
        if with_data:
            yield from dump(self.data)


@dataclass(frozen=True, slots=True)
class LedgerDeleted(Result):
    """A ledger that was deleted from the metadata store."""

    ledger_id: int

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"Ledger {self.ledger_id} is deleted"


@dataclass(frozen=True, slots=True)
class SimpleTestPassed(Result):
    """Entries that were written, confirmed, and read back unchanged."""

    ledger_id: int
    entry_count: int
    ensemble: tuple[str, ...]

    def lines(self, with_data: bool) -> Iterator[str]:
        yield (
            f"{self.entry_count} entries written to ledger {self.ledger_id} and read again;"
            f" ensemble {', '.join(self.ensemble)}"
        )


@dataclass(frozen=True, slots=True)
class UnderreplicatedMark(Result):
    """A ledger that is short of copies; `ctime_ms` is the time of its last mark."""

    ledger_id: int
    missing_replicas: tuple[str, ...]
    ctime_ms: int

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"{self.ledger_id}"
        yield f"\tCtime : {self.ctime_ms}"
        for replica in self.missing_replicas:
            yield f"\tMissingReplica : {replica}"


@dataclass(frozen=True, slots=True)
class ElectedAuditor(Result):
    """The current auditor; None: there is none."""

    bookie_id: str | None

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"Auditor: {self.bookie_id}" if self.bookie_id else "No auditor elected"


@dataclass(frozen=True, slots=True)
class AutoRecoveryState(Result):
    """Whether ledgers are repaired."""

    enabled: bool

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"Autorecovery is {'enabled' if self.enabled else 'disabled'}"


@dataclass(frozen=True, slots=True)
class AuditTriggered(Result):
    """The auditor has been asked to look for lost bookies now."""

    auditor: str

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"{self.auditor} audits now"


@dataclass(frozen=True, slots=True)
class LedgerRecovery(Result):
    """A ledger that had copies on lost bookies; `error` says why some could not be replaced."""

    ledger_id: int
    fragment_count: int
    recovered: bool
    error: str | None = None

    def lines(self, with_data: bool) -> Iterator[str]:
        # A failure goes to standard error.
        if self.error is None:
            done = "recovered" if self.recovered else "would be recovered"
            yield f"Ledger {self.ledger_id}: {self.fragment_count} fragments {done}"

    def problems(self) -> Iterator[str]:
        if self.error is not None:
            yield f"ledger {self.ledger_id} is not recovered: {self.error}"


@dataclass(frozen=True, slots=True)
class StillNeeded(Result):
    """Ledgers that have copies on a bookie that is being decommissioned."""

    bookie_id: str
    ledger_ids: tuple[int, ...]

    def lines(self, with_data: bool) -> Iterator[str]:
        ledgers = ", ".join(map(str, self.ledger_ids))
        yield f"Ledgers that still need {self.bookie_id}: {ledgers}"


@dataclass(frozen=True, slots=True)
class CookieDeleted(Result):
    """A bookie that no longer belongs to the cluster."""

    bookie_id: str

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"{self.bookie_id} does not belong to the cluster any more: its cookie is deleted"


def describe_metadata(metadata: LedgerMetadata) -> str:
    """Return a ledger's metadata in one line, as BookKeeper's shell prints it."""
    parts = [
        f"formatVersion={metadata.format_version}",
        f"ensembleSize={metadata.ensemble_size}",
        f"writeQuorumSize={metadata.write_quorum}",
        f"ackQuorumSize={metadata.ack_quorum}",
        f"state={metadata.state.name}",
    ]
    if metadata.state is LedgerState.CLOSED:
        parts += [f"length={metadata.length}", f"lastEntryId={metadata.last_entry_id}"]
    if metadata.has_password:
        is_hmac = metadata.digest_type is DigestType.HMAC
        parts += [
            f"digestType={'MAC' if is_hmac else metadata.digest_type.name}",
            f"password=base64:{_base64(metadata.password)}",
        ]
    ensembles = (f"{s.first_entry_id}=[{', '.join(s.ensemble)}]" for s in metadata.segments)
    custom = (f"{key}=base64:{_base64(value)}" for key, value in metadata.custom_metadata)
    parts += [f"ensembles={{{', '.join(ensembles)}}}", f"customMetadata={{{', '.join(custom)}}}"]
    return f"LedgerMetadata{{{', '.join(parts)}}}"


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
