"""The sentence with which a view describes a beat: all events at one moment of the clock."""

from collections.abc import Callable, Sequence

from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.views.widgets.drawing.plurals import quorum_words
from labkit.views.widgets.run import SIGNS

_CONSEQUENCES = frozenset(
    {
        *("add.failed", "ensemble.changing", "ensemble.set", "ensemble.deferred"),
        *("bookie.unregistered", "bookie.lost", "ledger.underreplicated"),
    }
)
_BACKGROUND = frozenset(
    {
        *("mark.persisted", "memtable.flushed", "entry_log.written", "index.written"),
        *("garbage.collected", "garbage.kept", "log.compacted", "log.removed"),
        *("ledger.collected", "ledger.dropped", "bookie.registered"),
    }
)
_SILENCE = ("BKTimeoutException", "BKBookieHandleNotAvailableException")


def words_of(beat: Sequence[Event], sentence: Callable[[Event], str] = describe) -> str:
    """Describe the most important event of the beat; if there are several, the last of them.

    sentence: describes all other events.
    """
    event = min(reversed(beat), key=rank)
    if event.kind == "add.failed" and event.error in _SILENCE:
        same = {each.entry for each in beat if (each.kind, each.peer) == (event.kind, event.peer)}
        return f"{event.node} gets no response from {event.peer} about {_entries(same)}"
    if event.kind == "add.failed" and event.error == "BKLedgerFencedException":
        rejected = [e for e in beat if (e.kind, e.error) == (event.kind, event.error)]
        bookies = ", ".join(sorted({each.peer for each in rejected}))
        entries = _entries({each.entry for each in rejected})
        return f"the writer {event.node} cannot add {entries}: fenced on {bookies}"
    if event.kind == "step.ended" and event.detail == "done":
        return f"{event.node} has finished its work: {event.step}"
    if event.kind == "ledger.created":
        sizes = quorum_words(event.ensemble_size, event.write_quorum, event.ack_quorum)
        later = ", deferred sync" if event.deferred_sync else ""
        return f"{event.node} created ledger {event.ledger}: {sizes}{later}"
    return sentence(event) + (f" ({len(beat)} events)" if len(beat) > 1 else "")


def rank(event: Event) -> int:
    """Return how important an event is: 0 for the reader's actions and their consequences, 1 for
    events of the protocol, 2 for background work.
    """
    if event.kind in _CONSEQUENCES or (event.kind in SIGNS and event.kind != "ledger.closed"):
        return 0 if event.kind != "ensemble.set" or event.entry > 0 else 1
    return 2 if event.kind in _BACKGROUND else 1


def _entries(entries: set[int]) -> str:
    first, last = min(entries), max(entries)
    return f"entry {first}" if first == last else f"entries {first} to {last}"
