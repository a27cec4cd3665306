"""Lesson 04: LastLogMark."""

from labkit.course.predictions.prediction import Likely, Prediction, Values


def _replayed(values: Values) -> Likely:
    before, inside = values["entry_count"], values["inside_count"]
    return {
        inside + 1: "You counted one record too many. The ledger's key record is before the mark:"
        " it was written with the first entry.",
        before: "Those entries are before the mark, so replay skips them. Only the entries that"
        " arrived during the checkpoint are after it.",
        before + inside: "You replayed everything. Replay starts at the mark, and the entries"
        " before it are in the entry log.",
        before + inside + 1: "You replayed everything, and even the ledger's key record. Replay"
        " starts at the mark.",
        0: "The checkpoint has finished, but its mark was taken when it started. The entries that"
        " arrived in the meantime are after the mark.",
    }


def _lost(values: Values) -> Likely:
    before = values["entry_count"]
    total = before + values["inside_count"]
    return {
        tuple(range(before)): "You expected replay to restore the entries that arrived during the"
        " checkpoint. It does read their records. But the ledger's key record is before the mark,"
        " so replay does not know the ledger and skips them.",
        tuple(range(before, total)): "It is the entries *before* the mark that replay no longer"
        " reads, and their bytes are not in the entry log yet. (The later ones are lost as well:"
        " see below.)",
        (): "The journal still has all records. But replay starts at the mark, and the mark is"
        " already past the first ones.",
    }


PREDICTIONS = {
    "records replayed at the end": Prediction(
        "In the map above, select the last row in the column *lost*. Which records are after the"
        " mark that was taken when the checkpoint started?",
        _replayed,
    ),
    "lost when the mark comes first": Prediction(
        "In the map below, look at the selected cell: which records are before the mark, and which"
        " entries are in the entry log?",
        _lost,
    ),
}
