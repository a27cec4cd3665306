"""Determines when each entry of a writer was sent, acknowledged and confirmed in a run."""

from dataclasses import dataclass, field

from labkit.system.model.entry import NO_ENTRY_ID
from labkit.worlds.sim.trace import Trace


@dataclass(slots=True)
class WrittenEntry:
    """An entry from its writer's point of view. Times are in milliseconds after the writer's first
    push.

    last_add_confirmed: the writer's LastAddConfirmed at the time when it pushed the entry; the
        entry carries this value
    push_count: how many times the entry's id was assigned
    acked_ms: when each acknowledgement arrived
    confirmed_ms: when the entry was confirmed to the caller, or None
    """

    last_add_confirmed: int
    push_count: int = 0
    sent_count: int = 0
    acked_ms: list[float] = field(default_factory=list)
    confirmed_ms: float | None = None


def written_entries(trace: Trace, writer: str = "w") -> dict[int, WrittenEntry]:
    """Return the writer's entries by id. Events of other nodes, such as those of the epilogue, are
    ignored.
    """
    entries: dict[int, WrittenEntry] = {}
    began_us, confirmed = 0, NO_ENTRY_ID
    for event in trace.events:
        if event.node != writer:
            continue
        if event.kind == "add.pushed":
            began_us = began_us or event.time_us
            entries.setdefault(event.entry, WrittenEntry(confirmed)).push_count += 1
        elif event.kind == "add.sent":
            entries[event.entry].sent_count += 1
        elif event.kind == "add.acked":
            entries[event.entry].acked_ms.append((event.time_us - began_us) / 1000)
        elif event.kind == "lac.advanced":
            confirmed = event.entry
            entries[confirmed].confirmed_ms = (event.time_us - began_us) / 1000
    return entries


def lac_read(trace: Trace) -> int:
    """Return the latest LastAddConfirmed that the reader, r, has learned."""
    return [e.entry for e in trace.events if e.node == "r" and e.kind == "lac.read"][-1]


def last_confirmed(trace: Trace) -> int:
    """Return the last entry that was confirmed to the writer, w."""
    return max(e.entry for e in trace.events if e.node == "w" and e.kind == "lac.advanced")


def closed_at(trace: Trace) -> int:
    """Return the last entry of the first ledger that was closed."""
    return next(event.entry for event in trace.events if event.kind == "ledger.closed")


def segment_starts(trace: Trace) -> list[int]:
    """Return the first entry of each new segment, in the order in which the ensemble changes were
    stored.
    """
    return [event.entry for event in trace.events if event.kind == "ensemble.set"]


def end_of_ledger(trace: Trace) -> str:
    """Return whether the ledger ends "before", "at" or "after" the last entry that was confirmed to
    w.
    """
    end, last = closed_at(trace), last_confirmed(trace)
    return "before" if end < last else "at" if end == last else "after"


def ledger_of_new_owner(trace: Trace) -> str:
    """Return "continue" if messages are stored in the same ledger after the owner's death as
    before, or "new ledger" if not.
    """
    died = next(event.seq for event in trace.events if event.kind == "node.killed")
    receipts = [event for event in trace.events if event.kind == "message.acked"]
    after = next(event for event in receipts if event.seq > died)
    return "continue" if after.ledger == receipts[0].ledger else "new ledger"
