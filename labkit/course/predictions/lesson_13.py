"""Lesson 13: streaming queries."""

from labkit.course.predictions.prediction import Likely, Prediction, Values

_LATER, _BATCH = 60, 300
"""The number of flights published while no query runs, and the number of rows in each micro-batch
of the second query.
"""


def _micro_batches(values: Values) -> Likely:
    first_third, most = values["message_count"] // 3, values["rows_per_trigger"]
    return {
        values["message_count"] // most: "You counted all flights. Only a third of them has been"
        " published so far.",
        -(-values["message_count"] // most): "You counted all flights. Only a third of them has"
        " been published so far.",
        1: "`availableNow` reads everything that is available, but each micro-batch has at most"
        " maxRowsPerTrigger rows.",
        first_third // most: "You rounded down. The remaining rows are a micro-batch as well.",
    }


def _rows(values: Values) -> Likely:
    total = 3 * (values["message_count"] // 3)
    return {
        0: "The query was stopped, but its checkpoint says how far it has read. It continues"
        " there.",
        total + _LATER: "The query does not start over: its checkpoint says how far it has read.",
        total: "These rows have been read before, and the checkpoint says so. Only the new ones are"
        " read.",
    }


def _batches(values: Values) -> Likely:
    last, rows = divmod(3 * (values["message_count"] // 3) + _LATER, _BATCH)
    everything = (*((number, _BATCH) for number in range(last)), (last, rows))
    return {
        ((last + 1, rows),): "The batch gets the number that it had before: its offset had been"
        " written, and only the commit is missing.",
        everything: "Only the newest commit is missing. All earlier batches are committed, so they"
        " are not repeated.",
        (): "The sink has the batch, but the query does not know that, because the commit is"
        " missing. It delivers the batch again.",
    }


PREDICTIONS = {
    "micro-batches": Prediction(
        "How many messages are stored (see the line printed when they were published), and how many"
        " fit into one micro-batch?",
        _micro_batches,
    ),
    "the meaning of an offset": Prediction(
        'Answer "last delivered" or "first not delivered". Compare the printed offset with the'
        " printed id of the last message.",
        {
            "first not delivered": "The offset is the id of a message that has been delivered. A"
            " first message that was not delivered may not exist yet, and then it has no id.",
        },
    ),
    "rows after the restart": Prediction(
        "What was published since the query stopped, and what does the checkpoint say about the"
        " rest?",
        _rows,
    ),
    "batches after the crash": Prediction(
        "Give a list of pairs. Which batch's commit did you delete? Its number and its rows are in"
        " the list printed above.",
        _batches,
    ),
}
