"""The learner's store: `LedgerStore` with the learner's parts in the place of labkit's.

A module `..._part` shows a part as labkit sees it: a class of labkit's, whose work an object of the
learner's does.
"""

from typing import TypeVar

from labkit.course.workshop.bookie.checkpoint_part import CheckpointingStore, mark_functions
from labkit.course.workshop.bookie.entry_log_part import LearnersEntryLogger
from labkit.course.workshop.bookie.index_part import LearnersIndex
from labkit.course.workshop.bookie.journal_part import LearnersJournal
from labkit.course.workshop.bookie.memtable_part import LearnersMemtable
from labkit.course.workshop.bookie.replay_part import ReplayingStore
from labkit.course.workshop.learner import Learner
from labkit.system.storage.index.ledger_cache import LedgerCache
from labkit.system.storage.store import LedgerStore

T = TypeVar("T")

_PARTS: dict[str, tuple[str, type]] = {
    "Journal": ("journal_class", LearnersJournal),
    "Memtable": ("memtable_class", LearnersMemtable),
    "EntryLog": ("entry_logger_class", LearnersEntryLogger),
}
_STORES = {"replay": ReplayingStore, "Checkpoint": CheckpointingStore}


def store_of(learner: Learner) -> type[LedgerStore]:
    """A store with the learner's written parts (`Learner.parts`)."""
    fields: dict[str, object] = {"learner": learner}
    for name, (field, part) in _PARTS.items():
        if name in learner.parts:
            fields[field] = bound(part, learner)
    if "Index" in learner.parts:
        index = {"index_class": bound(LearnersIndex, learner)}
        fields["ledgers_class"] = type("YourIndexes", (LedgerCache,), index)
    if "Checkpoint" in learner.parts:
        fields |= mark_functions(learner)
    stores = [store for name, store in _STORES.items() if name in learner.parts]
    made: type[LedgerStore] = type("YourStore", (*stores, LedgerStore), fields)
    return made


def bound(part: type[T], learner: Learner) -> type[T]:
    """A part's class that uses this learner's code."""
    made: type[T] = type("Yours", (part,), {"learner": learner})
    return made
