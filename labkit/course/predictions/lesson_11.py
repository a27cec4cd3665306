"""Lesson 11: topics and MessageIDs."""

from labkit.course.predictions.prediction import Likely, Prediction, Values


def _chosen_id(values: Values) -> Likely:
    entry, index = divmod(values["chosen"], values["batch_size"])
    ledger, in_ledger = divmod(entry, values["entries_per_ledger"])
    return {
        (ledger, entry, -1, index): "Entry ids start over in every ledger.",
        (ledger, in_ledger, 0, index): "The topic has no partitions. Then the partition is -1; 0"
        " would be the first of several.",
        (ledger, in_ledger, -1, -1): "A batch index of -1 means that the message was not batched."
        " This one was: its index is the number of messages before it in the batch.",
        (ledger, in_ledger, -1, index + 1): "Batch indexes start at 0.",
        (ledger, in_ledger + 1, -1, index): "Entry ids start at 0.",
        (ledger + 1, in_ledger, -1, index): "The first ledger has id 0.",
        (0, values["chosen"], -1, -1): "You counted messages. An entry is a whole batch, and a"
        " ledger is full after entries_per_ledger entries.",
        (0, values["chosen"], -1, index): "You counted messages. An entry is a whole batch, and a"
        " ledger is full after entries_per_ledger entries.",
    }


def _redelivered(values: Values) -> Likely:
    batch = values["batch_size"]
    sent = batch * values["entries_per_ledger"] + 3
    right = sent - batch - 1 - batch
    return {
        sent: "That is every message. The cursor remembers what was acknowledged, even after the"
        " consumer has disconnected.",
        right - 1: "You forgot the order that was sent after the topic had been reloaded.",
        right + 1: "You forgot the single message of the third batch. With"
        " `batch_index_ack_enabled`, a single message of a batch can be acknowledged.",
        right + 1 - batch: "Only one message of the third batch was acknowledged, so the others are"
        " redelivered.",
        right + batch: "You subtracted one batch too few: the whole first batch and the whole"
        " fourth batch were acknowledged.",
        batch + 1 + batch: "That is the number of acknowledged messages. The others are"
        " redelivered.",
    }


def _after_the_seek(values: Values) -> Likely:
    batch = values["batch_size"]
    first = 7 - 7 % batch
    return {
        0: "The seek moves the cursor to the id that you pass, wherever it was before.",
        first + batch: "A seek has the precision of a message, not of a batch: the client skips"
        " only the messages up to the one that you asked for.",
        first: "The broker does move the cursor to the entry, and sends the whole batch. But the"
        " client skips the messages up to the one that you asked for.",
        7: "A seek is exclusive unless `start_message_id_inclusive=True` is set: people seek to"
        " the last id that they have processed, and expect the message after it.",
    }


PREDICTIONS = {
    "id of the chosen order": Prediction(
        "Give a tuple of four numbers: ledger, entry, partition, batch index. In which batch is the"
        " order, and in which ledger is the entry?",
        _chosen_id,
    ),
    "the first id after the topic was reloaded": Prediction(
        "Take the last ledger of the list above, and count the ledgers that the cluster has created"
        " since, including the new one of this topic.",
        {
            (1, 1, -1, -1): "You continued in the last ledger. When a broker loads a topic, it"
            " closes the ledger that it finds and starts a new one.",
            (1, 2, -1, -1): "You continued in the last ledger. When a broker loads a topic, it"
            " closes the ledger that it finds and starts a new one.",
            (2, 0, -1, -1): "Ledger ids come from one counter for the whole cluster. Other topics"
            " have created ledgers since then.",
            (5, 0, -1, -1): "You counted one ledger for `visits`. It has two partitions, and each"
            " of them has its own ledger.",
            (4, 0, -1, -1): "You left out `visits`. It has two partitions, and each of them has its"
            " own ledger.",
            (6, 0, -1, 0): "The message was not batched, so its batch index is -1.",
            (6, 0, 0, -1): "The topic has no partitions, so the partition is -1.",
            (6, 1, -1, -1): "Entry ids start at 0 in every ledger.",
        },
    ),
    "entries of a ledger that is full by age": Prediction(
        "List the seconds in which orders arrive, and the ledger's age at each of them.",
        {
            4: "You divided 45 by 10. But the first order arrives in second 0, so there is one more"
            " until second 40.",
            6: "The sixth order arrives in second 50, when the ledger is older than 45 seconds. So"
            " it is in the next ledger.",
            12: "The ledger is closed when it is 45 seconds old, no matter how few entries it has.",
            45: "One order arrives every 10 seconds, not every second.",
        },
    ),
    "first and last by ledger and entry": Prediction(
        "Look at the ids printed above. Which partition's ledger has the smaller id?",
        {
            (0, 4): "That is the order of sending. But every entry of partition 0 has a smaller"
            " ledger id than any entry of partition 1.",
            (1, 4): "Partition 0 was opened first, so its ledger has the smaller id.",
            (1, 3): "Partition 0 was opened first, so its ledger has the smaller id.",
            (0, 1): "Visit 1 is the first one in partition 1. Visit 3 follows it there.",
            (1, 2): "Partition 0 was opened first, so its ledger has the smaller id.",
        },
    ),
    "redelivered messages": Prediction(
        "Start with all messages, including the one after the reload, and subtract the acknowledged"
        " ones, batch by batch.",
        _redelivered,
    ),
    "the next order after the seek": Prediction(
        "The id belongs to order 7. Is a seek inclusive or exclusive, by default?",
        _after_the_seek,
    ),
}
