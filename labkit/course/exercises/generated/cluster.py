"""Questions to the exercises about a cluster: quorums, confirming, ensembles, recovery, repair."""

from labkit.course.checking.draw import BEYOND, Draw
from labkit.system.client.striping import write_set
from labkit.system.trace.events import Event

MOST_BOOKIES = 7


def _sizes(draw: Draw, most: int = MOST_BOOKIES) -> tuple[int, int, int]:
    """E >= Qw >= Qa."""
    ensemble = draw.number(1, most)
    write_quorum = draw.number(1, ensemble)
    return ensemble, write_quorum, draw.number(1, write_quorum)


def striped_entry(draw: Draw) -> tuple[int, int, int]:
    """An entry, E and Qw."""
    return draw.id(), *_sizes(draw, 9)[:2]


def answers(draw: Draw) -> tuple[frozenset[int], int, int, int]:
    """Places that answered, E, Qw and Qa."""
    sizes = _sizes(draw)
    return frozenset(draw.some(range(sizes[0]))), *sizes


def denials(draw: Draw) -> tuple[int, int, int, int]:
    """How many of a write set denied an entry and how many were silent, Qw and Qa."""
    write_quorum = draw.number(1, 12)
    ack_quorum, denied = draw.number(1, write_quorum), draw.number(0, write_quorum)
    return denied, draw.number(0, write_quorum - denied), write_quorum, ack_quorum


def acknowledgements(draw: Draw) -> tuple[int, list[int], int]:
    """LastAddConfirmed, the acknowledgements of the entries after it, and Qa."""
    write_quorum = draw.number(1, 6)
    acks = [draw.number(0, write_quorum) for _ in range(draw.number(0, 12))]
    return draw.id(-1), acks, draw.number(1, write_quorum)


def newest_entries(draw: Draw) -> tuple[int, list[tuple[int, int]]]:
    """What a reader knows, and each answering bookie's newest entry with the LAC in it.

    A later entry of the writer carries no smaller LAC.  What recovery wrote back may: it carries
    the LAC that recovery knew.
    """
    carried: dict[int, int] = {}
    confirmed = -1
    for entry_id in sorted({draw.id() for _ in range(draw.number(0, 4))}):
        confirmed = draw.number(confirmed, min(entry_id - 1, confirmed + 5))
        if draw.number(0, 1):
            confirmed = entry_id - 1
        carried[entry_id] = confirmed if draw.number(0, 3) else draw.number(-1, confirmed)
    told = [draw.one_of(sorted(carried)) for _ in range(draw.number(0, 6))] if carried else []
    known = draw.one_of((-1, confirmed, confirmed + 1, max(-1, confirmed - 1)))
    return known, [(entry_id, carried[entry_id]) for entry_id in told]


def failed_add(draw: Draw) -> tuple[int, int, int]:
    """LastAddConfirmed, the entry whose add failed, and the last one that was sent."""
    confirmed = draw.id(-1)
    failed = confirmed + 1 + draw.number(0, 12)
    return confirmed, failed, failed + draw.number(0, 12)


def pending_entry(draw: Draw) -> tuple[int, frozenset[int], tuple[int, ...], frozenset[int]]:
    """A place, the places of new bookies, an entry's write set, and who acknowledged it."""
    size, write_quorum, _ = _sizes(draw)
    places = write_set(draw.number(0, size - 1), size, write_quorum)
    acked = frozenset(draw.some(places))
    replaced = frozenset(draw.some(range(size))) or frozenset({0})
    return draw.number(0, size - 1), replaced, places, acked


def failed_bookies(draw: Draw) -> tuple[tuple[str, ...], dict[int, str], list[str]]:
    """An ensemble, its failed bookies by place, and those that take writes, in any order."""
    names = [f"b{number}" for number in range(13)]
    ensemble = tuple(draw.shuffled(names)[: draw.number(1, 6)])
    failed = draw.some(range(len(ensemble))) or [0]
    spare = [name for name in names if name not in ensemble][: draw.number(0, 4)]
    still_there = [name for name in ensemble if draw.number(0, 3)]
    writable = draw.shuffled([*still_there, *spare])
    return ensemble, {at: ensemble[at] for at in draw.shuffled(failed)}, writable


def reports(draw: Draw) -> tuple[list[int], int]:
    """What bookies report as confirmed, and the first entry of the last ensemble."""
    return [draw.id(-1) for _ in range(draw.number(0, 7))], draw.id()


def missing_bookies(draw: Draw) -> tuple[dict[str, float], float, float]:
    """Who is away since when, the delay, and now."""
    now = draw.one_of((20.0, 100.0, 90_000.0))
    names = draw.shuffled([f"b{number}" for number in range(5)])[: draw.number(0, 5)]
    if len(names) > 1 and draw.number(0, 1):
        names = names[:1]
    away = {name: now - draw.number(0, 20) for name in names}
    return away, draw.one_of((0.0, 1.0, 7.0, 15.0, 86_400.0)), now


def add_to_a_ledger(draw: Draw) -> tuple[bool, bool]:
    """Whether a ledger is fenced, and whether recovery sends the add."""
    return draw.chance(50), draw.chance(50)


_ERRORS = (
    "BKNoSuchEntryException",
    "BKTimeoutException",
    "BKDigestMatchException",
    "BKReadException",
    "BKBookieHandleNotAvailableException",
    "BKNoSuchLedgerExistsException",
)


def checked_copies(draw: Draw) -> tuple[list[str], list[str], dict[int, list[str]]]:
    """An ensemble, who is registered, and what registered bookies answered instead of entries."""
    ensemble = draw.shuffled([f"b{number}" for number in range(12)])[: draw.number(1, 6)]
    registered = [name for name in draw.shuffled(ensemble) if draw.number(0, 3)]
    failures = {
        at: [draw.one_of(_ERRORS) for _ in range(draw.number(1, 2))]
        for at, name in enumerate(ensemble)
        if name in registered and not draw.number(0, 2)
    }
    return list(ensemble), [*registered, *draw.some(["b97", "b98"])], failures


def error(draw: Draw) -> tuple[str]:
    """What a bookie answers instead of an entry."""
    return (draw.one_of(_ERRORS),)


def confirmations(draw: Draw) -> tuple[list[Event]]:
    """What clients record as bookies acknowledge their adds, in some order that can be.

    Two writers with a ledger each, and a client that recovers the first one's and writes the same
    entries again.  Rarely an entry is confirmed with one acknowledgement.
    """
    first = draw.one_of((0, 1, 9, *BEYOND[1:3]))
    streams = []
    for node, ledger in (("w", 0), ("v", 1), ("r", 0))[: draw.number(1, 3)]:
        events: list[tuple[str, str, int, int, str]] = []
        for entry in range(first, first + draw.number(1, 3)):
            peers = draw.shuffled(["b0", "b1", "b2"])
            needed = 1 if draw.chance(15) else draw.number(2, 3)
            events += [("add.acked", node, ledger, entry, peer) for peer in peers[:needed]]
            events.append(("lac.advanced", node, ledger, entry, ""))
            late = peers[needed:][: draw.number(0, 2)]
            events += [("add.acked", node, ledger, entry, peer) for peer in late]
        streams.append(events)
    mixed: list[Event] = []
    while any(streams):
        kind, node, ledger, entry, peer = draw.one_of([s for s in streams if s]).pop(0)
        seq = len(mixed)
        mixed.append(Event(seq, 1000 * seq, node, kind, -1, ledger, entry, peer))
    return (mixed,)
