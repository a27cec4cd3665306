"""Lesson 07: ensemble changes."""

from itertools import combinations

from labkit.course.predictions.prediction import Likely, Prediction, Values


def _first_entry(values: Values) -> Likely:
    confirmed = values["dies_after"]
    in_flight = (
        "Earlier entries are still in flight, and b1 can no longer acknowledge them. All entries"
        " that are not confirmed belong to the new ensemble."
    )
    return {
        values["entry_count"]: in_flight,
        **{confirmed + count: in_flight for count in (2, 3)},
        0: "Confirmed entries stay on their bookies. Only the later ones move.",
        confirmed + 1: "Entry ids start at 0. After this many confirmed entries, LastAddConfirmed"
        f" is {confirmed - 1}, and the next entry is the first of the new ensemble.",
        confirmed - 1: "That entry is LastAddConfirmed. It is confirmed, so it stays on its"
        " bookies.",
    }


_SOME = {
    entries: "All three entries were in flight when the ensemble changed. The writer sent all of"
    " them to the new bookies, but the metadata lists the old bookies for all of them."
    for count in (1, 2)
    for entries in combinations(range(3), count)
}

FIRST_ENTRY = Prediction(
    "In the diagram, find where the writer changes the ensemble, and the last entry that it had"
    " confirmed before.",
    _first_entry,
)

_NOT_CONFIRMED = (
    "No entry had been confirmed when the ensemble changed, because b0 and b1 had not responded."
    " So all entries belong to the new ensemble, even those that b2 had acknowledged."
)

PREDICTIONS = {
    "first entry of the new ensemble": FIRST_ENTRY,
    "lost entries": Prediction(
        "Compare the first entry of the new ensemble with the entries in flight. Where do readers"
        " look for each of them?",
        {
            (): "The entries do exist on b2 and b3. But according to the metadata they are on b0"
            " and b1, so no reader finds them.",
            **_SOME,
        },
    ),
    "first entry after a later add failed": Prediction(
        "Look at the printed lines: was any entry confirmed before the add failed?",
        {
            **dict.fromkeys(range(1, 5), _NOT_CONFIRMED),
            5: "That is the next entry to be added. The entries in flight are sent to the new"
            " bookie, too, so readers must look for them there.",
            -1: "LastAddConfirmed is -1, so the new ensemble starts at the entry after it.",
        },
    ),
}
