"""Finds out from a run's events when each entry of a writer was sent, acknowledged and
confirmed.
"""

from dataclasses import dataclass, field

from labkit.system.model.entry import NO_ENTRY_ID
from labkit.worlds.sim.trace import Trace


@dataclass(slots=True)
class WrittenEntry:
    """An entry from its writer's point of view. Times are in milliseconds after the writer's first
    push.

    last_add_confirmed: the writer's LastAddConfirmed when it pushed the entry, which the entry
        carries
    push_count: how often the id was assigned
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
