"""Clients that use rarer ways of the protocol: deferred sync, explicit LAC, long polls, the first
bookie's word, racks.
"""

from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.scenario_random import Lots
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.steps import NameRacks, Read, Step, Write

_SHARE = 1 / 5
_RACKS = 2


def with_other_clients(scenario: Scenario, lots: Lots) -> Scenario:
    """The scenario, or, for one in five, the same in which some steps go such a way."""
    if not lots.chance(_SHARE):
        return scenario
    if lots.chance(0.25):
        return _with_racks(scenario, lots)
    steps = tuple(_in_another_way(step, lots) for step in scenario.workload)
    return replace(scenario, workload=steps)


def _in_another_way(step: Step, lots: Lots) -> Step:
    """A ledger with deferred sync has no ensemble changes, so not all have it."""
    if isinstance(step, Read):
        if lots.chance(0.7):
            return replace(step, long_poll_ms=step.poll_ms)
        return replace(step, lac=lots.one_of("try", "explicit"))
    if not isinstance(step, Write):
        return step
    force_every = lots.one_of(0, 1, 3, max(1, step.entries // 2))
    return replace(step, force_every=force_every, explicit_lac_ms=lots.one_of(0, 5, 50))


def _with_racks(scenario: Scenario, lots: Lots) -> Scenario:
    """Bookies stand in two racks; writers look at that, and autorecovery moves copies for it.  In
    half of the scenarios nothing else is allowed.
    """
    enforced = lots.chance(0.5)
    steps = (
        replace(step, racks=_RACKS, enforce_racks=enforced) if isinstance(step, Write) else step
        for step in scenario.workload
    )
    cluster, config = scenario.cluster, scenario.cluster.autorecovery
    if config is not None:
        moving = replace(
            config,
            min_num_racks_per_write_quorum=_RACKS,
            enforce_min_num_racks_per_write_quorum=enforced,
            auditor_periodic_placement_policy_check_interval_s=1,
            repaired_placement_policy_not_adhering_bookie_enabled=True,
        )
        cluster = replace(cluster, autorecovery=moving)
    return replace(scenario, cluster=cluster, workload=(NameRacks(_RACKS), *steps))
