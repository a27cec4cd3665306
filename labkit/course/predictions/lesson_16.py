"""Lesson 16: build a bookie."""

from labkit.course.predictions.prediction import Prediction

_KEY, _ADD, _BLOCK, _GROUPS, _IN_GROUP = 44, 60, 512, 8, 8

PREDICTIONS = {
    "bytes written for 64 adds": Prediction(
        "Each group is padded to a multiple of 512 bytes. How many bytes does the first group have,"
        " and how many has each of the others?",
        {
            _GROUPS * _BLOCK: "You left out the key record. It is in the first group, which then"
            " has 44 + 8 · 60 = 524 bytes and needs two blocks.",
            _KEY + _GROUPS * _IN_GROUP * _ADD: "You left out the padding that follows each group.",
            _GROUPS * _IN_GROUP * _ADD: "You left out the key record and the padding.",
            _GROUPS * _IN_GROUP * _BLOCK: "You padded each add. Padding follows a group of eight"
            " adds.",
            2 * _GROUPS * _BLOCK: "Only the first group needs two blocks, because it contains the"
            " key record.",
        },
    ),
    "lost when the mark is taken late": Prediction(
        "Give a list. Which entry arrives while the checkpoint runs, and where is it on disk when"
        " the checkpoint ends?",
        {
            (): "The mark moves past the record of entry 1, which arrived during the flush. The"
            " entry is in the new memtable only, and replay starts after its record.",
            (0,): "Entry 0 is in the memtable that is flushed, so it is in the entry log.",
            (0, 1): "Entry 0 is in the memtable that is flushed, so it is in the entry log.",
        },
    ),
    "records replayed": Prediction(
        "In the picture, which records are after LastLogMark?",
        {
            7: "Replay starts at LastLogMark, and the flush moved the mark past the first four"
            " records.",
            8: "Replay starts at LastLogMark. The flush moved it past the key record and the first"
            " four records.",
            4: "Those four are in the entry log, before the mark. The other three are only in the"
            " journal.",
            0: "The three entries that were stored after the flush are only in the journal.",
        },
    ),
}
