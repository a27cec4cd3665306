"""Lesson 02: the journal."""

from labkit.course.predictions.prediction import Likely, Prediction, Values
from labkit.system.storage.journal import padding

_BLOCK, _KEY_RECORD, _REST_OF_RECORD = 512, 44, 40


def _next_record(values: Values) -> Likely:
    record = _REST_OF_RECORD + values["payload_size"]
    end = _BLOCK + _KEY_RECORD + record
    padded = end + len(padding(end, _BLOCK))
    return {
        _KEY_RECORD + record: "You left out the file's header, which takes the first 512 bytes, and"
        " the padding.",
        _BLOCK + record: "You counted one record. The first add of a ledger also writes the"
        " ledger's key record, and padding follows both.",
        end: "The last record ends there. The next one starts after the padding, in a new block.",
        padded - _BLOCK: "The file's header takes the first 512 bytes. The two records and their"
        " padding follow it.",
        padded + _BLOCK: "You padded one block too many. The two records are one group, and padding"
        " follows the group, not each record.",
        end
        + -end % _BLOCK: "Fewer than 8 bytes are left in the block. Padding takes at least 8, so"
        " it extends to the end of the next block.",
    }


PREDICTIONS = {
    "the next record begins at": Prediction(
        "Point at the last field in the picture: its offset plus its length is the answer.",
        _next_record,
    ),
    "padding where 5 bytes are left": Prediction(
        "The padding must end at a multiple of 512, and it cannot be shorter than its mask and its"
        " number.",
        {
            5: "The mask and the number take 8 bytes, so they do not fit into the 5 that are left."
            " The padding extends to the end of the next block.",
            8: "The mask and the number take 8 bytes. But the file must continue at a multiple of"
            " 512, so zeros fill the rest of the next block.",
            512: "The padding extends to the end of the next block, but the 5 bytes that are left"
            " in this block are part of it, too.",
            509: "509 is the number of zeros. The mask and the number belong to the padding, too.",
            0: "Without padding, the next record would start in the block that has been synced, and"
            " a torn write could damage acknowledged records.",
        },
    ),
    "lost, if acknowledged before the sync": Prediction(
        'Answer "process", "power" or "both". In the crash map, compare the columns *kept* and'
        " *lost*.",
        {
            "process": "A process that is killed loses nothing that it has written: the operating"
            " system has the bytes and writes them to the disk later. A power failure loses them.",
            "both": "You are right about the power failure. But if only the process is killed, the"
            " operating system still has the written bytes and writes them to the disk later.",
        },
    ),
    "journals for ten entries": Prediction(
        "Add the entries up, file by file: after which entry is the file longer than"
        " journalMaxSizeMB?",
        {
            4: "You assumed that a file cannot exceed 1 MiB, so that only three entries fit in"
            " after the header. A file counts as full after the first group that ends *beyond* the"
            " limit, so the fourth entry is in it, too.",
            2: "You rounded down. Ten entries take more than 2.5 MiB, and the entries after the"
            " first two files need a third one.",
            10: "You started a file for every group. The bookie starts a new file only when the"
            " current one is full.",
            1: "Ten entries take more than 2.5 MiB. That is more than the limit of 1 MiB, so the"
            " bookie starts new files.",
        },
    ),
}
