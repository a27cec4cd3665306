"""The tests that every step runs with a bookie, both on disks that crash and in a simulated
cluster.

crashes     runs some scripts with a crash before every disk operation, in six variants
orders      runs every order of one add's messages, with a crash of the bookie between any two
            messages
storms      injects random faults into a bookie that stores a ledger alone, and into three bookies
            that store a ledger together
"""

from dataclasses import replace

from labkit.course.runs.trial import must_survive
from labkit.course.workshop.bookie.store import store_of
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.simulated_cluster import check_every_order, check_seeds
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.bookie_script import (
    Add,
    Checkpoint,
    Collect,
    Commit,
    Fence,
    Restart,
    ScriptStep,
    SetExplicitLac,
)
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.workload.steps import Write

SCRIPTS: tuple[tuple[ScriptStep, ...], ...] = (
    (Add(5, 0), Commit(), Add(5, 1, 463), Add(5, 2), Commit()),
    (
        *(Add(5, 0), Add(6, 0), Commit(), Checkpoint((Add(5, 1), Commit())), Add(5, 2), Commit()),
        *(Restart(), Add(5, 3), Fence(6), SetExplicitLac(5, 2), Commit(), Checkpoint()),
        *(Restart(), Add(5, 4), Commit()),
    ),
    (
        *(Add(5, 0, 900), Add(6, 0, 900), Commit(), Checkpoint(), Add(6, 1, 900), Commit()),
        *(Checkpoint(), Restart(), Add(6, 2), Commit(), Collect((5,))),
    ),
)
"""The scripts, smallest first: adds in two groups; a checkpoint during adds, restarts, a fence and
an explicit LAC; a full entry log, a deleted ledger and a compaction.
"""

ONE_ADD = Scenario(
    Cluster(1),
    (Write(entries=1, ensemble=1, write_quorum=1, ack_quorum=1, window=1, close=False),),
)
ALONE = Scenario(
    Cluster(1, flush_interval_ms=5),
    (Write(entries=8, ensemble=1, write_quorum=1, ack_quorum=1, every_ms=1.0),),
    limit_s=5.0,
)
SHARED = replace(ALONE, cluster=Cluster(3, flush_interval_ms=5), workload=(Write(8, every_ms=1.0),))
_FAULTS, _HORIZON_MS = 2, 15.0
LOSSES = ("lost", "AcknowledgedIsDurable", "EveryCopyIsDurable")
"""A crash map's verdict and promises of the cluster that fail if a bookie loses an entry."""


def crashes(learner: Learner) -> str:
    """Check that no crash loses acknowledged data."""
    points = 0
    for script in SCRIPTS:
        found = must_survive(
            "After every crash, everything that was acknowledged is available, and nothing else.",
            script,
            store_of(learner),
        )
        points += len(found.points)
    return f"Nothing was lost in {points} crashes of a bookie, each of {len(found.variants)} kinds."


def orders(learner: Learner) -> str:
    """Check that no order of an add's messages breaks a promise, even with a crash between two
    messages.
    """
    return check_every_order(learner, ONE_ADD, crashes=1, store=store_of(learner))


def storms(learner: Learner) -> str:
    """Check that none of the seeds breaks a promise in the cluster."""
    scenarios = (
        storm(SHARED if seed % 4 == 3 else ALONE, seed, _FAULTS, _HORIZON_MS)
        for seed in range(learner.seeds)
    )
    return check_seeds(learner, scenarios, store=store_of(learner))
