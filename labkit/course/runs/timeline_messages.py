"""Which message an event sent, or which one led to it: by that name it can be lost or delayed.

Events name entries and the network numbers messages; the two meet where a message arrives, as what
it leads to happens at the moment at which it was due.
"""

from collections.abc import Iterator

from labkit.system.trace.events import Event
from labkit.worlds.sim.trace import Trace

_ANSWERS = ("add.acked", "add.failed", "fence.answered", "fence.failed", "read.done", "read.failed")
"""What happens when the answer of the event's peer arrives."""
_REQUESTS = {"memtable.put": "add.sent", "read.served": "read.sent", "ledger.fenced": "fence.sent"}
"""What happens when a request arrives, and the event that sent it."""


def messages_of(trace: Trace) -> dict[int, str]:
    """`seq` -> `w>b0 2`, the third message from w to b0; only events of which it is certain."""
    arrivals = _arrivals(trace)
    found: dict[int, str] = {}
    for event in trace.events:
        for other, link in _ways(event, trace):
            name = arrivals.get((link, event.time_us))
            if name is not None:
                found.setdefault(event.seq, name)
                if other is not None:
                    found.setdefault(other.seq, name)
    return found


def _ways(event: Event, trace: Trace) -> Iterator[tuple[Event | None, str]]:
    """The links over which the event's message may have come, and the event that sent it."""
    if event.kind in _ANSWERS:
        yield None, f"{event.peer}>{event.node}"
    elif event.kind in _REQUESTS and event.cause >= 0:
        sender = trace.events[event.cause]
        if sender.kind == _REQUESTS[event.kind]:
            yield sender, f"{sender.node}>{event.node}"


def _arrivals(trace: Trace) -> dict[tuple[str, int], str]:
    """The message that a link delivered at each moment; none where there were several."""
    found: dict[tuple[str, int], str] = {}
    several: list[tuple[str, int]] = []
    for link, number, _, due_us in trace.parcels:
        if (link, due_us) in found:
            several.append((link, due_us))
        found[link, due_us] = f"{link} {number}"
    for each in several:
        found.pop(each, None)
    return found
