"""The declaration of every kind of event: its sentence, columns, causes and caption.

An event's cause is the earlier event without which it would not have happened. BookKeeper's wire
protocol and file formats have no room for trace ids. So `TraceLog` applies the rules in this
module, which find the cause of an event by comparing columns. Events of kinds without rules have no
cause: a client, for example, adds an entry because its caller asked for it.
"""

from dataclasses import dataclass
from enum import Enum

from labkit.system.trace.events import DEFAULTS, Event


class Link(Enum):
    """A rule for finding an event's cause among the earlier events.

    Unless specified otherwise, either both events have the same ledger and entry, or the cause is
    about the whole ledger.
    """

    SAME_NODE = "on the same node"
    SAME_LEDGER = "on the same node, about any entry of the same ledger"
    SAME_PEER = "on the same node, about the same peer"
    LISTED_BOOKIE = "on the same node, about a bookie in `bookies`, and any entry"
    SAME_RECORD = "on the same node, about the journal record at the same file and offset"
    SENT_HERE = "sent by another node to this one"
    FROM_PEER = "on the peer, while it served a request of this node"


@dataclass(frozen=True, slots=True)
class Kind:
    """The declaration of one kind of event.

    sentence: a template, as explained in the module `sentence`.
    columns: the columns, separated by spaces, that an event of this kind may set.
    causes: rules for finding the cause, each with the kind of the cause. The rules are tried in
        order. The first rule for which there is a matching event is used, and the latest such event
        is the cause.
    details: the allowed values of the column `detail`.
    caption: a template for the short label in a diagram. If it is "", the event is drawn without a
        label; if it is None, the event is not drawn. `#` stands for the entry ids of all events
        that are drawn together.
    first: an explanation shown beside the first event of this kind in a run, or "".
    """

    name: str
    sentence: str
    columns: str = ""
    causes: tuple[tuple[str, Link], ...] = ()
    details: tuple[str, ...] = ()
    caption: str | None = None
    first: str = ""


def validate(event: Event) -> None:
    """Raise `ValueError` if the kind is unknown, or if it does not allow one of the columns or the
    detail.
    """
    kind = KINDS.get(event.kind)
    if kind is None:
        raise ValueError(f"unknown kind of event {event.kind!r}")
    columns = kind.columns.split()
    for name, value in event._asdict().items():
        if value != DEFAULTS[name] and name not in columns and name not in _OF_ALL:
            raise ValueError(f"{event.kind} has no column {name}, got {value!r}")
    if event.detail and event.detail not in kind.details:
        raise ValueError(f"{event.kind} does not allow the detail {event.detail!r}")


_OF_ALL = ("seq", "time_us", "node", "kind", "cause")

