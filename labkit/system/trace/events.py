"""The kinds of events, each with one line of meaning and the rule for its cause.

An event's cause is the earlier event without which it would not have happened.  Wire protocol and
files carry no room for trace ids (they are BookKeeper's own), so causes are not sent along: they
are found again from the ids that both events name, by the rules here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Event(NamedTuple):
    """One thing that happened on one node.

    `seq` numbers a log's events from 0 in time order; `cause` is the `seq` that led here, or -1.
    -1 and "" mean that a field does not apply.  `time_us` counts microseconds on a clock that all
    nodes of the run share.
    """

    seq: int
    time_us: int
    node: str
    kind: str
    cause: int = -1
    ledger: int = -1
    entry: int = -1
    peer: str = ""
    file: str = ""
    offset: int = -1
    size: int = -1
    note: str = ""


def lineage(events: Sequence[Event], seq: int) -> list[Event]:
    """The event of a log and its causes, first cause first."""
    path = list[Event]()
    while seq >= 0:
        path.append(events[seq])
        seq = path[-1].cause
    return path[::-1]


class Link(Enum):
    """How an event finds its cause among the earlier events of a kind, same ledger and entry."""

    SAME_NODE = "on the same node"
    SAME_PAIR = "on the same node, about the same peer"
    SENT_HERE = "sent by another node to this one"
    FROM_PEER = "on the node that this event names as its peer"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of event means, and the rules that find its cause (the first one that fits)."""

    name: str
    meaning: str
    causes: tuple[tuple[str, Link], ...] = ()


