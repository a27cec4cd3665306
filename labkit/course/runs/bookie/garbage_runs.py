"""Shows one bookie's entry logs, garbage and compactions, and when disk space is freed (lesson
10).
"""

from collections.abc import Collection
from math import inf

from labkit.course.runs.bookie.one_bookie import OneBookie
from labkit.system.bookie.garbage_collection import GarbageConfig
from labkit.system.storage.entry_log import log_ids, log_name
from labkit.system.storage.garbage import (
    EntryLogMetadata,
    deleted_ledgers,
    logs_to_compact,
    read_log_metadata,
)
from labkit.views.widgets.log_usage import LogBar, LogUsage
from labkit.views.widgets.step_list import Step, Steps

ENTRIES_PER_LOG = 20
_CONFIG = GarbageConfig()
_TICK_H = _CONFIG.gc_wait_time_ms / 3_600_000
_MINOR_H = _CONFIG.minor_compaction_interval_s / 3600
_MAJOR_H = _CONFIG.major_compaction_interval_s / 3600


def bookie_with_logs(percent_of_ledger_5: list[int]) -> OneBookie:
    """Return a bookie with one entry log for each item of the list. The item is the percentage of
    the log's entries that belong to ledger 5; the other entries belong to ledger 6.
    """
    bookie, next_id = OneBookie(), {5: 0, 6: 0}
    for percent in percent_of_ledger_5:
        for slot in range(ENTRIES_PER_LOG):
            ledger_id = 5 if 100 * slot < percent * ENTRIES_PER_LOG else 6
            bookie.add((ledger_id, next_id[ledger_id]), payload_size=60)
            next_id[ledger_id] += 1
        bookie.commit()
        bookie.flush()
    return bookie


def log_usage(bookie: OneBookie, existing: Collection[int]) -> LogUsage:
    """Return a picture of the bookie's logs, given the ledgers that have not been deleted."""
    disk = bookie.machine.ledgers[0]
    found = (read_log_metadata(disk, log_id) for log_id in log_ids(disk))
    return LogUsage([LogBar(log_name(each.log_id), each.ledger_bytes) for each in found], existing)


def bytes_on_disk(bookie: OneBookie) -> int:
    """Return the total size in bytes of all entries in the bookie's logs."""
    return sum(bar.total_bytes for bar in log_usage(bookie, ()).bars)


def garbage_bytes(bookie: OneBookie, existing: Collection[int]) -> int:
    """Return the number of bytes in the bookie's logs that belong to deleted ledgers."""
    living = sum(bar.living_bytes(existing) for bar in log_usage(bookie, existing).bars)
    return bytes_on_disk(bookie) - living


def collect_garbage(bookie: OneBookie, existing: Collection[int]) -> list[str]:
    """Drop the deleted ledgers, delete all logs that no longer have entries, and return the names
    of these logs.
    """
    store = bookie.store
    empty = store.garbage.collect(deleted_ledgers(store.ledger_ids(), existing))
    for log_id in empty:
        store.garbage.remove_log(log_id)
    return [log_name(log_id) for log_id in empty]


def compact_logs(bookie: OneBookie, threshold: float) -> dict[str, int]:
    """Compact the logs whose live share is below `threshold`; return the number of bytes copied
    from each log.
    """
    garbage, copied = bookie.store.garbage, dict[str, int]()
    for log_id in logs_to_compact(garbage.logs, threshold):
        copied[log_name(log_id)] = sum(batch.size_bytes for batch in garbage.compact(log_id, 1000))
        garbage.remove_log(log_id)
    return copied


def cost_of_compaction(threshold: float) -> str:
    """Describe the cost of compacting twenty logs of 100 bytes, whose live shares range from 0 to
    95 %.
    """
    twenty = [EntryLogMetadata(number, 100, {5: 5 * number}) for number in range(20)]
    chosen = logs_to_compact(twenty, threshold)
    copied, last = sum(5 * number for number in chosen), 5 * chosen[-1] if chosen else 0
    total = f"{len(chosen):>2} logs, {copied:>3} bytes copied"
    return f"{total}; the last log copies {last} to free {100 - last}"


def steps_that_free_space() -> Steps:
    """Return the steps that lead from the last acknowledgement to free disk space, with the default
    timers.
    """
    hourly, daily = (f"{hours:.0f} h after a collection" for hours in (_MINOR_H, _MAJOR_H))
    minor = f"logs below {_CONFIG.minor_compaction_threshold:.0%} live are compacted"
    major = f"logs below {_CONFIG.major_compaction_threshold:.0%} live are compacted"
    rollover = "full, or 4 h old; at least 10 min old"
    tick = f"up to {60 * _TICK_H:.0f} min"
    return Steps(
        [
            Step("every message is acknowledged"),
            Step("the ledger is closed", rollover, "managedLedger...Rollover...Minutes"),
            Step("its metadata is deleted", "up to 2 min, and retention", "the broker's timer"),
            Step("logs without live entries are deleted", tick, "gcWaitTime"),
            Step(minor, hourly, "minorCompactionInterval"),
            Step(major, daily, "majorCompactionInterval"),
        ]
    )


def hours_until_freed(live_share: float) -> float:
    """Return how many hours the garbage in a log can remain after the ledger's metadata has been
    deleted.
    """
    if live_share == 0:
        return _TICK_H
    if live_share < _CONFIG.minor_compaction_threshold:
        return _TICK_H + _MINOR_H
    if live_share < _CONFIG.major_compaction_threshold:
        return _TICK_H + _MAJOR_H
    return inf