_KINDS = (
    Kind("node.started", "{node} is up and serving", caption="starts"),
    # The process was killed, or it exited because of an error, which `error` and `explanation`
    # describe. `detail` says what happened to unsynced writes.
    Kind(
        "node.killed",
        "{node} was killed: its memory is lost, its files are kept",
        columns="error detail explanation",
        details=("kept", "lost", "torn", "lot"),
        caption="killed",
        first="killed: memory is lost, files are kept",
    ),
    # The process was stopped with SIGSTOP.
    Kind(
        "node.paused",
        "{node} was paused and does not respond",
        caption="paused",
        first="paused: it does not respond",
    ),
    Kind("node.resumed", "{node} was resumed", caption="resumed"),
    # An uncaught exception is a bug.
    Kind(
        "node.failed",
        "uncaught exception in {node}'s code: {explanation}",
        columns="explanation error",
        caption="bug",
    ),
    # The node's clock runs at the wrong rate and shows the wrong time.
    Kind("clock.skewed", "{node}'s clock is now wrong: {fault}", columns="fault"),
    Kind("disk.bad", "{node}'s disks start to fail: {fault}", columns="fault", caption="{fault}"),
    # When the bookie restarts, it starts as a new bookie without data.
    Kind(
        "bookie.formatted",
        "{node} was formatted: its disks are empty and its cookie is deleted",
        caption="formatted",
    ),
    Kind(
        "disk.good",
        "{node}'s disks work again (no longer: {fault})",
        columns="fault",
        caption="disk repaired",
    ),
    # One bit flipped in each of `size` bytes, starting at `offset`.
    Kind(
        "disk.rotted",
        "bits flipped in {file} on {node}[ at offset {offset}][, one in each of {size} bytes]",
        columns="file offset size",
        caption="bits flipped",
    ),
    # The messages are held back until the link is healed.
    Kind(
        "link.cut",
        "messages from {node} no longer reach {peer}",
        columns="peer",
        caption="cut",
        first="link cut: no messages arrive",
    ),
    Kind(
        "link.healed", "messages from {node} reach {peer} again", columns="peer", caption="healed"
    ),
    Kind(
        "message.lost",
        "message {message} from {node} to {peer} was lost",
        columns="message peer",
        caption="",
    ),
    Kind(
        "message.copied",
        "message {message} from {node} to {peer} is delivered twice",
        columns="message peer",
    ),
    # Messages that were sent later are delivered before this one.
    Kind(
        "message.swapped",
        "message {message} from {node} to {peer} is overtaken",
        columns="message peer",
    ),
    # The node's ephemeral znodes are deleted, too.
    Kind(
        "session.lost",
        "{node}'s metadata session expired[: {explanation}]",
        columns="explanation",
        caption="session lost",
    ),
    # `seconds` is the session timeout.
    Kind(
        "metadata.hung",
        "the metadata server hangs[; sessions expire after {seconds} s]",
        columns="seconds",
    ),
    Kind("metadata.resumed", "the metadata server responds again; some sessions may have expired"),
    Kind("step.started", "{node} starts to {step}", columns="step"),
    # `error` and `explanation` describe why the step failed.
    Kind(
        "step.ended",
        "{node} finished: {step}: [{detail}][{error}][: {explanation}]",
        columns="step detail error explanation",
        details=("done", "its node died", "its node is down"),
        caption="{detail}{error}",
    ),
    Kind("epilogue.started", "all faults are repaired and every entry is read back"),
    Kind(
        "ledger.unreadable",
        "ledger {ledger} cannot be opened: {error}[: {explanation}]",
        columns="ledger error explanation",
    ),
    # The bookie's ephemeral znode was created, so writers may choose it.
    Kind("bookie.registered", "{node} registered and accepts writes"),
    # The bookie's ephemeral znode was deleted because its session expired.
    Kind(
        "bookie.unregistered",
        "{node} is no longer registered[: {explanation}]",
        columns="explanation",
    ),
    Kind(
        "ledger.created",
        "{node} created ledger {ledger}[ with E={ensemble_size} Qw={write_quorum}"
        " Qa={ack_quorum}][{deferred_sync}, deferred sync]",
        columns="ledger ensemble_size write_quorum ack_quorum deferred_sync",
        caption="OPEN",
    ),
    # The ensemble of the ledger's segment that starts at this entry.
    Kind(
        "ensemble.set",
        "from entry {entry} on, ledger {ledger} is stored on {ensemble}",
        columns="entry ledger ensemble",
        causes=(
            ("ensemble.deferred", Link.SAME_NODE),
            ("ensemble.changing", Link.SAME_NODE),
            ("ledger.created", Link.SAME_NODE),
        ),
        caption="from {entry}: {ensemble}",
    ),
    Kind(
        "ensemble.changing",
        "{node} replaces bookies of ledger {ledger}, starting at entry {entry}[: {bookies}]",
        columns="ledger entry bookies",
        causes=(("add.failed", Link.LISTED_BOOKIE),),
        caption="replaces {bookies}",
    ),
    # Only a client that recovers the ledger defers a change. The client updates the metadata when
    # it closes the ledger.
    Kind(
        "ensemble.deferred",
        "{node} stores ledger {ledger} on {ensemble}, starting at entry {entry}; the metadata"
        " will say so when the ledger is closed",
        columns="ledger ensemble entry",
        causes=(("ensemble.changing", Link.SAME_NODE),),
        caption="from {entry}: {ensemble}",
    ),
    # The payload has `size` bytes, and LastAddPushed is now this entry.
    Kind(
        "add.pushed",
        "{node} adds entry {entry} to ledger {ledger}",
        columns="entry ledger size checksum",
        caption="add #",
    ),
    # `peer` is a bookie of the entry's write set.
    Kind(
        "add.sent",
        "{node} sent entry {entry} of ledger {ledger} to {peer}",
        columns="entry ledger peer",
        causes=(("add.pushed", Link.SAME_NODE),),
        caption="sends #",
        first="sent to Qw bookies at once",
    ),
    Kind(
        "memtable.put",
        "{node} has entry {entry} of ledger {ledger} in its memtable, not yet durable",
        columns="entry ledger",
        causes=(("add.sent", Link.SENT_HERE),),
        caption="memtable #",
        first="in memory: readable, not yet durable",
    ),
    Kind(
        "journal.appended",
        "{node} appended entry {entry} of ledger {ledger} to its journal[ {file}][ at offset"
        " {offset}], not yet synced",
        columns="entry ledger file offset",
        causes=(("memtable.put", Link.SAME_NODE),),
        caption="",
    ),
    # This record precedes the ledger's first entry.
    Kind(
        "journal.key_appended",
        "{node} appended the master key of ledger {ledger} to its journal[ {file}][ at offset"
        " {offset}], not yet synced",
        columns="ledger file offset",
    ),
    Kind(
        "journal.fence_appended",
        "{node} appended the fence of ledger {ledger} to its journal[ {file}][ at offset"
        " {offset}], not yet synced",
        columns="ledger file offset",
        causes=(("fence.sent", Link.SENT_HERE),),
    ),
    Kind(
        "journal.lac_appended",
        "{node} appended an explicit LAC of ledger {ledger} to its journal[ {file}][ at"
        " offset {offset}], not yet synced",
        columns="ledger file offset",
    ),
    # The record at `offset` is now durable; `size` is the number of records in the synced group.
    # The entry is -1 for a fence or an explicit LAC.
    Kind(
        "journal.synced",
        "{node} synced its journal[: entry {entry} of ledger {ledger} is now durable]",
        columns="entry ledger file offset size",
        causes=(
            ("journal.appended", Link.SAME_RECORD),
            ("journal.fence_appended", Link.SAME_RECORD),
            ("journal.lac_appended", Link.SAME_RECORD),
        ),
        caption="synced #",
        first="journal synced: durable",
    ),
    Kind(
        "add.acked",
        "{peer} acknowledged entry {entry} of ledger {ledger} to {node}",
        columns="peer entry ledger",
        causes=(("journal.synced", Link.FROM_PEER), ("add.sent", Link.SAME_PEER)),
        caption="acked #",
        first="acknowledgement received",
    ),
    Kind(
        "add.failed",
        "{peer} did not acknowledge entry {entry} of ledger {ledger} to {node}[: {error}]",
        columns="peer entry ledger error",
        causes=(("add.sent", Link.SAME_PEER),),
        caption="{error} #",
        first="not acknowledged",
    ),
    # Qa bookies have the entry, and all earlier entries are confirmed.
    Kind(
        "lac.advanced",
        "entry {entry} of ledger {ledger} is confirmed (LastAddConfirmed)",
        columns="entry ledger",
        causes=(("add.acked", Link.SAME_NODE),),
        caption="LAC #",
        first="Qa acknowledgements: LastAddConfirmed advances",
    ),
    Kind(
        "ledger.closed",
        "ledger {ledger} is closed[; its last entry is {entry}]",
        columns="ledger entry size",
        causes=(("recovery.covered", Link.SAME_LEDGER),),
        caption="CLOSED at {entry}",
        first="closed: its last entry is fixed",
    ),
    Kind("ledger.deleting", "{node} requests the deletion of ledger {ledger}", columns="ledger"),
    # This node has deleted the ledger, or has noticed that it was deleted. Bookies delete its
    # entries later.
    Kind("ledger.deleted", "ledger {ledger} is deleted", columns="ledger"),
    # The ledger is now IN_RECOVERY.
    Kind(
        "recovery.started",
        "{node} started to recover ledger {ledger}[, stored on {segments}]",
        columns="ledger segments",
        caption="IN_RECOVERY",
    ),
    # The request also asks for the bookie's LastAddConfirmed.
    Kind(
        "fence.sent",
        "{node} asked {peer} to fence ledger {ledger}",
        columns="peer ledger",
        causes=(("recovery.started", Link.SAME_NODE),),
        caption="fence",
    ),
    Kind(
        "ledger.fenced",
        "{node} fenced ledger {ledger}: it rejects all adds except recovery's",
        columns="ledger",
        causes=(("fence.sent", Link.SENT_HERE),),
        caption="fenced",
        first="fenced: only recovery may add",
    ),
    Kind(
        "fence.answered",
        "{peer} reported to {node} that it fenced ledger {ledger}[; its LastAddConfirmed is"
        " {entry}]",
        columns="peer ledger entry error",
        causes=(("ledger.fenced", Link.FROM_PEER), ("fence.sent", Link.SAME_PEER)),
        caption="",
    ),
    Kind(
        "fence.failed",
        "{peer} did not confirm to {node} that it fenced ledger {ledger}[: {error}]",
        columns="peer ledger error",
        causes=(("fence.sent", Link.SAME_PEER),),
        caption="{peer}: {error}",
    ),
    # This entry is the highest LastAddConfirmed that a bookie reported; recovery reads the entries
    # after it.
    Kind(
        "recovery.covered",
        "{node} has fenced enough bookies of ledger {ledger}[; at least entry {entry} is"
        " confirmed]",
        columns="ledger entry",
        causes=(("fence.answered", Link.SAME_LEDGER),),
        caption="enough fenced, LAC {entry}",
    ),
    # The last entry and all earlier entries have been stored by ack quorums, and the ledger is
    # closed.
    Kind(
        "recovery.ended",
        "{node} recovered ledger {ledger}[; its last entry is {entry}]",
        columns="ledger entry",
        causes=(("ledger.closed", Link.SAME_NODE), ("recovery.covered", Link.SAME_LEDGER)),
        caption="",
    ),
    # The last entry is still unknown, and the ledger remains IN_RECOVERY.
    Kind(
        "recovery.failed",
        "{node} could not recover ledger {ledger}[: {error}]",
        columns="ledger error",
        causes=(("recovery.started", Link.SAME_NODE),),
        caption="recovery failed: {error}",
    ),
    Kind(
        "entry_log.written",
        "{node} wrote entry {entry} of ledger {ledger} to its entry log[ {file}][ at offset"
        " {offset}]",
        columns="entry ledger file offset size",
        causes=(("memtable.put", Link.SAME_NODE),),
    ),
    Kind(
        "index.written",
        "{node} wrote the location of entry {entry} of ledger {ledger} to its index[ {file}]",
        columns="entry ledger file offset size",
        causes=(("entry_log.written", Link.SAME_NODE),),
    ),
    # The entry log and the index have been synced.
    Kind(
        "memtable.flushed",
        "{node} flushed its memtable to entry log and index[, entries: {size}]",
        columns="size",
        first="flushed to entry log and index",
    ),
    # The next replay starts at this position.
    Kind(
        "mark.persisted",
        "{node} advanced LastLogMark[ to {file}][ at offset {offset}]",
        columns="file offset",
    ),
    # A bookie replays its journal when it starts. The position is the end of the journal.
    Kind(
        "journal.replayed",
        "{node} replayed its journal[, records: {size}]",
        columns="size file offset",
        caption="replay",
    ),
    Kind(
        "bookie.read_only",
        "{node} is read-only[: {explanation}]",
        columns="explanation",
        caption="read-only",
    ),
    Kind(
        "bookie.writable",
        "{node} accepts writes again[: {explanation}]",
        columns="explanation",
        caption="writable",
    ),
    # From now on, the bookie rejects all adds to the ledger.
    Kind(
        "ledger.collected",
        "{node} dropped its entries of the deleted ledger {ledger}",
        columns="ledger",
    ),
    Kind(
        "garbage.collected", "{node} collected garbage[, deleted ledgers: {size}]", columns="size"
    ),
    # The ledger's metadata no longer lists this bookie.
    Kind(
        "ledger.dropped",
        "{node} dropped its copies of ledger {ledger}, now stored on other bookies",
        columns="ledger",
    ),
    Kind(
        "garbage.kept", "{node} skipped garbage collection[: {explanation}]", columns="explanation"
    ),
    Kind(
        "log.compacted",
        "{node} copied the live entries of entry log {file} and deleted it",
        columns="file",
    ),
    Kind(
        "log.removed", "{node} deleted entry log {file}, which had no live entries", columns="file"
    ),
    Kind(
        "read.sent",
        "{node} requested entry {entry} of ledger {ledger} from {peer}",
        columns="entry ledger peer",
        caption="read #",
    ),
    Kind(
        "read.served",
        "{node} found entry {entry} of ledger {ledger}[ in its {detail}]",
        columns="entry ledger detail peer",
        causes=(("read.sent", Link.SENT_HERE),),
        details=("memtable", "entry log"),
        caption="has #",
    ),
    Kind(
        "read.done",
        "{node} received entry {entry} of ledger {ledger} from {peer} and verified its digest",
        columns="entry ledger peer checksum",
        causes=(("read.served", Link.FROM_PEER), ("read.sent", Link.SAME_PEER)),
        caption="got #",
        first="read, digest verified",
    ),
    Kind(
        "read.failed",
        "{peer} did not return entry {entry} of ledger {ledger} to {node}[: {error}]",
        columns="peer entry ledger error",
        causes=(("read.sent", Link.SAME_PEER),),
        caption="{error} #",
        first="did not return the entry",
    ),
    # The reader may read up to this entry. `detail` is a reason why the actual LastAddConfirmed may
    # be higher.
    Kind(
        "lac.read",
        "{node} read LastAddConfirmed of ledger {ledger}[: {entry}]",
        columns="ledger entry detail",
        details=("the first response",),
        caption="may read up to {entry}",
    ),
    Kind("auditor.elected", "{node} became the auditor", caption="auditor"),
    # The node is the auditor, and has read this setting.
    Kind(
        "auditor.delay",
        "{node} waits {seconds} s for a bookie to return before it counts as lost[: {explanation}]",
        columns="seconds explanation",
    ),
    Kind("bookie.lost", "{node} declared {peer} lost", columns="peer", caption="{peer} is lost"),
    # `bookies` lists the lost bookies.
    Kind(
        "ledger.underreplicated",
        "{node} marked ledger {ledger} as under-replicated[, lost bookies: {bookies}]",
        columns="ledger bookies",
        causes=(("bookie.lost", Link.LISTED_BOOKIE),),
        caption="under-replicated",
    ),
    # The worker has locked the ledger.
    Kind(
        "replication.started",
        "{node} started to repair ledger {ledger}",
        columns="ledger",
        caption="repairs",
    ),
    Kind(
        "entry.copied",
        "{node} copied entry {entry} of ledger {ledger} to {peer}",
        columns="entry ledger peer",
        causes=(("journal.synced", Link.FROM_PEER), ("read.done", Link.SAME_NODE)),
        caption="copied #",
    ),
    # The metadata now lists the new bookies.
    Kind(
        "fragment.replicated",
        "{node} repaired ledger {ledger}, starting at entry {entry}[; new bookies: {bookies}]",
        columns="ledger entry bookies",
        causes=(("replication.started", Link.SAME_NODE),),
        caption="from {entry}: {bookies} new",
    ),
    # The worker has removed the ledger's mark.
    Kind(
        "replication.done",
        "{node} repaired ledger {ledger}: no copies are missing",
        columns="ledger",
        caption="repaired",
    ),
    # The worker has released the ledger and will retry later.
    Kind(
        "replication.deferred",
        "{node} postponed the repair of ledger {ledger}[: {explanation}]",
        columns="ledger explanation detail",
        details=("open", "short", "failed", "marked again"),
    ),
    # The write sets of these segments span too few racks.
    Kind(
        "placement.unmet",
        "{node} found too few racks[ for ledger {ledger}][: {segments}][: {explanation}]",
        columns="ledger segments explanation",
    ),
    Kind(
        "ledger.unchecked",
        "{node} could not check ledger {ledger}[: {explanation}]",
        columns="ledger explanation",
    ),
    # `size` entries have missing copies.
    Kind(
        "replicas.missing",
        "{node} found missing copies in ledger {ledger}[: {explanation}]",
        columns="ledger explanation size",
    ),
    Kind(
        "autorecovery.restarted",
        "{node} restarted autorecovery in a new metadata session[: {explanation}]",
        columns="explanation",
    ),
    Kind(
        "batch.stored",
        "a batch was stored as entry {entry} of ledger {ledger}[, messages: {size}]",
        columns="entry ledger size topic",
        causes=(("lac.advanced", Link.SAME_NODE),),
    ),
    # If the message is a duplicate of a stored one, the ledger and the entry are -1.
    Kind(
        "message.acked",
        "{node} received the receipt for {topic} {producer} {sequence_id}[: stored as entry"
        " {entry} of ledger {ledger}]",
        columns="topic producer sequence_id entry ledger",
    ),
    # This event and the next two are reported at the end of the run.
    Kind(
        "message.found",
        "{topic} {producer} {sequence_id} is in entry {entry} of ledger {ledger}",
        columns="topic producer sequence_id entry ledger",
    ),
    Kind(
        "topic.unread",
        "{node} could not read a topic[: {topic}][: {error}][: {explanation}]",
        columns="topic error explanation",
    ),
    Kind("topic.read", "{node} read all of {topic}[, entries: {size}]", columns="topic size"),
    # The broker has reread `size` entries to find the highest sequence id of each producer.
    Kind(
        "deduplication.rebuilt",
        "{node} rebuilt the deduplication state of {topic}[, entries reread: {size}]",
        columns="topic size",
    ),
    Kind("bundle.acquired", "{node} now owns the topics of {bundle}", columns="bundle"),
    Kind(
        "bundle.lost",
        "{node} no longer owns the topics of {bundle}: its session expired",
        columns="bundle",
    ),
    # Any broker may acquire the bundle.
    Kind("bundle.released", "{node} released the topics of {bundle}", columns="bundle"),
    Kind("topic.opened", "{node} opened {topic}", columns="topic"),
    # Every message that the broker received before this event has been stored.
    Kind("topic.closed", "{node} closed {topic}", columns="topic"),
    # Unlike after `topic.closed`, some of the received messages may not have been stored.
    Kind(
        "topic.ended",
        "{node} stopped serving a topic[: {topic}][: {explanation}]",
        columns="topic explanation",
    ),
    # A client or the broker found the message corrupt, and acknowledged it.
    Kind(
        "entry.discarded",
        "entry {entry} of ledger {ledger} was discarded[: {subscription} of {topic}][:"
        " {explanation}]",
        columns="entry ledger subscription topic explanation",
    ),
    # The broker will retry.
    Kind(
        "cursor.unstored",
        "{node} could not store acknowledgements[ of {subscription}][: {explanation}]",
        columns="subscription explanation",
    ),
    Kind(
        "ledger.rolled",
        "the partition continues in ledger {ledger}[: {topic}][: {explanation}]",
        columns="ledger topic explanation detail",
        details=("opened", "entries", "size", "age", "failure"),
    ),
    Kind(
        "ledger.delayed",
        "ledger {ledger} could not store an entry; the partition waits[: {topic}][, {seconds} s]",
        columns="ledger topic seconds",
    ),
    Kind(
        "dispatch.delayed",
        "{node} could not read the next entries[ for {subscription} of {topic}][:"
        " {explanation}][; retries in {seconds} s]",
        columns="subscription topic explanation seconds ledger entry",
    ),
    # The broker will retry at the next check.
    Kind(
        "expiry.failed",
        "{node} could not expire messages[ of {subscription} of {topic}][: {explanation}]",
        columns="subscription topic explanation",
    ),
)
KINDS = {kind.name: kind for kind in _KINDS}