_SAME, _PAIR = Link.SAME_NODE, Link.SAME_PAIR
_SENT, _PEER = Link.SENT_HERE, Link.FROM_PEER

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("node.started", "a node's process is up and serving"),
        Kind(
            "node.killed", "a node's process was killed or ended by itself: memory lost, files kept"
        ),
        Kind("node.paused", "a node's process was stopped (SIGSTOP): it does not answer"),
        Kind("node.resumed", "a paused process goes on (SIGCONT)"),
        Kind("node.failed", "a node's code raised an error that nothing catches (note): a mistake"),
        Kind("clock.skewed", "the node's clock runs at another rate and shows another time; note"),
        Kind("disk.bad", "the node's disks are bad from now on; note: how"),
        Kind(
            "bookie.formatted",
            "an operator emptied the bookie's disks and deleted its cookie: it comes back as new",
        ),
        Kind("disk.good", "the node's disks are no longer bad in that way (note)"),
        Kind(
            "disk.rotted",
            "one bit flipped in a file (file, offset) of the node; size: the number of bytes",
        ),
        Kind("link.cut", "what the node sends to that node (peer) is held from now on"),
        Kind("link.healed", "what was held on the way to that node (peer) goes on"),
        Kind("message.lost", "a message of the node to that node (peer) got lost; note: its name"),
        Kind("message.copied", "a message to that node (peer) will come twice; note: its name"),
        Kind("message.swapped", "later messages to that node (peer) overtake one; note: its name"),
        Kind(
            "session.lost",
            "the metadata store ended the node's session: its ephemeral znodes are gone; note: why",
        ),
        Kind(
            "metadata.hung",
            "the metadata server stopped answering; note: a session's time-out in seconds",
        ),
        Kind(
            "metadata.resumed",
            "the metadata server goes on: what waited is answered, and sessions may be over",
        ),
        Kind("step.started", "a client began a step of its work (note)"),
        Kind("step.ended", "a client's step (note) has ended; note: also how"),
        Kind("epilogue.started", "all faults are repaired, and every entry is looked up"),
        Kind("ledger.unreadable", "the ledger could not be opened or recovered; note: why"),
        Kind("bookie.registered", "the bookie's ephemeral znode appeared: it takes writes"),
        Kind(
            "bookie.unregistered",
            "the bookie's ephemeral znode is gone, as its session was lost; note: why",
        ),
        Kind("ledger.created", "a writer created a ledger; note: E, Qw and Qa"),
        Kind(
            "ensemble.set",
            "from this entry on the ledger is stored on these bookies (note, in order)",
            (("ensemble.changing", _SAME), ("ledger.created", _SAME)),
        ),
        Kind(
            "ensemble.changing",
            "the writer replaces bookies that failed, from this entry on; note: which",
            (("add.failed", _SAME),),
        ),
        Kind(
            "ensemble.deferred",
            "from this entry on a recoverer stores on these bookies (note); the metadata lags",
            (("add.failed", _SAME),),
        ),
        Kind("add.pushed", "the writer gave the payload its entry id: LastAddPushed moves"),
        Kind(
            "add.sent",
            "the writer sent the entry to a bookie of its write set (peer)",
            (("add.pushed", _SAME),),
        ),
        Kind(
            "memtable.put",
            "the bookie put the entry into its memtable: readable, not yet durable",
            (("add.sent", _SENT),),
        ),
        Kind(
            "journal.appended",
            "the entry's record has its place in the journal (file, offset); not yet synced",
            (("memtable.put", _SAME),),
        ),
        Kind(
            "journal.key_appended",
            "the ledger's master key has its place in the journal, before its first record there",
        ),
        Kind(
            "journal.fence_appended",
            "the ledger's fence has its place in the journal (file, offset); not yet synced",
            (("fence.sent", _SENT),),
        ),
        Kind(
            "journal.lac_appended",
            "the ledger's explicit LAC has its place in the journal (file, offset); not yet synced",
        ),
        Kind(
            "journal.synced",
            "the sync that covers the journal record at that offset returned: durable; size: its"
            " group; entry -1: of a fence or an explicit LAC",
            (
                ("journal.appended", _SAME),
                ("journal.fence_appended", _SAME),
                ("journal.lac_appended", _SAME),
            ),
        ),
        Kind(
            "add.acked",
            "the writer got a bookie's acknowledgement (peer)",
            (("journal.synced", _PEER), ("add.sent", _PAIR)),
        ),
        Kind(
            "add.failed",
            "the writer will get no acknowledgement from that bookie (peer); note: why",
            (("add.sent", _PAIR),),
        ),
        Kind(
            "lac.advanced",
            "Qa bookies have the entry and all before it are confirmed: LastAddConfirmed moves",
            (("add.acked", _SAME),),
        ),
        Kind("ledger.closed", "the ledger's last entry is now fixed in its metadata"),
        Kind("ledger.deleting", "this node asks the metadata store to delete the ledger"),
        Kind(
            "ledger.deleted",
            "this node removed the ledger's metadata, or found it gone; bookies drop its entries"
            " later",
        ),
        Kind("recovery.started", "a client recovers the ledger, now IN_RECOVERY; note: segments"),
        Kind(
            "fence.sent",
            "the recovering client asked a bookie (peer) to fence the ledger and report its LAC",
            (("recovery.started", _SAME),),
        ),
        Kind(
            "ledger.fenced",
            "the bookie will take no more adds but recovery's for this ledger",
            (("fence.sent", _SENT),),
        ),
        Kind(
            "fence.answered",
            "the bookie (peer) has fenced; entry: the LastAddConfirmed that it reports",
            (("ledger.fenced", _PEER), ("fence.sent", _PAIR)),
        ),
        Kind(
            "fence.failed",
            "that bookie (peer) gave no answer to the fencing read; note: why",
            (("fence.sent", _PAIR),),
        ),
        Kind(
            "recovery.covered",
            "enough bookies are fenced; entry: the highest LAC reported; recovery reads after it",
            (("fence.answered", _SAME),),
        ),
        Kind(
            "recovery.ended",
            "recovery found the last entry (entry) and has it and all before it at full quorum",
            (("recovery.covered", _SAME),),
        ),
        Kind(
            "recovery.failed",
            "recovery could not tell where the ledger ends: it stays IN_RECOVERY; note: why",
            (("recovery.started", _SAME),),
        ),
        Kind(
            "entry_log.written",
            "the flush wrote the entry into the entry log (file, offset)",
            (("memtable.put", _SAME),),
        ),
        Kind(
            "index.written",
            "the index page that holds the entry's location was written (file, offset)",
            (("entry_log.written", _SAME),),
        ),
        Kind(
            "memtable.flushed", "a memtable is on disk: entry log and index synced; size: entries"
        ),
        Kind("mark.persisted", "LastLogMark: replay would start at this journal file and offset"),
        Kind(
            "journal.replayed",
            "at start the bookie read its journal again, up to this file and offset; size: records",
        ),
        Kind("bookie.read_only", "the bookie takes no more adds but recovery's; note: why"),
        Kind("bookie.writable", "the bookie takes writes again"),
        Kind(
            "ledger.collected",
            "the bookie drops a ledger that was deleted, and takes no more adds to it",
        ),
        Kind("garbage.collected", "the bookie dropped ledgers that were deleted; size: how many"),
        Kind(
            "ledger.dropped",
            "the bookie gave up its copies of the ledger: its metadata name other bookies instead",
        ),
        Kind("garbage.kept", "nothing was collected or compacted; note: why"),
        Kind("log.compacted", "what lives in a log (file) was copied and the log removed"),
        Kind("log.removed", "a log (file) in which no ledger was left was removed"),
        Kind("read.sent", "a reader asked a bookie (peer) for the entry"),
        Kind(
            "read.served",
            "the bookie found the entry; note: in the memtable or in the entry log",
            (("read.sent", _SENT),),
        ),
        Kind(
            "read.done",
            "the reader has the entry from that bookie (peer), digest verified",
            (("read.served", _PEER), ("read.sent", _PAIR)),
        ),
        Kind(
            "read.failed",
            "that bookie (peer) did not give the entry; note: why",
            (("read.sent", _PAIR),),
        ),
        Kind(
            "lac.read",
            "a reader learned LastAddConfirmed (entry): what it may read from now on; note: why"
            " more may be confirmed",
        ),
        Kind("auditor.elected", "this node won the election: it watches over the bookies"),
        Kind(
            "auditor.delay",
            "the auditor learned how long a bookie may be away before it is lost; note: seconds",
        ),
        Kind("bookie.lost", "the auditor took a bookie (peer) for lost"),
        Kind(
            "ledger.underreplicated",
            "the auditor marked the ledger as short of copies; note: the bookies that miss",
            (("bookie.lost", _SAME),),
        ),
        Kind(
            "replication.started",
            "a replication worker took the lock of an underreplicated ledger",
        ),
        Kind(
            "entry.copied",
            "the worker has the entry stored on a new bookie (peer)",
            (("journal.synced", _PEER), ("read.done", _SAME)),
        ),
        Kind(
            "fragment.replicated",
            "the metadata names the new bookie for the fragment from this entry on; note: which",
            (("replication.started", _SAME),),
        ),
        Kind("replication.done", "the ledger is no longer marked: all its copies are there"),
        Kind("replication.deferred", "the worker released the ledger for now; note: why"),
        Kind(
            "placement.unmet",
            "the auditor found write sets of the ledger that span too few racks; note: segments",
        ),
        Kind("ledger.unchecked", "the auditor could not look at the ledger; note: why"),
        Kind(
            "replicas.missing",
            "the replicas check found entries with too few copies; note: how many",
        ),
        Kind(
            "autorecovery.restarted",
            "autorecovery begins again in another metadata session; note: why",
        ),
        Kind(
            "batch.stored",
            "a batch of messages is stored as this entry; size: messages; note: topic partition",
            (("lac.advanced", _SAME),),
        ),
        Kind(
            "message.acked",
            "the producer has the receipt of a message (note: topic, producer, sequence id); ledger"
            " and entry: where it is stored, -1: it was stored before",
        ),
        Kind(
            "message.found",
            "a message (note: topic, producer, sequence id) was read in the topic, at the end",
        ),
        Kind("topic.unread", "a topic could not be read, at the end; note: which, and why"),
        Kind("topic.read", "all of a topic (note) was read, at the end; size: entries"),
        Kind(
            "deduplication.rebuilt",
            "the broker knows what a topic (note) has of each producer; size: entries read again",
        ),
        Kind("bundle.acquired", "the broker owns a bundle of topics (note) from now on"),
        Kind("bundle.lost", "the broker's session ended, and with it what it owned (note)"),
        Kind("bundle.released", "the broker gave up a bundle of topics (note): any may take it"),
        Kind("topic.opened", "the broker serves a topic (note) from now on"),
        Kind("topic.closed", "the broker closed a topic (note): all that came is stored"),
        Kind(
            "topic.ended",
            "the broker stopped serving a topic at once; note: which, and why",
        ),
        Kind(
            "entry.discarded",
            "a client could not read an entry that it got, and acknowledged it all the same;"
            " note: subscription and topic, and why",
        ),
        Kind(
            "cursor.unstored",
            "the broker could not store what a subscription has acknowledged, and tries again;"
            " note: which, and why",
        ),
        Kind("ledger.rolled", "the partition goes on in this new ledger; note: which, and why"),
        Kind(
            "ledger.delayed",
            "this ledger took no entry, so the partition waits before the next one; note: which,"
            " and how long",
        ),
        Kind(
            "dispatch.delayed",
            "the broker could not read what a subscription is to get next, and waits; note: which,"
            " why, and how long",
        ),
        Kind(
            "expiry.failed",
            "the broker could not expire messages, and tries again at the next check; note: the"
            " subscription, and why",
        ),
    )
}
