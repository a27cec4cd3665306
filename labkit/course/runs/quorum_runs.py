"""Shows where the entries of a ledger are stored, and how many bookies may fail (lesson 05)."""

from collections.abc import Mapping
from itertools import combinations, permutations

from labkit.course.runs.cluster_trial import failures
from labkit.system.client.quorum import is_covered
from labkit.system.client.striping import write_set
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Write


def sent_to(trace: Trace) -> dict[int, list[str]]:
    """Return the bookies to which the writer sent each entry."""
    sent: dict[int, list[str]] = {}
    for event in trace.events:
        if event.kind == "add.sent" and event.node == "w":
            sent.setdefault(event.entry, []).append(event.peer)
    return sent


def failures_survived(ensemble_size: int, write_quorum: int, ack_quorum: int) -> int:
    """Return how many bookies can fail, no matter which ones, without a confirmed entry being
    lost.
    """
    sizes = ensemble_size, write_quorum, ack_quorum
    indices = set(range(ensemble_size))
    return max(
        count
        for count in range(ensemble_size)
        if all(is_covered(indices - set(gone), *sizes) for gone in combinations(indices, count))
    )


def result_of_failures(count: int, ensemble_size: int, write_quorum: int, ack_quorum: int) -> str:
    """Return how a writer's work ends if this many bookies of its ensemble have failed."""
    write = Write(0, 3 * ensemble_size, ensemble_size, write_quorum, ack_quorum, window=1)
    crashes = tuple(Crash(f"b{i}", when=On("lac.advanced", nth=2)) for i in range(count))
    failed = failures(run(Scenario(Cluster(ensemble_size), (write,), crashes, limit_s=20)))
    return failed[0].split(": ")[1] if failed else "all entries are confirmed"


def ledgers_created(trace: Trace) -> int:
    return sum(event.kind == "ledger.created" for event in trace.events)


def ensemble_of(stored: Mapping[int, list[int]]) -> tuple[int, ...]:
    """Return the ensemble of four bookies that stores each of these entries on the given bookies.
    Raises `StopIteration` if no such ensemble exists.
    """
    return next(
        ensemble
        for ensemble in permutations(range(1, 5))
        if stored == {e: [ensemble[index] for index in write_set(e, 4, 3)] for e in stored}
    )
