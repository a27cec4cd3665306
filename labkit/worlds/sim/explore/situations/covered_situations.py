"""Lists the situations that a search counts. A situation is an event that happens during an
activity, such as a fence during a flush.

The list was written by hand. It covers the points at which BookKeeper's protocol must coordinate
two parties, such as two clients of a ledger, a bookie and its disks, a session and the work that
depends on it, or a repair and the ledger.
"""

from labkit.system.trace.events import Event
from labkit.worlds.sim.explore.situations.situations_reached import (
    Activity,
    Situation,
    here,
    other_node,
    same_ledger,
)

# Activities

_RECOVERY = Activity(("recovery.started",), ("recovery.ended", "recovery.failed"))
_CLOSING = Activity(("recovery.covered",), ("ledger.closed", "recovery.ended", "recovery.failed"))
_FENCING = Activity(("fence.sent",), ("recovery.covered", "recovery.failed"))
_REREADING = Activity(("recovery.covered",), ("recovery.ended", "recovery.failed"))
_FENCED = Activity(("ledger.fenced",), ("ledger.collected",))
_CHANGE = Activity(("ensemble.changing",), ("ensemble.set",))
_ADD = Activity(("add.pushed",), ("lac.advanced",), ("node", "ledger", "entry"))
_READ = Activity(("read.sent",), ("read.done", "read.failed"), ("node", "ledger", "entry", "peer"))

_UNSYNCED_ADD = Activity(("journal.appended",), ("journal.synced",), ("node", "ledger", "entry"))
_UNSYNCED_FENCE = Activity(
    ("journal.fence_appended",), ("journal.synced",), ("node", "ledger", "file", "offset")
)
_FLUSH = Activity(call=("flush",))
_COMPACTION = Activity(call=("compact",))
_COLLECTION = Activity(call=("collect",))
_JOURNAL_WRITE = Activity(call=("write", "put", "sync"))
_OPENING = Activity(call=("open",))
_STARTING = Activity(("journal.replayed",), ("node.started",), ("node",))
_READ_ONLY = Activity(("bookie.read_only",), ("bookie.writable",), ("node",))
_BAD_DISK = Activity(("disk.bad",), ("disk.good",), ("node",), outlives_node=True)
_ROTTEN = Activity(("disk.rotted",), (), ("node",), outlives_node=True)

_DELETED = Activity(("ledger.deleted",), (), ("ledger",), outlives_node=True)
_CLOSED = Activity(("ledger.closed",), (), ("ledger",), outlives_node=True)
_FAILED_RECOVERY = Activity(("recovery.failed",), (), ("ledger",), outlives_node=True)

_ABSENCE = Activity(("bookie.unregistered",), ("bookie.registered",), ("node",), outlives_node=True)
_OUTAGE = Activity(("metadata.hung",), ("metadata.resumed",), ("node",), outlives_node=True)

_REPAIR = Activity(("replication.started",), ("replication.done", "replication.deferred"))
_DEFERRED = Activity(
    ("replication.deferred",), ("replication.started", "replication.deferred", "replication.done")
)
_MARKED = Activity(
    ("ledger.underreplicated",), ("replication.done",), ("ledger",), outlives_node=True
)
_LOST = Activity(("bookie.lost",), (), ("peer",), outlives_node=True)
_PAST_AUDITOR = Activity(("auditor.elected",), (), ("node",), outlives_node=True)

_OWNER = Activity(("bundle.acquired",), ("bundle.lost", "bundle.released"), ("node", "bundle"))
_TAKEOVER = Activity(("bundle.acquired",), ("topic.opened",), ("node",))
_SERVING = Activity(("topic.opened",), ("topic.ended", "topic.closed"), ("node",))

_LOST_SESSION, _KILLED, _FENCE = "session.lost", "node.killed", "ledger.fenced"


def _is_its_peer(begun: Event, now: Event) -> bool:
    return begun.peer == now.node


def _has_same_peer(begun: Event, now: Event) -> bool:
    return begun.peer == now.peer


def _finds_more(begun: Event, now: Event) -> bool:
    return same_ledger(begun, now) and now.entry > begun.entry


def _finds_no_more(begun: Event, now: Event) -> bool:
    return same_ledger(begun, now) and now.entry == begun.entry


def _waits_for_its_writer(begun: Event, now: Event) -> bool:
    return same_ledger(begun, now) and begun.detail == "open"


def _any_node(begun: Event, now: Event) -> bool:
    return begun.ledger == now.ledger


def _elsewhere(begun: Event, now: Event) -> bool:
    return begun.node != now.node


def _other_owner(begun: Event, now: Event) -> bool:
    return begun.node != now.node and begun.bundle == now.bundle


