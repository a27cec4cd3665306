"""Lesson 15: programs that use ledgers."""

from labkit.course.predictions.prediction import Likely, Prediction, Values

_COMMITS = 20


def _ledgers(values: Values) -> Likely:
    started = -(-_COMMITS // values["records_per_ledger"])
    kept = "When a new ledger is in the list, the old one is deleted, so they do not add up."
    return {
        0: "The newest ledger is kept: it contains the offsets.",
        2: "There is one ledger for both groups, and it starts with the newest offset of each.",
        started + 1: kept,
        _COMMITS // values["records_per_ledger"]: kept,
        started: kept,
    }


def _unknown(values: Values) -> Likely:
    return {
        values["edit_count"]: "Those are all edits that one name node tried. Each new name node"
        " replays the ledgers of those before it.",
        1: "The last edit may have been in flight when n1 lost the ledger. But n1 acknowledges an"
        " edit only after it has been stored, and recovery keeps every stored edit that was"
        " confirmed.",
    }


PREDICTIONS = {
    "acknowledged by n1, unknown to n3": Prediction(
        "An edit is acknowledged after it has been stored. Which ledgers does n3 read before it"
        " becomes active?",
        _unknown,
    ),
    "billing continues at": Prediction(
        "Read the printed entries from the start, and note each group's offset.",
        {
            9: "You took the largest offset. A group may go back to reread messages, so the last"
            " commit counts.",
            5: "You took the first commit. The client reads the whole ledger, and later commits"
            " replace earlier ones.",
            10: "The committed offset is where the group continues, so nothing is added to it.",
            7: "That is the last commit of another group.",
        },
    ),
    "ledgers at the end": Prediction(
        "Compare the printed numbers of created and deleted ledgers.", _ledgers
    ),
    "clients whose ledger was named": Prediction(
        "Count the versions of the snapshot: how many clients wrote the same one?",
        {
            4: "p2 and p3 both wrote version 2. The name is changed by compare-and-set, so only one"
            " of them succeeded.",
            1: "At the end, the name points to one ledger. But before that, it pointed to the"
            " ledgers of the earlier versions.",
            2: "Only one of p2 and p3 fails, because they wrote the same version. The other one"
            " succeeds, and so do p1 and p4.",
        },
    ),
}
