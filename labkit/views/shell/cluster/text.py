"""The results of the verbs about a cluster, as lines; metadata as in BookKeeper's own shell."""

from base64 import b64encode
from collections.abc import Iterator

from labkit.system.model.entry import DigestType
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.model.message_location import Lineage
from labkit.system.storage.xray import format_spans
from labkit.views.shell.cluster.records import (
    AuditTriggered,
    AutoRecoveryState,
    BookieOfCluster,
    BookieState,
    ClusterMade,
    CookieDeleted,
    ElectedAuditor,
    InstanceId,
    LedgerDeleted,
    LedgerId,
    LedgerNode,
    LedgerRecovery,
    ReadEntry,
    SimpleTestPassed,
    StillNeeded,
    UnderreplicatedMark,
)
from labkit.views.shell.text import as_lines, dump

__all__ = ["as_lines", "describe_metadata"]


@as_lines.register
def _(value: ClusterMade, with_data: bool) -> Iterator[str]:
    yield f"New cluster with layout {value.layout}, InstanceId: {value.instance_id}"


@as_lines.register
def _(value: InstanceId, with_data: bool) -> Iterator[str]:
    yield f"InstanceId: {value.instance_id}"


@as_lines.register
def _(value: BookieOfCluster, with_data: bool) -> Iterator[str]:
    at = "" if value.state is BookieState.DOWN else f", IP:{value.host}, Port:{value.port}"
    yield f"BookieID:{value.bookie_id}{at}, State:{value.state.value}"


@as_lines.register
def _(value: LedgerId, with_data: bool) -> Iterator[str]:
    yield f"ledgerID: {value.ledger_id}"


@as_lines.register
def _(value: LedgerNode, with_data: bool) -> Iterator[str]:
    yield f"ledgerID: {value.ledger_id}"
    yield describe_metadata(value.metadata)


@as_lines.register
def _(value: ReadEntry, with_data: bool) -> Iterator[str]:
    ids = f"Lid={value.ledger_id}, Eid={value.entry_id}"
    yield f"--------- {ids}, PayloadSize={value.size} ---------"
    yield f"LastConfirmed:  {value.last_add_confirmed}"
    if with_data:
        yield from dump(value.data)


@as_lines.register
def _(value: Lineage, with_data: bool) -> Iterator[str]:
    it, count = value.message_id, value.batch_size
    yield f"MessageID {it}"
    of = f", partition {it.partition} of {value.partition_count}" if it.partition >= 0 else ""
    yield f"topic: {value.topic}{of}"
    links = (
        f"{link.ledger_id} ({'open' if link.entry_count is None else link.entry_count})"
        for link in value.chain
    )
    yield f"ledgers, with their entries: {', '.join(links)}"
    yield f"ledger {it.ledger_id}: {describe_metadata(value.metadata)}"
    what = (
        "the whole entry" if it.batch_index < 0 else f"message {it.batch_index} of 0 to {count - 1}"
    )
    yield f"entry {it.entry_id}: {what}, {value.size} bytes from byte {value.offset} of a copy on"
    for copy in value.copies:
        piece = copy.piece
        where = f"{piece.file}, offset {piece.offset}, {len(piece.data)} bytes"
        yield f"{copy.bookie}: {where if piece.data else piece.absent}"
    if with_data:
        yield format_spans(next(c.piece.spans for c in value.copies if c.piece.data))


def describe_metadata(metadata: LedgerMetadata) -> str:
    """A ledger's metadata in one line."""
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


@as_lines.register
def _(value: LedgerDeleted, with_data: bool) -> Iterator[str]:
    yield f"Ledger {value.ledger_id} is deleted"


@as_lines.register
def _(value: SimpleTestPassed, with_data: bool) -> Iterator[str]:
    yield (
        f"{value.entry_count} entries written to ledger {value.ledger_id} and read again;"
        f" ensemble {', '.join(value.ensemble)}"
    )


@as_lines.register
def _(value: UnderreplicatedMark, with_data: bool) -> Iterator[str]:
    yield f"{value.ledger_id}"
    yield f"\tCtime : {value.ctime_ms}"
    for replica in value.missing_replicas:
        yield f"\tMissingReplica : {replica}"


@as_lines.register
def _(value: ElectedAuditor, with_data: bool) -> Iterator[str]:
    yield f"Auditor: {value.bookie_id}" if value.bookie_id else "No auditor elected"


@as_lines.register
def _(value: AutoRecoveryState, with_data: bool) -> Iterator[str]:
    yield f"Autorecovery is {'enabled' if value.enabled else 'disabled'}"


@as_lines.register
def _(value: AuditTriggered, with_data: bool) -> Iterator[str]:
    yield f"{value.auditor} audits now"


@as_lines.register
def _(value: LedgerRecovery, with_data: bool) -> Iterator[str]:
    # A failure goes to standard error.
    if value.error is None:
        done = "recovered" if value.recovered else "would be recovered"
        yield f"Ledger {value.ledger_id}: {value.fragment_count} fragments {done}"


@as_lines.register
def _(value: StillNeeded, with_data: bool) -> Iterator[str]:
    ledgers = ", ".join(map(str, value.ledger_ids))
    yield f"Ledgers that still need {value.bookie_id}: {ledgers}"


@as_lines.register
def _(value: CookieDeleted, with_data: bool) -> Iterator[str]:
    yield f"{value.bookie_id} does not belong to the cluster any more: its cookie is deleted"


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
