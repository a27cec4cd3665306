"""Makes clients use less common features, and makes operators disable autorecovery.

These features are deferred sync, explicit LACs, long polls, reading the LAC from a single bookie,
racks, and topic owners without brokers.
"""

from dataclasses import replace

from labkit.system.topic.config import ManagedLedgerConfig
from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import START, Moment, On
from labkit.worlds.sim.workload.produce import Produce
from labkit.worlds.sim.workload.steps import DisableAutorecovery, NameRacks, Read, Step, Write

_RACKS = 2


def with_other_clients(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    if draw.chance(0.25):
        return _with_racks(scenario, draw)
    steps = tuple(_with_rarer_requests(step, draw) for step in scenario.workload)
    return replace(scenario, workload=steps)


def _with_rarer_requests(step: Step, draw: ScenarioRandom) -> Step:
    """Let writers and readers use less common features.

    Not all ledgers use deferred sync, because it does not support ensemble changes.
    """
    if isinstance(step, Read):
        if draw.chance(0.7):
            return replace(step, long_poll_ms=step.poll_ms)
        return replace(step, lac=draw.one_of("try", "explicit"))
    if not isinstance(step, Write):
        return step
    force_every = draw.one_of(0, 1, 3, max(1, step.entries // 2))
    return replace(step, force_every=force_every, explicit_lac_ms=draw.one_of(0, 5, 50))


def _with_racks(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Put the bookies in two racks. Writers spread the copies over both racks, and autorecovery
    restores this placement.

    In half of these scenarios, the placement is enforced.
    """
    enforced = draw.chance(0.5)
    steps = (
        replace(step, racks=_RACKS, enforce_racks=enforced) if isinstance(step, Write) else step
        for step in scenario.workload
    )
    config = scenario.cluster.autorecovery
    if config is not None:
        config = replace(
            config,
            min_num_racks_per_write_quorum=_RACKS,
            enforce_min_num_racks_per_write_quorum=enforced,
            auditor_periodic_placement_policy_check_interval_s=1,
            repaired_placement_policy_not_adhering_bookie_enabled=True,
        )
        scenario = scenario.with_cluster(autorecovery=config)
    return replace(scenario, workload=(NameRacks(_RACKS), *steps))


def with_topic_owners(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Add one or two owners of a topic without brokers, if there are enough bookies.

    The second owner takes over the topic from the first.
    """
    if scenario.cluster.bookies < ManagedLedgerConfig().ensemble_size:
        return scenario
    owners: list[Step] = [_owner(draw, "p", START)]
    if draw.chance(0.7):
        when: Moment = draw.time()
        if draw.chance(0.5):
            when = On("batch.stored", draw.number(1, 6))
        owners.append(_owner(draw, "q", when))
    return scenario.with_steps(*owners)


def _owner(draw: ScenarioRandom, client: str, when: Moment) -> Produce:
    return Produce(
        messages=draw.number(1, 20),
        batch_size=draw.one_of(1, 2, 5),
        entries_per_ledger=draw.one_of(1, 3, 5),
        window=draw.one_of(1, 8),
        client=client,
        when=when,
        receive=draw.chance(0.5),
    )


def with_autorecovery_disabled(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    return scenario.with_steps(DisableAutorecovery(draw.ms(), when=draw.time()))
