"""Lesson 12: streams of MessageIDs."""

from labkit.course.predictions.prediction import Likely, Prediction, Values

_COUNTED = ("order_violations", "duplicates", "missing_entries")


def _report(values: Values) -> Likely:
    swaps, redeliveries, lost = (values[k] for k in ("swaps", "redeliveries", "lost_entries"))

    def counts(*numbers: int) -> tuple[tuple[str, int], ...]:
        return tuple(zip(_COUNTED, numbers, strict=True))

    return {
        counts(2 * swaps + redeliveries, redeliveries, lost): "You counted both messages of a swap."
        " Only the second one arrives after a message with a larger id.",
        counts(swaps + 2 * redeliveries, redeliveries, lost): "A redelivered message arrives once"
        " more after a message with a larger id, so it is one violation, not two.",
        counts(swaps + redeliveries, redeliveries + swaps, lost): "A swapped message arrives once,"
        " so it is not a duplicate.",
        counts(swaps + redeliveries, 2 * redeliveries, lost): "Each redelivery is one extra copy of"
        " a message.",
        counts(swaps, redeliveries, lost): "A redelivered message arrives after messages with"
        " larger ids, so it also violates the order.",
    }


_BY_NUMBER = (
    "This topic rolls over by number of entries, so each of its ledgers has the same number."
)
_TOPICS = {
    **dict.fromkeys(("flights", "flights-batched", "flights-single"), _BY_NUMBER),
    "none": "One topic rolls over by age. How many entries arrive in that time varies.",
    "flights-paced": "That topic rolled over by age in the recorded run, which this run is not.",
}


PREDICTIONS = {
    "which of the two was stored first": Prediction(
        'Answer "39", "41" or "unknown". Compare the third numbers of the ids.',
        {
            "39": "The two messages are in different partitions, each with its own chain. Ledger"
            " 39 was created first, but it may still be open when ledger 41 gets an entry.",
            "41": "The smaller entry and batch index do not count: the two messages are in"
            " different partitions, and each partition has its own chain.",
        },
    ),
    "smallest batch index": Prediction(
        'Give a dictionary with the keys "no batches" and "batches". Rule M3 says when the batch'
        " index is -1.",
        {
            (("no batches", -1), ("batches", -1)): "A batch index of -1 means that the message was"
            " not batched. The first message of a batch has index 0.",
            (("no batches", 0), ("batches", 0)): "Without batching there is no batch, and so no"
            " index in it: the number is -1.",
            (("no batches", -1), ("batches", 1)): "Batch indexes start at 0.",
            (("no batches", 0), ("batches", 1)): "Without batching, the number is -1. Batch indexes"
            " start at 0.",
        },
    ),
    "what the report counts": Prediction(
        "For each kind of fault, ask which of the three numbers a single fault increases.",
        _report,
    ),
    "holes without the last entry": Prediction(
        "A hole is a missing entry between two others. What follows the last entry of a ledger?",
        {
            1: "No later entry of the ledger shows that one is missing. The ledger looks shorter.",
            -1: "The answer is a number of holes. A ledger without its last entry looks shorter.",
        },
    ),
    "the topic with varying numbers of entries": Prediction(
        "Give the name of a topic, as a text. Which topic's limit has nothing to do with the number"
        " of its entries?",
        _TOPICS,
    ),
}
