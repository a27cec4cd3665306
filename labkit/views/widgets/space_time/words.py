"""The labels of events in the space-time diagram. Labels are as short as possible, and a click
shows the whole sentence. `#` stands for the entries of all events that share a dot.
"""

from labkit.system.trace.events import Event
from labkit.system.trace.kinds import KINDS
from labkit.system.trace.sentence import fill

METADATA_KINDS = (
    "ledger.created",
    "ensemble.set",
    "recovery.started",
    "ledger.closed",
    "fragment.replicated",
    "ledger.underreplicated",
    "replication.done",
)
"""Kinds of events that write to the metadata store. They also appear on its lane."""

_OF_NO_ENTRY = {"read.sent": "LAC?", "read.done": ""}
"""Labels of reads without an entry: a read of entry -1 requests LastAddConfirmed."""
SHOWN_KINDS = frozenset(kind.name for kind in KINDS.values() if kind.caption is not None)

FIRST = ("LAC #", "killed", "fenced")
"""Labels that precede the other labels of a dot."""
_INSTEAD = {"LAC #": "acked #", "add #": "sends #", "killed": "its node died", "fenced #": "fenced"}
"""Maps each label to a label that it implies, which is omitted next to it."""

_WHY = {
    "BKTimeoutException": "silence",
    "BKBookieHandleNotAvailableException": "unreachable",
    "BKClientClosedException": "gave up",
    "BKLedgerFencedException": "fenced",
    "BKNoSuchEntryException": "no entry",
    "BKNoSuchLedgerExistsException": "no ledger",
    "BKReadException": "could not read",
    "BKWriteOnReadOnlyBookieException": "read-only",
    "BKDigestMatchException": "bad digest",
}
SILENCE = ("BKTimeoutException", "BKBookieHandleNotAvailableException", "BKClientClosedException")
"""Errors that mean that a request got no response, as opposed to a rejection."""
ABSENCE = ("BKNoSuchEntryException", "BKNoSuchLedgerExistsException")
"""Errors that count as normal responses: the bookie does not have the entry."""


def word_of(event: Event) -> str:
    """Return the label of an event, or "" if its dot has no label."""
    if event.detail == "done":
        return ""
    template, error = KINDS[event.kind].caption or "", event.error
    if event.entry < 0:
        template = _OF_NO_ENTRY.get(event.kind, template).replace(" #", "")
    values = event._asdict() | {
        "entry": "none" if event.entry < 0 else event.entry,
        "error": _WHY.get(error, error.removeprefix("BK").removesuffix("Exception")),
        "ensemble": " ".join(event.ensemble),
        "bookies": " ".join(event.bookies),
    }
    return fill(template, values)


def label_of(words: list[tuple[str, int]]) -> str:
    """Combine labels and their entries into one line, starting with the most important labels."""
    entries: dict[str, list[int]] = {}
    for word, entry in words:
        if word:
            entries.setdefault(word, []).append(entry)
    for telling, plain in _INSTEAD.items():
        if telling in entries:
            entries.pop(plain, None)
    ordered = sorted(entries, key=lambda word: word not in FIRST)
    texts = [word.replace("#", ranges_of(entries[word])) for word in ordered]
    return ", ".join(texts)


def ranges_of(numbers: list[int]) -> str:
    """Format numbers as ranges: `0–2 5` for 0, 1, 2 and 5."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return " ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in ranges)
