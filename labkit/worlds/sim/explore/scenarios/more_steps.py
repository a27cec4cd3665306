"""Steps beside those of the workload: owners of a topic without brokers, and an operator who stops
autorecovery for a time.
"""

from dataclasses import replace

from labkit.system.topic.config import ManagedLedgerConfig
from labkit.worlds.sim.explore.scenarios.scenario_random import Lots
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import START, Moment, On
from labkit.worlds.sim.workload.produce import Produce
from labkit.worlds.sim.workload.steps import DisableAutorecovery, Step

_OWNERS_SHARE = 1 / 15
_DISABLED_SHARE = 1 / 8


def with_more_steps(scenario: Scenario, lots: Lots) -> Scenario:
    """The scenario; one in fifteen has owners of a topic, too, and where there is autorecovery, it
    is stopped in one of eight.
    """
    cluster = scenario.cluster
    steps: list[Step] = []
    if lots.chance(_OWNERS_SHARE) and cluster.bookies >= ManagedLedgerConfig().ensemble_size:
        steps += _owners(lots)
    if lots.chance(_DISABLED_SHARE) and cluster.autorecovery is not None:
        steps.append(DisableAutorecovery(lots.ms(), when=lots.time()))
    return replace(scenario, workload=(*scenario.workload, *steps))


def _owners(lots: Lots) -> list[Step]:
    """One or two, of which the second takes the topic over."""
    owners: list[Step] = [_owner(lots, "p", START)]
    if lots.chance(0.7):
        when: Moment = lots.time()
        if lots.chance(0.5):
            when = On("batch.stored", lots.number(1, 6))
        owners.append(_owner(lots, "q", when))
    return owners


def _owner(lots: Lots, client: str, when: Moment) -> Produce:
    return Produce(
        messages=lots.number(1, 20),
        batch_size=lots.one_of(1, 2, 5),
        entries_per_ledger=lots.one_of(1, 3, 5),
        window=lots.one_of(1, 8),
        client=client,
        when=when,
        receive=lots.chance(0.5),
    )
