"""What a run did with each entry, told so that two runs can be compared.

Two worlds do not do everything at the same moments, so of each entry it counts

    on each node, the kinds of its events in order; but answers come to a client in an order of
    their own, and a bookie reads while its journal is being synced, so these count apart
    for each event, who caused it: the node and the kind of the event that led there
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
"""A checkpoint comes when it is due, whatever happens to the entry."""

_OF_A_BOOKIE = ("memtable.", "journal.", "read.served")


class Story(NamedTuple):
    """What became of one entry."""

    order: Mapping[str, Sequence[str]]
    """For each node the kinds of what it did, in order."""
    causes: Mapping[tuple[str, ...], int]
    """How many times there is such an event: node, kind, peer, and its cause's node and kind."""


def stories(events: Iterable[Event]) -> dict[tuple[int, int], Story]:
    """One story for each ledger and entry."""
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
    """The node, but any bookie that repairs ledgers does that as the worker: chance chooses it."""
    is_bookie = event.node.startswith("b")
    return "worker" if is_bookie and not event.kind.startswith(_OF_A_BOOKIE) else event.node
