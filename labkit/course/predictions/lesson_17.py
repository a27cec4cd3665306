"""Lesson 17: build a client."""

from labkit.course.predictions.lesson_07 import FIRST_ENTRY
from labkit.course.predictions.prediction import Prediction

PREDICTIONS = {
    "requests for 12 adds": Prediction(
        "How many bookies is each entry sent to?",
        {
            60: "You sent each entry to all E bookies. Only the Qw of its write set get it.",
            24: "You sent each entry to Qa bookies. It is sent to all Qw bookies of its write set;"
            " Qa of them must acknowledge it.",
            12: "You counted adds. Each add is sent to Qw bookies.",
        },
    ),
    "first entry of the new ensemble": FIRST_ENTRY,
    "entries confirmed after the close": Prediction(
        "In the picture, follow the writer's lane after it resumes: which responses were waiting"
        " for it?",
        {
            0: "The acknowledgements of an entry were already on their way when the bookies were"
            " fenced. Recovery found this entry, so the writer may confirm it late.",
            2: "Only one entry had its acknowledgements before the bookies were fenced. All later"
            " adds are rejected.",
        },
    ),
}
