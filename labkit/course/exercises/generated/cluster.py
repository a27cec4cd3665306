"""Generates test cases about clusters: quorums, bookies' reports, repairs and confirmations."""

from labkit.course.checking.generated_cases import BEYOND, Draw
from labkit.system.trace.events import Event

MAX_BOOKIES = 7


def _sizes(draw: Draw, most: int = MAX_BOOKIES) -> tuple[int, int, int]:
    """Return E, Qw and Qa, with E >= Qw >= Qa."""
    ensemble = draw.number(1, most)
    write_quorum = draw.number(1, ensemble)
    return ensemble, write_quorum, draw.number(1, write_quorum)


def striped_entry(draw: Draw) -> tuple[int, int, int]:
    return draw.id(), *_sizes(draw, 9)[:2]


def responses(draw: Draw) -> tuple[frozenset[int], int, int, int]:
    """Return the ensemble indices of the bookies that responded, followed by E, Qw and Qa."""
    sizes = _sizes(draw)
    return frozenset(draw.some(range(sizes[0]))), *sizes


def denials(draw: Draw) -> tuple[int, int, int, int]:
    """Return how many bookies of a write set denied having an entry, how many did not respond, and
    Qw and Qa.
    """
    write_quorum = draw.number(1, 12)
    ack_quorum, denied = draw.number(1, write_quorum), draw.number(0, write_quorum)
    return denied, draw.number(0, write_quorum - denied), write_quorum, ack_quorum


def missing_bookies(draw: Draw) -> tuple[dict[str, float], float, float]:
    """Return the time at which each bookie went missing, the delay, and the current time."""
    now = draw.one_of((20.0, 100.0, 90_000.0))
    names = draw.shuffled([f"b{number}" for number in range(5)])[: draw.number(0, 5)]
    if len(names) > 1 and draw.number(0, 1):
        names = names[:1]
    away = {name: now - draw.number(0, 20) for name in names}
    return away, draw.one_of((0.0, 1.0, 7.0, 15.0, 86_400.0)), now


_ERRORS = (
    "BKNoSuchEntryException",
    "BKTimeoutException",
    "BKDigestMatchException",
    "BKReadException",
    "BKBookieHandleNotAvailableException",
    "BKNoSuchLedgerExistsException",
)


def checked_copies(draw: Draw) -> tuple[list[str], list[str], dict[int, list[str]]]:
    """Return an ensemble, the registered bookies, and the errors that each bookie returned, by
    ensemble index.
    """
    ensemble = draw.shuffled([f"b{number}" for number in range(12)])[: draw.number(1, 6)]
    registered = [name for name in draw.shuffled(ensemble) if draw.number(0, 3)]
    failures = {
        at: [draw.one_of(_ERRORS) for _ in range(draw.number(1, 2))]
        for at, name in enumerate(ensemble)
        if name in registered and not draw.number(0, 2)
    }
    return list(ensemble), [*registered, *draw.some(["b97", "b98"])], failures


def confirmations(draw: Draw) -> tuple[list[Event]]:
    """Return the events that clients record when bookies acknowledge their adds, in one possible
    order.

    There are up to two writers, the first of which writes two ledgers, and there is a client that
    recovers the first ledger and writes the same entries again. Occasionally, an entry is confirmed
    after acknowledgements from only one bookie, which may have acknowledged it twice.
    """
    first = draw.one_of((0, 1, 9, *BEYOND[1:3]))
    streams = []
    for node, ledger in (("w", 0), ("v", 1), ("r", 0), ("w", 2))[: draw.number(1, 4)]:
        events: list[tuple[str, str, int, int, str]] = []
        for entry in range(first, first + draw.number(1, 3)):
            peers = draw.shuffled(["b0", "b1", "b2"])
            needed = 1 if draw.chance(15) else draw.number(2, 3)
            twice = peers[:1] * draw.chance(15)
            events += [("add.acked", node, ledger, entry, p) for p in (*twice, *peers[:needed])]
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
