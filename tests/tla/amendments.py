"""Differences between BookKeeper and the specification, and the amendments that allow them.

Without the amendments, TLC rejects correct runs; `test_trace_validation` shows one such run for
each amendment. The operators are defined in `LedgerTrace.tla`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Amendment:
    """A difference between the behaviour of the specification and the behaviour of BookKeeper."""

    name: str
    specification: str
    bookkeeper: str
    replaces: tuple[str, str] | None = None
    """An operator of the specification and its replacement from `LedgerTrace.tla`."""


ANSWERS_NOT_NEEDED = Amendment(
    "answers not needed",
    "A recoverer that has decided on an entry takes its other answers off the network, and in the"
    " same step requires that no other message changes: so it can only decide when all other"
    " answers are lost.",
    "Answers that come after the decision are ignored.",
    ("IgnoreFurtherReadResponses", "LeavesOtherAnswers"),
)
CONFIRMED_BEFORE = Amendment(
    "confirmed before recovery",
    "A recoverer counts acknowledgements from entry 1 on, also of entries that it did not write"
    " back because the fence reported them as confirmed: its LastAddConfirmed never moves, and it"
    " cannot close the ledger.",
    "A recoverer counts from the LastAddConfirmed on that the fence reported.",
    ("AddToConfirmed", "AddsToWhatWasConfirmed"),
)
TWO_RECOVERERS = Amendment(
    "two recoverers",
    "Each recoverer writes IN_RECOVERY again, which raises the metadata's version: only the one"
    " that began last can close the ledger.",
    "IN_RECOVERY is written once, and a recoverer whose close meets another version reads the"
    " metadata again: the first one to close decides.",
)
AMENDMENTS = (ANSWERS_NOT_NEEDED, CONFIRMED_BEFORE, TWO_RECOVERERS)
