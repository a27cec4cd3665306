"""The words beside an event of the space-time diagram, as short as possible; a click shows the
whole sentence.  `#` stands for the entries of all events that share a dot.
"""

from labkit.system.trace.events import Event

METADATA_KINDS = (
    "ledger.created",
    "ensemble.set",
    "recovery.started",
    "ledger.closed",
    "fragment.replicated",
    "ledger.underreplicated",
    "replication.done",
)
"""Writes to the metadata store, which are shown on the store's lane."""

_WORDS = {
    "ledger.created": "OPEN",
    "ensemble.set": "from {entry}: {note}",
    "ensemble.changing": "replaces {note}",
    "ensemble.deferred": "from {entry}: {note}",
    "ledger.closed": "CLOSED at {entry}",
    "add.pushed": "add #",
    "add.sent": "sends #",
    "memtable.put": "memtable #",
    "journal.synced": "synced #",
    "add.acked": "acked #",
    "add.failed": "{why} #",
    "lac.advanced": "LAC #",
    "recovery.started": "IN_RECOVERY",
    "fence.sent": "fence",
    "ledger.fenced": "fenced",
    "fence.failed": "{peer}: {why}",
    "recovery.covered": "covered, LAC {entry}",
    "recovery.failed": "recovery fails: {why}",
    "read.sent": "read #",
    "read.served": "has #",
    "read.done": "got #",
    "read.failed": "{why} #",
    "lac.read": "may read to {entry}",
    "node.killed": "killed",
    "node.started": "starts",
    "node.paused": "paused",
    "node.resumed": "goes on",
    "node.failed": "mistake",
    "link.cut": "cut",
    "link.healed": "healed",
    "session.lost": "session lost",
    "disk.bad": "{note}",
    "disk.good": "disk well",
    "disk.rotted": "bit flips",
    "bookie.formatted": "emptied",
    "journal.replayed": "replay",
    "bookie.read_only": "read-only",
    "bookie.writable": "writable",
    "step.ended": "{outcome}",
    "auditor.elected": "auditor",
    "bookie.lost": "{peer} is lost",
    "ledger.underreplicated": "short of copies",
    "replication.started": "repairs",
    "entry.copied": "copied #",
    "fragment.replicated": "from {entry}: {note} new",
    "replication.done": "repaired",
}
_OF_NO_ENTRY = {"read.sent": "LAC?", "read.done": ""}
"""A read of entry -1 asks for LastAddConfirmed."""
_SILENT_KINDS = ("fence.answered", "journal.appended", "message.lost", "recovery.ended")
SHOWN_KINDS = frozenset(_WORDS).union(_SILENT_KINDS)

FIRST = ("LAC #", "killed", "fenced")
"""Words that come before the other words of a dot."""
_INSTEAD = {"LAC #": "acked #", "add #": "sends #", "killed": "its node died"}
"""Words that are omitted beside another one, which implies them."""

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
"""Why a request has no answer: no bookie refused it."""
ABSENCE = ("BKNoSuchEntryException", "BKNoSuchLedgerExistsException")
"""An answer like any other: the bookie does not have the entry."""


def word_of(event: Event) -> str:
    """The word beside an event; "" for an event that has only a dot."""
    outcome = event.note.partition(": ")[2].partition(":")[0]
    if event.kind == "step.ended" and outcome == "done":
        return ""
    template = _WORDS.get(event.kind, "")
    if event.entry < 0:
        template = _OF_NO_ENTRY.get(event.kind, template).replace(" #", "")
    return template.format(
        entry="none" if event.entry < 0 else event.entry,
        note=event.note.replace(",", " ") if event.kind in METADATA_KINDS else event.note,
        peer=event.peer,
        why=_short(event.note.partition(":")[0]),
        outcome=_short(outcome),
    )


def _short(error: str) -> str:
    return _WHY.get(error, error.removeprefix("BK").removesuffix("Exception"))


def label_of(words: list[tuple[str, int]]) -> str:
    """A dot's words, each with its entry, in one line, the most important first."""
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
    """`0–2 5` for 0, 1, 2 and 5."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return " ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in ranges)
