"""Lesson 03: memtable, entry log and index."""

from labkit.course.predictions.prediction import Likely, Prediction, Values


def _order_in_the_log(values: Values) -> Likely:
    ledgers = range(7, 7 + values["ledger_count"])
    entries = range(values["entries_per_ledger"])

    def first_three(order: list[tuple[int, int]]) -> tuple[str, ...]:
        return tuple(f"{ledger}/{entry}" for ledger, entry in order[:3])

    return {
        first_three([(ledger, e) for ledger in reversed(ledgers) for e in entries]): "The entries"
        " of a ledger are together, as they should be. But the memtable is sorted by ledger id, no"
        " matter which ledger's entry arrived first.",
        first_three([(ledger, e) for e in entries for ledger in ledgers]): "You sorted by entry id"
        " first. The memtable is sorted by ledger id first, so that the entries of a ledger are"
        " next to each other.",
        first_three([(ledger, e) for e in entries for ledger in reversed(ledgers)]): "That is the"
        " order of arrival, which is the order in the journal. The memtable is sorted, and a flush"
        " writes it in its order.",
    }


PREDICTIONS = {
    "order in the entry log": Prediction(
        "Look at the memtable in the first picture: a flush writes it from its first entry to its"
        " last.",
        _order_in_the_log,
    ),
    "times that the index is written": Prediction(
        "Take the changed pages one by one. As soon as there are more than pageLimit, all of them"
        " are written; the remaining pages are written at the end.",
        {
            4: "You wrote each page separately. Changed pages wait in memory and are written"
            " together.",
            3: "You wrote one page at a time. When there are more than pageLimit changed pages,"
            " *all* of them are written, so the count starts again at zero.",
            1: "You waited for the end of the flush. Before that, there are more than pageLimit"
            " changed pages, and they are written at once.",
        },
    ),
    "reads that touch the disk": Prediction(
        "In the picture, look at the memtable: which of the three entries are in it?",
        {
            1: "The entry before the newest one was added recently, too. But the flush wrote the"
            " whole memtable to the entry log and emptied it. Only the newest entry was added after"
            " that flush.",
            3: "The newest entry was added after the flush, so it is still in the memtable.",
            0: "The flush wrote all earlier entries to the entry log and removed them from the"
            " memtable.",
        },
    ),
    "entries in a full memtable": Prediction(
        "Divide 2000 by 68. With how many entries does the memtable hold 2000 bytes *or more*?",
        {
            29: "29 entries take 1972 bytes. The memtable is full only when it holds 2000 bytes or"
            " more, so one more entry is added first.",
            60: "You waited for the interval, or for the end of the writes. The memtable is full"
            " long before.",
            2000: "That is the size in bytes. Each entry takes 68 of them.",
            2040: "That is the size in bytes. Each entry takes 68 of them.",
        },
    ),
}
