"""Describes the events of a play in words that need no knowledge of BookKeeper.

The sentences omit file names, offsets, and the names of a bookie's components.
"""

from collections.abc import Sequence

from labkit.system.check import EPILOGUE
from labkit.system.check.facts import proves_absence
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe, fill
from labkit.views.widgets.beat_words import words_of

_FINAL_READER = "the final reader"
_REORGANIZES = "{node} reorganizes its files"
_SENTENCES = {
    "node.killed": "{node} lost power, and with it what was not on its disk",
    "message.lost": "a message from {node} to {peer} was lost",
    "message.copied": "a message from {node} to {peer} arrives twice",
    "step.ended": "{node} could not {step}",
    "ensemble.changing": "{node} replaces {bookies}, from entry {entry} of ledger {ledger} on",
    "memtable.put": "{node} has entry {entry} in its memory",
    "journal.appended": "{node} wrote entry {entry} to its journal, but has not synced it yet",
    "journal.key_appended": "{node} noted in its journal who may write to ledger {ledger}",
    "journal.fence_appended": "{node} noted the fence in its journal, but has not synced it yet",
    "journal.synced": "{node} synced its journal[: entry {entry} is on its disk]",
    "journal.replayed": "{node} read its journal again",
    "memtable.flushed": _REORGANIZES,
    "entry_log.written": _REORGANIZES,
    "index.written": _REORGANIZES,
    "mark.persisted": _REORGANIZES,
    "add.failed": "{peer} did not acknowledge entry {entry} of ledger {ledger} to {node}",
    "lac.advanced": "entry {entry} of ledger {ledger} is confirmed",
    "recovery.started": "{node} starts to recover ledger {ledger}",
    "recovery.failed": "{node} could not recover ledger {ledger}",
    "fence.answered": "{peer} told {node} that it fenced ledger {ledger}",
    "fence.failed": "{peer} did not tell {node} that it fenced ledger {ledger}",
    "recovery.covered": "{node} has heard from enough bookies of ledger {ledger}",
    "read.sent": "{node} asked {peer} for {what}",
    "read.served": "{node} found {what}",
    "read.done": "{node} received {what} from {peer}",
    "read.failed": "{node} did not get {what} from {peer}",
}
"""Templates by kind of event; `{what}` is the entry. The usual sentences for all other kinds are
plain enough.
"""


def plain_sentence(event: Event) -> str:
    template = _SENTENCES.get(event.kind)
    if template is None:
        return with_final_reader(describe(event))
    if event.kind == "read.failed" and proves_absence(event):
        template = "{peer} told {node} that it does not have {what}"
    what = f"entry {event.entry}" if event.entry >= 0 else "the last entry"
    return with_final_reader(fill(template, event._asdict() | {"what": what}))


def plain_words(beat: Sequence[Event]) -> str:
    return with_final_reader(words_of(beat, plain_sentence))


def with_final_reader(text: str) -> str:
    """Return the text, replacing the name of the node that reads everything back at the end by "the
    final reader".
    """
    return text.replace(EPILOGUE, _FINAL_READER)
