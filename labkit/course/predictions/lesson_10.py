"""Lesson 10: garbage collection and compaction."""

from labkit.course.predictions.prediction import Likely, Prediction, Values

_ENTRIES, _ENTRY_BYTES = 20, 100
_DAY_H, _HOUR_H, _WAIT_H = 24, 1, 1 / 6


def _garbage_bytes(percents: list[int]) -> int:
    """Return the total size of the deleted ledger's entries in logs of which these percentages are
    live.
    """
    return sum(_ENTRIES - percent * _ENTRIES // 100 for percent in percents) * _ENTRY_BYTES


def _freed(values: Values) -> Likely:
    percents = values["living_percent"]
    return {
        _garbage_bytes([0] * percents.count(0)): "Those are the bytes of the logs that now contain"
        " only garbage. They can be deleted, but the bookie does not know that yet.",
        _garbage_bytes(percents): "Those are all bytes of ledger 6. But deleting a ledger changes"
        " only the metadata store, and no bookie is told.",
    }


def _deleted_logs(values: Values) -> Likely:
    percents, low = values["living_percent"], values["minor_threshold"]
    return {
        len(percents): "Every log contains garbage, but a log can be deleted only if it has no"
        " entry of an existing ledger.",
        sum(percent / 100 < low for percent in percents): "You counted the nearly empty logs, too."
        " Their few live entries have to be copied first, which is what a compaction does.",
        0: "A log that contains no entry of ledger 5 can be deleted at once: there is nothing to"
        " copy.",
    }


def _left_over(values: Values) -> Likely:
    percents, high = values["living_percent"], values["major_threshold"]
    kept = [percent for percent in percents if percent / 100 >= high]
    return {
        _garbage_bytes(percents): "That is the garbage before any compaction. The logs below a"
        " threshold have been rewritten without theirs.",
        _garbage_bytes([p for p in percents if p / 100 >= values["minor_threshold"]]): "That is the"
        " garbage before the major compaction. It rewrites the logs below its own threshold, too.",
        sum(kept) * _ENTRIES // 100 * _ENTRY_BYTES: "Those are the *live* bytes of the logs above"
        " the threshold. The rest of these logs is garbage.",
        _garbage_bytes(kept)
        // _ENTRY_BYTES: "That is the number of entries. Each takes 100 bytes.",
        0: "A log above the threshold is not rewritten, so its garbage is kept.",
    }


PREDICTIONS = {
    "bytes freed by the deletion": Prediction(
        "Compare the bars before and after the deletion: how long are they?", _freed
    ),
    "logs deleted without compaction": Prediction(
        "In the picture above, count the bars that are hatched from end to end.", _deleted_logs
    ),
    "garbage after the major compaction": Prediction(
        "In the picture above, which logs have at least major_threshold live bytes? Add up their"
        " hatched parts.",
        _left_over,
    ),
    "to lose an entry": Prediction(
        'Answer "process" or "power". In the crash map, is a cell in the column *kept* red?',
        {
            "power": "That would be true if the copies had been written to the file. But they are"
            " still in a buffer of the process, so killing the process is enough.",
        },
    ),
    "hours until half a log's garbage is gone": Prediction(
        "Which compaction rewrites a log that is half garbage? Add its interval and the time until"
        " the next collection.",
        {
            _DAY_H: "The major compaction is right. But it starts at the first collection after its"
            " interval has elapsed, which can be another gcWaitTime (10 minutes) later.",
            round(_HOUR_H + _WAIT_H, 1): "A minor compaction rewrites only logs below"
            " minorCompactionThreshold. Half of this log is live, so it waits for a major one.",
            _HOUR_H: "A minor compaction rewrites only logs below minorCompactionThreshold. Half of"
            " this log is live, so it waits for a major one.",
            round(_WAIT_H, 1): "Garbage collection alone deletes only logs without live entries.",
            round(_DAY_H + _HOUR_H + _WAIT_H, 1): "The intervals do not add up. The minor"
            " compaction does not concern this log, only the major one does.",
        },
    ),
}
