"""Lesson 05: ensembles, write sets and quorums."""

from labkit.course.predictions.prediction import Likely, Prediction, Values


def _changes(values: Values) -> Likely:
    count = values["entry_count"]
    per_entry = (
        "The metadata does not change with each entry. It lists the ledger's bookies, and a"
        " formula determines which of them store which entry."
    )
    return {
        count: per_entry,
        count + 1: per_entry,
        1: "The node is created with version 0, and closing the ledger changes it. The adds in"
        " between change nothing.",
    }


def _write_set(values: Values) -> Likely:
    size, quorum, last = values["ensemble_size"], values["write_quorum"], values["entry_count"] - 1

    def from_index(first: int) -> tuple[int, ...]:
        return tuple((first + i) % size for i in range(quorum))

    return {
        from_index(last * quorum): "You gave each entry the next free bookies. Its write set starts"
        " only one bookie after that of the entry before it, so the sets overlap.",
        from_index(last + 1): "You started one index too late. Entry ids start at 0, so the last"
        " one is entry_count - 1.",
        from_index(
            0
        ): "That is the write set of entry 0. With each entry, the stripe moves on by one bookie.",
        tuple(last + i for i in range(quorum)): "An ensemble has only E indices. After the last"
        " one, the stripe continues at index 0.",
        from_index(last)[: values["ack_quorum"]]: "Those are only Qa bookies. An entry is sent to"
        " Qw bookies; Qa of them must acknowledge it.",
    }


def _failures(values: Values) -> Likely:
    enough = values["ack_quorum"]
    many = {
        count: f"Any {count} bookies can include {enough} that acknowledged an entry, and no other"
        " bookie is certain to have it: Qa acknowledgements are enough to confirm an entry."
        for count in range(enough, values["ensemble_size"] + 1)
    }
    few = dict.fromkeys(
        range(enough - 1),
        f"An entry is confirmed only when {enough} bookies have it, so it survives if one bookie"
        " fewer fails.",
    )
    return many | few


PREDICTIONS = {
    "changes while entries were added": Prediction(
        "Look for a field in the picture above that an add could change.", _changes
    ),
    "ledgers below one node": Prediction(
        "The node 00/0001 contains the children L0000, L0001, ... How many names with four digits"
        " are there?",
        {
            9999: "You left out L0000.",
            1000: "The name of the last node has four digits, so there are 10 · 10 · 10 · 10.",
            100: "100 is the number of nodes at the top, such as 00. The ledgers are at the bottom,"
            " and their names have four digits.",
            10**10: "That is the number of ledgers in the whole tree. All of them share the levels"
            " above, but each node at the bottom level has its own children.",
        },
    ),
    "write set of the last entry": Prediction(
        "Look at the last row of the picture in section 1, and give the indices from the start of"
        " the stripe on.",
        _write_set,
    ),
    "how many bookies can fail safely": Prediction(
        "In the picture in section 1, let one bookie after the other fail. When may the first"
        " entry be lost?",
        _failures,
    ),
    "a ledger with Qa above Qw": Prediction(
        'Answer "created", "refused" or "wait".',
        {
            "created": "The client checks the three numbers before it writes any metadata.",
            "wait": "An add would wait forever: two bookies cannot give three acknowledgements."
            " That is why the client refuses to create such a ledger.",
        },
    ),
    "the figure's ensemble": Prediction(
        "Entry 1 starts at index 1 and is on bookies 1, 2, 3. So which bookie is at index 1?",
        {
            (1, 2, 3, 4): "With this order, entry 1 is on bookies 2, 3, 4: it starts at index 1,"
            " because striping uses the absolute entry id.",
            (2, 3, 4, 1): "You rotated the list in the wrong direction: with this order, entry 1"
            " starts at index 1, which is bookie 3.",
            (3, 4, 1, 2): "With this order, entry 1 starts at index 1, which is bookie 4. You"
            " rotated the list too far.",
        },
    ),
}
