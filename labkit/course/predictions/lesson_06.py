"""Lesson 06: LastAddConfirmed."""

from labkit.course.predictions.prediction import Likely, Prediction, Values


def _first_complete(values: Values) -> Likely:
    later = "This entry is not on b1 either, but the writer pushed it after another such entry."
    on_b1 = "One of its two copies is on b1, whose disk is slow."
    return {
        entry: later if entry % 3 == 2 else on_b1
        for entry in range(values["entry_count"])
        if entry != 2
    }


def _readable(values: Values) -> Likely:
    count = values["entry_count"]
    return {
        count - 1: "That is the last confirmed entry. But only the writer knows that it is"
        " confirmed: no later entry carries its number.",
        count: "Entry ids start at 0, so there is no such entry.",
        count - 3: "You went back one entry too far. The last entry was pushed after the previous"
        " entry had been confirmed, and it carries that entry's id.",
        -1: "That holds for section 1, where all entries were pushed before the first one was"
        " confirmed. Here the writer waits for each entry, so the next one carries its number.",
    }


PREDICTIONS = {
    "first entry with both acknowledgements": Prediction(
        "In the picture, look for the first entry whose two bookies are both fast.",
        _first_complete,
    ),
    "bytes of entry 0": Prediction(
        "Look at the printed line `memtable`: how often does it list entry 0?",
        {
            99: "The bookie acknowledged the second add, too. But its memtable already had entry 0,"
            " and it keeps the first payload.",
            119: "The bookie stores one payload per entry, and does not join them.",
        },
    ),
    "what a reader learns": Prediction(
        "Read the printed lines: which LastAddConfirmed does the last entry carry?", _readable
    ),
    "end of the ledger without b1": Prediction(
        "An entry needs two acknowledgements. Which entries had two before b1 died?",
        {
            7: "Only b1 had entry 7, so nobody can read it any more. It had one acknowledgement, so"
            " it was never confirmed.",
            5: "Entry 5 is the first one that only b1 received. One acknowledgement does not"
            " confirm it, and its only copy is gone.",
            3: "b0 and b2 have entry 4 as well, so recovery finds it.",
            -1: "b0 and b2 still have the first entries. Recovery keeps them.",
        },
    ),
}