def _earlier_entry(begun: Event, now: Event) -> bool:
    return same_ledger(begun, now) and begun.entry < now.entry


_WRITING = (
    Situation("an entry is acknowledged before an earlier one", "add.acked", _ADD, _earlier_entry),
    Situation("the writer dies with unconfirmed entries", _KILLED, _ADD, here),
    Situation("the writer loses its session with unconfirmed entries", _LOST_SESSION, _ADD, here),
    Situation("an ensemble change", "ensemble.changing"),
    Situation("a bookie fails during an ensemble change", "add.failed", _CHANGE, same_ledger),
    Situation("an entry is pushed during an ensemble change", "add.pushed", _CHANGE, same_ledger),
    Situation(
        "a second ensemble change during the first", "ensemble.changing", _CHANGE, same_ledger
    ),
    Situation("the writer dies during an ensemble change", _KILLED, _CHANGE, here),
    Situation(
        "the writer loses its session during an ensemble change", _LOST_SESSION, _CHANGE, here
    ),
    Situation("the metadata store hangs during an ensemble change", "metadata.hung", _CHANGE),
    Situation(
        "a recovery starts during an ensemble change", "recovery.started", _CHANGE, other_node
    ),
    Situation("a ledger is deleted while it is being written", "ledger.deleted", _ADD, _any_node),
    Situation(
        "a bookie collects a ledger while it is being written", "ledger.collected", _ADD, _any_node
    ),
    Situation("the writer finds itself fenced", "add.failed", error="BKLedgerFencedException"),
)
_RECOVERING = (
    Situation("two recoverers", "recovery.started", _RECOVERY, other_node),
    Situation(
        "a ledger is recovered after a failed recovery",
        "recovery.started",
        _FAILED_RECOVERY,
        _any_node,
    ),
    Situation("an ensemble change during recovery", "ensemble.deferred", _RECOVERY, same_ledger),
    Situation(
        "another client changes the ensemble during recovery",
        "ensemble.changing",
        _RECOVERY,
        other_node,
    ),
    Situation(
        "another client pushes an entry while a recoverer is fencing",
        "add.pushed",
        _FENCING,
        other_node,
    ),
    Situation(
        "another client confirms an entry while a recoverer is fencing",
        "lac.advanced",
        _FENCING,
        other_node,
    ),
    Situation("the recoverer dies while fencing", _KILLED, _FENCING, here),
    Situation("the recoverer loses its session during recovery", _LOST_SESSION, _RECOVERY, here),
    Situation("the recoverer is paused during recovery", "node.paused", _RECOVERY, here),
    Situation("the metadata store hangs during recovery", "metadata.hung", _RECOVERY),
    Situation(
        "a bookie dies while a recoverer is fencing it", "fence.failed", _FENCING, same_ledger
    ),
    Situation("a bookie dies during recovery", _KILLED, _RECOVERY, _elsewhere),
    Situation("a recovery finds entries beyond the LAC", "recovery.ended", _REREADING, _finds_more),
    Situation(
        "a recovery finds nothing beyond the LAC", "recovery.ended", _REREADING, _finds_no_more
    ),
    Situation("a recovery fails", "recovery.failed"),
    Situation("the recoverer dies before it closes the ledger", _KILLED, _CLOSING, here),
    Situation(
        "another client closes the ledger before the recoverer",
        "ledger.closed",
        _CLOSING,
        other_node,
    ),
    Situation(
        "another client closes the ledger during recovery", "ledger.closed", _RECOVERY, other_node
    ),
    Situation("a ledger is deleted during recovery", "ledger.deleted", _RECOVERY, _any_node),
    Situation("a fence on a deleted ledger", _FENCE, _DELETED, _any_node),
    Situation("a fence on a closed ledger", _FENCE, _CLOSED, _any_node),
)
_READING = (
    Situation("a bookie dies during a read", _KILLED, _READ, _is_its_peer),
    Situation("a ledger is fenced during a read", _FENCE, _READ, other_node),
    Situation("a reader reads the LAC during recovery", "lac.read", _RECOVERY, other_node),
    Situation("a reader reads the LAC during an ensemble change", "lac.read", _CHANGE, other_node),
    Situation("a reader gets a damaged entry", "read.failed", error="BKDigestMatchException"),
    Situation("an entry is read from a damaged disk", "read.served", _ROTTEN, here),
)
_STORING = (
    Situation("a fence during a flush", _FENCE, _FLUSH, here),
    Situation(
        "a fence while adds of its ledger are not synced", _FENCE, _UNSYNCED_ADD, same_ledger
    ),
    Situation("a power failure while a fence is not synced", _KILLED, _UNSYNCED_FENCE, here),
    Situation("a power failure while an add is not synced", _KILLED, _UNSYNCED_ADD, here),
    Situation("a power failure during a journal write", _KILLED, _JOURNAL_WRITE, here),
    Situation("a power failure during a flush", _KILLED, _FLUSH, here),
    Situation("a power failure during compaction", _KILLED, _COMPACTION, here),
    Situation("a power failure while deleted ledgers are collected", _KILLED, _COLLECTION, here),
    Situation("a power failure while a bookie opens its disks", _KILLED, _OPENING, here),
    Situation("a bookie dies between replay and its first response", _KILLED, _STARTING, here),
    Situation("a bookie loses its session before it serves", _LOST_SESSION, _STARTING, here),
    Situation("an add during compaction", "memtable.put", _COMPACTION, here),
    Situation("a read during compaction", "read.served", _COMPACTION, here),
    Situation("a read during a flush", "read.served", _FLUSH, here),
    Situation("a read-only bookie is fenced", _FENCE, _READ_ONLY, here),
    Situation("an add reaches a read-only bookie", "journal.appended", _READ_ONLY, here),
    Situation("a fence on a bad disk", _FENCE, _BAD_DISK, here),
    Situation("a bookie dies on a bad disk", _KILLED, _BAD_DISK, here),
)
_REPAIRING = (
    Situation("a bookie is considered lost", "bookie.lost"),
    Situation(
        "a bookie that was considered lost returns", "bookie.registered", _LOST, _is_its_peer
    ),
    Situation("a bookie is considered lost again", "bookie.lost", _LOST, _has_same_peer),
    Situation("a bookie is lost while the metadata store hangs", "bookie.lost", _OUTAGE),
    Situation("another node becomes the auditor", "auditor.elected", _PAST_AUDITOR, _elsewhere),
    Situation("a worker dies during a repair", _KILLED, _REPAIR, here),
    Situation("a worker loses its session during a repair", _LOST_SESSION, _REPAIR, here),
    Situation("a repair is deferred", "replication.deferred"),
    Situation("a repair copies a fragment", "fragment.replicated"),
    Situation(
        "a ledger is marked again during its repair", "ledger.underreplicated", _REPAIR, _any_node
    ),
    Situation(
        "a worker recovers an open ledger", "recovery.started", _DEFERRED, _waits_for_its_writer
    ),
    Situation(
        "two workers repair a ledger at the same time", "replication.started", _REPAIR, other_node
    ),
    Situation(
        "a ledger is closed while it is under-replicated", "ledger.closed", _MARKED, _any_node
    ),
    Situation(
        "an ensemble change while the ledger is under-replicated",
        "ensemble.changing",
        _MARKED,
        _any_node,
    ),
    Situation(
        "a ledger is deleted while it is under-replicated", "ledger.deleted", _MARKED, _any_node
    ),
    Situation("a bookie deletes copies that other bookies have taken over", "ledger.dropped"),
    Situation("the auditor reads an entry and finds a copy missing", "replicas.missing"),
    Situation("a closed ledger's copies span too few racks", "placement.unmet"),
    Situation("a source of a repair dies", _KILLED, _REPAIR, _elsewhere),
    Situation("a ledger is fenced while a bookie is unregistered", _FENCE, _ABSENCE, _elsewhere),
)
_SERVING_TOPICS = (
    Situation("two brokers believe they own a topic", "bundle.acquired", _OWNER, _other_owner),
    Situation("a broker dies while taking over a topic", _KILLED, _TAKEOVER, here),
    Situation(
        "a broker loses its session while taking over a topic", _LOST_SESSION, _TAKEOVER, here
    ),
    Situation("a broker is paused while taking over a topic", "node.paused", _TAKEOVER, here),
    Situation(
        "a topic rolls over to a new ledger with unconfirmed entries", "ledger.rolled", _ADD, here
    ),
    Situation(
        "a topic rolls over to a new ledger while the metadata store hangs",
        "ledger.rolled",
        _OUTAGE,
    ),
    Situation("a broker finds the ledger of its topic fenced", "topic.ended", _FENCED, _elsewhere),
    Situation("a broker closes a topic gracefully", "topic.closed"),
    Situation("a topic's new ledger accepts no entries", "ledger.delayed"),
    Situation(
        "a broker that serves a topic finds itself fenced",
        "add.failed",
        _SERVING,
        here,
        error="BKLedgerFencedException",
    ),
)

SITUATIONS = (*_WRITING, *_RECOVERING, *_READING, *_STORING, *_REPAIRING, *_SERVING_TOPICS)
"""All situations, with unique names."""
