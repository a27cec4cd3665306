"""Lesson 09: the auditor and re-replication."""

from itertools import combinations

from labkit.course.predictions.prediction import Likely, Prediction, Values
from labkit.system.client.striping import write_set

_ENSEMBLES = {0: ("b0", "b1", "b2"), 1: ("b0", "b1"), 2: ("b0", "b1", "b2")}


def _other_bookie(values: Values) -> str:
    return "b1" if values["lost"] == "b2" else "b2"


def _marked(values: Values) -> Likely:
    other = _other_bookie(values)

    def first_mistake(marked: tuple[int, ...]) -> str:
        for ledger, ensemble in _ENSEMBLES.items():
            listed = ", ".join(ensemble)
            if ledger not in marked and other in ensemble:
                is_open = ", and an open ledger is marked like any other" if ledger == 2 else ""
                return f"You left out ledger {ledger}. It is on {listed}{is_open}."
            if ledger in marked and other not in ensemble:
                return f"Ledger {ledger} is on {listed}. It lacks no copy without {other}."
        return ""

    wrong = (each for count in range(4) for each in combinations(_ENSEMBLES, count))
    return {each: why for each in wrong if (why := first_mistake(each))}


def _copies(values: Values) -> Likely:
    count, other = values["entry_count"], _other_bookie(values)
    on_other = sum(int(other[1]) in write_set(entry, 3, 2) for entry in range(count))
    return {
        2 * on_other: f"You copied both copies of each entry. Only the one on {other} is missing.",
        2 * count: f"You copied both copies of every entry. Only those on {other} are missing.",
        count - on_other: f"Those are the entries that are *not* on {other}.",
        count: f"Each entry is on two of the three bookies, so some entries have no copy on"
        f" {other}.",
        count // 3: "A bookie is in the write set of two of every three entries, not of one.",
        on_other - 1: "You are off by one. Entry ids start at 0, and so do the indices.",
        on_other + 1: "You are off by one. Entry ids start at 0, and so do the indices.",
    }


PREDICTIONS = {
    "ledgers that are marked": Prediction(
        "Give a list of ledger ids. Which ledgers list the bookie in their metadata?", _marked
    ),
    "entries of ledger 0 to copy": Prediction(
        "Write down the two indices of entries 0, 1 and 2. In how many of them is the bookie? Then"
        " the pattern repeats.",
        _copies,
    ),
    "entries with one copy": Prediction(
        "Give a list. Which entries does the worker copy from b2, and which ones had it copied"
        " before it died?",
        {
            (0, 1, 3, 4, 6, 7, 9): "Those are all entries that had a copy on b1. The worker copied"
            " the ones from b0, which was fast, before it died.",
            (0, 3, 6, 9): "The worker copies these from b0, which is fast, so they had been copied"
            " before it died. The ones from b2 had not.",
            (1, 4, 7, 9): "The crash happened just after entry 9 had been copied.",
            (2, 5, 8): "These entries were never on b1. They are on b2 and b0.",
            (): "The second worker asks only for the first and the last entry that b3 should have."
            " Both are there, so it does not notice that entries in between are missing.",
        },
    ),
    "second of the mark": Prediction(
        "Give a number. List the seconds in which the auditor checks all ledgers. Which check is"
        " the first one after the add?",
        {
            20: "The check in second 20 came before the add, when there was nothing to find.",
            25: "A failed add does not mark the ledger: the writer has two acknowledgements, which"
            " is enough, and it closes the ledger.",
            35: "lostBookieRecoveryDelay applies to a bookie that is missing. This bookie is"
            " registered all the time, so only the periodic check can find the missing copy.",
            45: "The auditor does not count from the add, which it knows nothing about. It checks"
            " every check_interval_s seconds, counted from its election.",
            50: "lostBookieRecoveryDelay applies to a bookie that is missing. A check that finds"
            " missing copies marks the ledger at once.",
            -1: "No bookie is lost, but the periodic check asks every bookie for the first and the"
            " last entry of each fragment. b2 does not have the last one.",
        },
    ),
}
