"""Finds the message that an event sent, or that caused the event, so that this message can be lost
or delayed.

Events refer to entries, whereas the network numbers messages. An event is matched with a message by
time, because the event that a message causes happens at the moment when the message is delivered.
"""

from collections.abc import Iterator

from labkit.system.trace.events import Event
from labkit.worlds.sim.trace import Trace

_ANSWERS = ("add.acked", "add.failed", "fence.answered", "fence.failed", "read.done", "read.failed")
"""Events that happen when the peer's response arrives."""
_REQUESTS = {"memtable.put": "add.sent", "read.served": "read.sent", "ledger.fenced": "fence.sent"}
"""Events that happen when a request arrives, each with the kind of event that sent the request."""


def messages_of(trace: Trace) -> dict[int, str]:
    """Map the `seq` of each event to the name of its message, such as `w>b0 2` for the third
    message from w to b0.

    Events whose message is ambiguous are left out.
    """
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
    """Yield each link on which the event's message may have arrived, with the event that sent the
    message.
    """
    if event.kind in _ANSWERS:
        yield None, f"{event.peer}>{event.node}"
    elif event.kind in _REQUESTS and event.cause >= 0:
        sender = trace.events[event.cause]
        if sender.kind == _REQUESTS[event.kind]:
            yield sender, f"{sender.node}>{event.node}"


def _arrivals(trace: Trace) -> dict[tuple[str, int], str]:
    """Map each link and time to the message that was delivered on this link at this time, unless
    several messages were delivered then.
    """
    found: dict[tuple[str, int], str] = {}
    several: list[tuple[str, int]] = []
    for link, number, _, due_us in trace.parcels:
        if (link, due_us) in found:
            several.append((link, due_us))
        found[link, due_us] = f"{link} {number}"
    for each in several:
        found.pop(each, None)
    return found
