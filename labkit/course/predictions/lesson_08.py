"""Lesson 08: fencing and recovery."""

from itertools import combinations

from labkit.course.predictions.prediction import Likely, Prediction, Values


def _while_in_recovery(values: Values) -> Likely:
    confirmed, count = values["paused_after"], values["entry_count"]
    not_yet = (
        "That is where the ledger may end. But r does not know this yet, because it has not read"
        " the bookies' entries. It writes the end when it closes the ledger."
    )
    return {
        **dict.fromkeys(range(confirmed - 1, count), not_yet),
        0: "0 would mean that the ledger ends with entry 0. -1 means that no end is recorded.",
    }


_LETTERS = "ABCD"


def _why_not(rejected: tuple[str, ...]) -> str:
    """Explain why a bookie does not reject exactly these adds."""
    if "C" not in rejected:
        return (
            "C: after the fence, recovery decides where the ledger ends. If the bookie accepts an"
            " add of the old writer now, the entry may be confirmed although the ledger ends before"
            " it."
        )
    if "D" in rejected:
        return (
            "D: recovery writes entries back to the bookies that it has fenced. If they reject"
            " these adds, recovery cannot restore all copies and fails."
        )
    return "A and B: a bookie accepts every add to a ledger that is not fenced."


_REJECTED = {
    letters: _why_not(letters)
    for count in range(len(_LETTERS) + 1)
    for letters in combinations(_LETTERS, count)
    if letters != ("C",)
}

PREDICTIONS = {
    "last_entry_id while IN_RECOVERY": Prediction(
        "Which step of the list above finds out where the ledger ends, and which step records it?",
        _while_in_recovery,
    ),
    "the ledger's end, relative to the last entry confirmed to w": Prediction(
        'Answer "before", "at" or "after". Which adds were stored, but not confirmed to w?',
        {
            "before": "Then a confirmed entry would be lost. Recovery reads every entry that can"
            " have been confirmed before it decides where the ledger ends.",
            "at": "That happens if nothing is in flight. Here bookies stored one more add just"
            " before they were fenced, and recovery found it and kept it.",
        },
    ),
    "adds that a bookie rejects": Prediction(
        "Give a list of letters, in alphabetical order. Whom should a fence keep out?", _REJECTED
    ),
    "lost by a bookie that denies": Prediction(
        "Give a list. Which entries does b2 lack, and what does recovery conclude if b1 denies"
        " them, too?",
        {
            (): "Two of three bookies deny an entry: b2, which missed it, and b1, which cannot read"
            " it. Then it cannot have two acknowledgements, so recovery closes the ledger before"
            " it.",
            (3,): "b2 was cut off when the third entry, entry 2, was pushed, so it misses that one"
            " as well.",
            (2,): "A ledger has no holes: recovery closes it before the first entry that it cannot"
            " find, and all later entries are lost, too.",
            (0, 1, 2, 3): "b2 was cut off later. It has entries 0 and 1, so recovery finds them.",
            (1, 2, 3): "b2 was cut off later. It has entries 0 and 1, so recovery finds them.",
        },
    ),
    "the ledger of the new owner's first message": Prediction(
        'Answer "continue" or "new ledger".',
        {
            "continue": "The previous owner may still be writing to that ledger. So the new owner"
            " recovers it, which closes it, and nobody can add entries to a closed ledger.",
        },
    ),
}
