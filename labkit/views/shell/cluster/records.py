"""Results of the verbs that use a cluster: frozen dataclasses that format themselves as text."""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from labkit.system.model.entry import DigestType
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.views.shell.records import Result, dump


@dataclass(frozen=True, slots=True)
class ClusterMade(Result):
    instance_id: str
    layout: str

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"New cluster with layout {self.layout}, InstanceId: {self.instance_id}"


@dataclass(frozen=True, slots=True)
class InstanceId(Result):
    instance_id: str

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"InstanceId: {self.instance_id}"


class BookieStatus(Enum):
    READ_WRITE = "ReadWrite"
    READ_ONLY = "Readonly"
    DOWN = "Down"


@dataclass(frozen=True, slots=True)
class BookieOfCluster(Result):
    bookie_id: str
    state: BookieStatus
    host: str = ""
    port: int = 0

    def lines(self, with_data: bool) -> Iterator[str]:
        at = "" if self.state is BookieStatus.DOWN else f", IP:{self.host}, Port:{self.port}"
        yield f"BookieID:{self.bookie_id}{at}, State:{self.state.value}"


@dataclass(frozen=True, slots=True)
class LedgerId(Result):
    ledger_id: int

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"ledgerID: {self.ledger_id}"


@dataclass(frozen=True, slots=True)
class LedgerNode(Result):
    """A ledger's metadata; `version` is the version of its znode."""

    ledger_id: int
    version: int
    metadata: LedgerMetadata

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"ledgerID: {self.ledger_id}"
        yield describe_metadata(self.metadata)


@dataclass(frozen=True, slots=True)
class ReadEntry(Result):
    """An entry read from the bookies, with a verified digest; `data` is the payload."""

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
    ledger_id: int

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"Ledger {self.ledger_id} deleted"


@dataclass(frozen=True, slots=True)
class SimpleTestPassed(Result):
    ledger_id: int
    entry_count: int
    ensemble: tuple[str, ...]

    def lines(self, with_data: bool) -> Iterator[str]:
        yield (
            f"{self.entry_count} entries written to ledger {self.ledger_id} and read back;"
            f" ensemble {', '.join(self.ensemble)}"
        )


@dataclass(frozen=True, slots=True)
class UnderreplicatedMark(Result):
    """An under-replicated ledger; `ctime_ms` is the time when it was last marked."""

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
    bookie_id: str | None

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"Auditor: {self.bookie_id}" if self.bookie_id else "No auditor elected"


@dataclass(frozen=True, slots=True)
class AutoRecoveryState(Result):
    enabled: bool

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"Autorecovery is {'enabled' if self.enabled else 'disabled'}"


@dataclass(frozen=True, slots=True)
class AuditTriggered(Result):
    auditor: str

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"Audit triggered on {self.auditor}"


@dataclass(frozen=True, slots=True)
class LedgerRecovery(Result):
    """A ledger with copies on lost bookies; `error` says why some of the copies could not be
    replaced.
    """

    ledger_id: int
    fragment_count: int
    recovered: bool
    error: str | None = None

    def lines(self, with_data: bool) -> Iterator[str]:
        # Failures are printed to standard error, through `problems`.
        if self.error is None:
            done = "recovered" if self.recovered else "would be recovered"
            yield f"Ledger {self.ledger_id}: {self.fragment_count} fragments {done}"

    def problems(self) -> Iterator[str]:
        if self.error is not None:
            yield f"ledger {self.ledger_id} was not recovered: {self.error}"


@dataclass(frozen=True, slots=True)
class StillNeeded(Result):
    bookie_id: str
    ledger_ids: tuple[int, ...]

    def lines(self, with_data: bool) -> Iterator[str]:
        ledgers = ", ".join(map(str, self.ledger_ids))
        yield f"Ledgers that still need {self.bookie_id}: {ledgers}"


@dataclass(frozen=True, slots=True)
class CookieDeleted(Result):
    bookie_id: str

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"Cookie of {self.bookie_id} deleted: it no longer belongs to the cluster"


def describe_metadata(metadata: LedgerMetadata) -> str:
    """Return a ledger's metadata as one line, in the format of BookKeeper's shell."""
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
