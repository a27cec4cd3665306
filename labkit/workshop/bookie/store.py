"""The learner's store: `LedgerStore` with the learner's parts in the place of labkit's.

A module `..._part` shows a part as labkit sees it: a class of labkit's, whose work an object of the
learner's does.
"""

from labkit.storage.store import LedgerStore
from labkit.workshop.bookie.journal_part import LearnersJournal
from labkit.workshop.learner import Learner


def store_of(learner: Learner) -> type[LedgerStore]:
    """A store with the learner's written parts (`Learner.parts`)."""
    fields: dict[str, object] = {}
    if "Journal" in learner.parts:
        fields["journal_class"] = bound(LearnersJournal, learner)
    return type("LearnersStore", (LedgerStore,), fields)


def bound(part: type, learner: Learner) -> type:
    """A part's class that uses this learner's code."""
    return type("Yours", (part,), {"learner": learner})
