"""Summarize the events of each entry, so that two runs can be compared.

The two worlds do not do everything at the same time, so only the following data is compared:

    the kinds of events on each node, in order; responses to a client, and reads that a bookie
    serves while it syncs its journal, may arrive in any order and are compared separately
    for each event, its cause: the node and kind of the event that led to it
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from labkit.system.trace.events import Event

_IN_AN_ORDER_OF_THEIR_OWN = (
    *("add.acked", "add.failed", "read.done", "read.failed", "fence.answered"),
    "read.served",
)
_WHEN_THE_DISK_LIKES = ("entry_log.written", "index.written")
"""Checkpoints happen when they are due, regardless of the entry."""

_OF_A_BOOKIE = ("memtable.", "journal.", "read.served")


class Story(NamedTuple):
    """The events of one entry."""

    order: Mapping[str, Sequence[str]]
    """The kinds of events on each node, in order."""
    causes: Mapping[tuple[str, ...], int]
    """How often each event occurred, by node, kind, peer, and the node and kind of its cause."""


def stories(events: Iterable[Event]) -> dict[tuple[int, int], Story]:
    """Return one story per ledger and entry."""
    by_seq = {event.seq: event for event in events}
    order: defaultdict[tuple[int, int], defaultdict[str, list[str]]] = defaultdict(
        lambda: defaultdict(list)
    )
    causes: defaultdict[tuple[int, int], Counter[tuple[str, ...]]] = defaultdict(Counter)
    for event in by_seq.values():
        if event.entry < 0 or event.kind in _WHEN_THE_DISK_LIKES:
            continue
        key = event.ledger, event.entry
        if event.kind not in _IN_AN_ORDER_OF_THEIR_OWN:
            order[key][_role(event)].append(event.kind)
        cause = by_seq.get(event.cause)
        came_from = ("", "") if cause is None else (_role(cause), cause.kind)
        causes[key][(_role(event), event.kind, event.peer, *came_from)] += 1
    return {key: Story(dict(order[key]), dict(causes[key])) for key in causes}


def _role(event: Event) -> str:
    """Return the node's name, or "worker" for a bookie that is repairing ledgers."""
    is_bookie = event.node.startswith("b")
    return "worker" if is_bookie and not event.kind.startswith(_OF_A_BOOKIE) else event.node
