"""Print the digest of the run for each seed, one per line: `python digests.py 200`.

This program needs only labkit and the imports of `labkit.worlds.sim`, so that any Python can run
it.
"""

import sys

from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.run import run_all
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Read, Recover, Write

BASE = Scenario(
    Cluster(bookies=4),
    workload=(
        Write(entries=20, window=6),
        Write(ledger=1, entries=5, ensemble=2, write_quorum=2, every_ms=2, client="v"),
        Read(polls=4, poll_ms=6),
        Recover(client="x", when=On("lac.advanced", nth=12)),
    ),
    faults=(Crash("b1", "lot", down_ms=20, when=On("journal.appended", nth=25)),),
)


def scenarios(count: int) -> list[Scenario]:
    return [storm(BASE, seed, fault_count=3, horizon_ms=40) for seed in range(count)]


if __name__ == "__main__":
    for trace in run_all(scenarios(int(sys.argv[1]))):
        sys.stdout.write(trace.digest + "\n")
