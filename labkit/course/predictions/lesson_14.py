"""Lesson 14: search for a planted bug."""

from labkit.course.predictions.prediction import Prediction

PREDICTIONS = {
    "the first seed that loses an entry": Prediction(
        'Answer "below 10", "10 or more" or "none". The first line printed above names the seed.',
        {
            "below 10": "The bug breaks a rule in almost every run, but an entry is lost only if"
            " faults and a recovery happen at the wrong moment. Most seeds produce no such moment.",
            "10 or more": "The number of seeds depends on how many events must happen at the wrong"
            " moment. Some bugs need only a few seeds, others need more than were tried here.",
            "none": "The bug does lose an entry, but only if faults and a recovery happen at the"
            " wrong moment. One of these seeds produced such a moment.",
        },
    ),
}
