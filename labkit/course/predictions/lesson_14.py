"""Lesson 14: search for a planted bug."""

from labkit.course.predictions.prediction import Prediction

PREDICTIONS = {
    "the first seed that loses an entry": Prediction(
        'Answer "below 10", "10 or more" or "none". The first line printed above names the seed.',
        {
            "below 10": "The bug breaks a rule in almost every run, but an entry is lost only if"
            " faults and a recovery happen at the wrong moment. Most seeds produce no such moment.",
            "10 or more": "How many seeds it takes depends on how many events have to happen at the"
            " wrong moment: few for some bugs, and for others more than these seeds provide.",
            "none": "The bug does lose an entry, but only if faults and a recovery happen at the"
            " wrong moment. One of these seeds produced such a moment.",
        },
    ),
}
