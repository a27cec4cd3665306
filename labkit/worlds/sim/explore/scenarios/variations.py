"""Lists the variations of random scenarios, each with the share of scenarios in which it occurs.

Each variation has its own random stream, so that adding a row or changing a share does not affect
any other values drawn from a seed. This matters because documentation refers to findings by seed.
Rows with the same stream name share one stream. The rows are applied in order, because some of them
replace the workload or the faults that earlier rows have added.
"""

from collections.abc import Callable
from typing import NamedTuple

from labkit.worlds.sim.explore.scenarios import (
    bad_machines,
    busy_disks,
    consumers,
    fault_recipes,
    lost_bookies,
    other_clients,
    other_settings,
    topic_faults,
)
from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.scenario.scenario import Scenario


class Variation(NamedTuple):
    """A variation of scenarios. Its `share` may depend on whether a scenario has autorecovery."""

    stream: str
    share: float | tuple[float, float]
    vary: Callable[[Scenario, ScenarioRandom], Scenario]


LEDGER_VARIATIONS = (
    Variation("situation", 1, fault_recipes.with_fault_recipes),
    Variation("deletion", 1 / 8, fault_recipes.with_a_deletion),
    Variation("zookeeper", 0.1, fault_recipes.with_lagging_metadata),
    Variation("zookeeper", (0.1, 0.4), fault_recipes.with_metadata_trouble),
    Variation("disks", (1 / 8, 0), busy_disks.with_busy_disks),
    Variation("lost", (0, 2 / 3), lost_bookies.with_a_lost_bookie),
    Variation("upkeep", 0.3, other_settings.with_overreplication_checks),
    Variation("upkeep", 0.15, other_settings.with_two_journals),
    Variation("clients", 1 / 5, other_clients.with_other_clients),
    Variation("machines", 1 / 6, bad_machines.with_bad_machines),
    Variation("settings", 1 / 4, other_settings.with_other_settings),
    Variation("steps", 1 / 15, other_clients.with_topic_owners),
    Variation("steps", (0, 1 / 8), other_clients.with_autorecovery_disabled),
    Variation("reformatted", 1 / 50, lost_bookies.with_formatted_bookies),
)
"""For scenarios without brokers, before the storm."""

TOPIC_VARIATIONS = (
    Variation("takeover", 0.1, topic_faults.with_a_slow_takeover),
    Variation("hanging", 0.15, topic_faults.with_hanging_metadata),
)
"""For scenarios with brokers, before the storm."""

TOPIC_VARIATIONS_AFTER_STORM = (
    Variation("consumers", 0.5, consumers.with_consumers),
    Variation("repairs", 0.2, topic_faults.with_topic_repairs),
    Variation("machines", 1 / 6, bad_machines.with_bad_machines),
    Variation("topic upkeep", 0.3, other_settings.with_topic_upkeep),
    Variation("keys", 0.12, consumers.with_shared_keys),
    Variation("unloads", 0.1, topic_faults.with_unloads),
    Variation("settings", 1 / 4, other_settings.with_other_settings),
)
"""For scenarios with brokers, after the storm, because the storm draws from all clients and
bookies.
"""


def with_variations(
    scenario: Scenario, variations: tuple[Variation, ...], seed: int, horizon_ms: float
) -> Scenario:
    draws: dict[str, ScenarioRandom] = {}
    for stream, shares, vary in variations:
        if stream not in draws:
            clients = (*scenario.cluster.broker_names, *scenario.clients)
            draws[stream] = ScenarioRandom(stream, seed, scenario.cluster, clients, horizon_ms)
        has_autorecovery = scenario.cluster.autorecovery is not None
        share = shares[has_autorecovery] if isinstance(shares, tuple) else shares
        if share == 1 or draws[stream].chance(share):
            scenario = vary(scenario, draws[stream])
    return scenario
