"""Shows when bookies flush without being told to, and what a restarted bookie replays (lessons 03
and 04).
"""

from dataclasses import replace
from itertools import pairwise

from labkit.worlds.sim.crash_map.crash_map import CrashMap
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.bookie_script import CONFIG
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.workload.steps import Write

_WRITE = Write(entries=60, every_ms=10)


def flushes(flush_interval_ms: int, memtable_bytes: int = 1 << 26) -> list[tuple[int, int]]:
    """Write for 600 ms. For each flush of one of the bookies, return the time in ms and the number
    of entries.
    """
    storage = replace(CONFIG, skip_list_size_limit=memtable_bytes)
    cluster = Cluster(3, storage=storage, flush_interval_ms=flush_interval_ms)
    events = run(Scenario(cluster, (_WRITE,))).events
    flushed = [e for e in events if e.kind == "memtable.flushed" and e.node == "b0"]
    return [(e.time_us // 1000, e.size) for e in flushed if e.size]


def replay_after_cut(flush_interval_ms: int, cut_at_ms: int) -> tuple[int, int]:
    """Write until one bookie loses power. Return the time in ms at which the bookie last persisted
    LastLogMark, and the number of records that it replays after the restart.
    """
    cluster = Cluster(3, flush_interval_ms=flush_interval_ms)
    cut = Crash("b0", "lost", down_ms=50, when=At(cut_at_ms))
    write = replace(_WRITE, close=False)
    events = [e for e in run(Scenario(cluster, (write,), (cut,))).events if e.node == "b0"]
    replayed = next(e for e in events if e.kind == "journal.replayed" and e.size)
    persisted = [e for e in events[: events.index(replayed)] if e.kind == "mark.persisted"]
    return persisted[-1].time_us // 1000, replayed.size


def replayed_at_end(crashes: CrashMap) -> int:
    """Return the number of records that the bookie would replay if the power failed at the end of
    the run and the bookie then restarted.
    """
    return crashes.cells[-1][0].replayed[0]


def where_replay_gets_shorter(crashes: CrashMap) -> str:
    """Return a line for each disk operation after which a restarted bookie would replay fewer
    records than before.
    """
    counts = [row[0].replayed[0] for row in crashes.cells]
    return "\n".join(
        f"{before} records before, {after} after: {point.operation}"
        for point, (before, after) in zip(crashes.points, pairwise(counts), strict=False)
        if after < before
    )


def entries_lost_first(crashes: CrashMap) -> list[int]:
    """Return the entries that are lost in the first unsafe cell, or [] if all cells are safe."""
    smallest = crashes.smallest()
    return [promise.number for promise in smallest.cell.lost] if smallest else []
