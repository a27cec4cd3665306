"""Finds the message that an event sent, or that caused the event, so that this message can be lost
or delayed.

Events refer to entries, whereas the network numbers messages. An event is matched with a message by
time, because the event that a message causes happens at the moment when the message is delivered.
"""

from collections import Counter

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
        sender, link = None, ""
        if event.kind in _ANSWERS:
            link = f"{event.peer}>{event.node}"
        elif event.kind in _REQUESTS and event.cause >= 0:
            sender = trace.events[event.cause]
            link = f"{sender.node}>{event.node}" if sender.kind == _REQUESTS[event.kind] else ""
        name = arrivals.get((link, event.time_us))
        if name is not None:
            found.setdefault(event.seq, name)
            if sender is not None:
                found.setdefault(sender.seq, name)
    return found


def _arrivals(trace: Trace) -> dict[tuple[str, int], str]:
    """Map each link and time to the message that was delivered on this link at this time, unless
    several messages were delivered then.
    """
    counts = Counter((link, due_us) for link, _, _, due_us in trace.parcels)
    return {
        (link, due_us): f"{link} {number}"
        for link, number, _, due_us in trace.parcels
        if counts[link, due_us] == 1
    }
