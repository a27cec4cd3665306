"""When bookies flush on their own, and what a restarted bookie replays (lessons 03 and 04)."""

from dataclasses import replace

from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.bookie_script import CONFIG
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.workload.steps import Write

_WRITE = Write(entries=60, every_ms=10)


def flushes(flush_interval_ms: int, memtable_bytes: int = 1 << 26) -> list[tuple[int, int]]:
    """Write for 600 ms; return when one bookie flushed, in ms, and the number of entries each
    time.
    """
    storage = replace(CONFIG, skip_list_size_limit=memtable_bytes)
    cluster = Cluster(3, storage=storage, flush_interval_ms=flush_interval_ms)
    events = run(Scenario(cluster, (_WRITE,))).events
    flushed = [e for e in events if e.kind == "memtable.flushed" and e.node == "b0"]
    return [(e.time_us // 1000, e.size) for e in flushed if e.size]
