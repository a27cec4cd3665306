"""Lists the variations of random scenarios, each with the share of scenarios in which it occurs.

Each variation has its own random stream, so that adding a row or changing a share does not affect
any other values drawn from a seed. This matters because documentation refers to findings by seed.
Rows with the same stream name share one stream. The rows are applied in order, because some of them
replace the workload or the faults that earlier rows have added.
"""

from collections.abc import Callable
from typing import NamedTuple

from labkit.worlds.sim.explore.scenarios.bad_machines import with_bad_machines
from labkit.worlds.sim.explore.scenarios.busy_disks import with_busy_disks
from labkit.worlds.sim.explore.scenarios.consumers import with_consumers, with_shared_keys
from labkit.worlds.sim.explore.scenarios.fault_recipes import (
    with_a_deletion,
    with_fault_recipes,
    with_lagging_metadata,
    with_metadata_trouble,
)
from labkit.worlds.sim.explore.scenarios.lost_bookies import (
    with_a_lost_bookie,
    with_formatted_bookies,
)
from labkit.worlds.sim.explore.scenarios.other_clients import (
    with_autorecovery_disabled,
    with_other_clients,
    with_topic_owners,
)
from labkit.worlds.sim.explore.scenarios.other_settings import (
    with_other_settings,
    with_overreplication_checks,
    with_topic_upkeep,
    with_two_journals,
)
from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.explore.scenarios.topic_faults import (
    with_a_slow_takeover,
    with_hanging_metadata,
    with_topic_repairs,
    with_unloads,
)
from labkit.worlds.sim.scenario.scenario import Scenario


class Variation(NamedTuple):
    """A variation of scenarios. Its `share` may depend on whether a scenario has autorecovery."""

    stream: str
    share: float | tuple[float, float]
    vary: Callable[[Scenario, ScenarioRandom], Scenario]


LEDGER_VARIATIONS = (
    Variation("situation", 1, with_fault_recipes),
    Variation("deletion", 1 / 8, with_a_deletion),
    Variation("zookeeper", 0.1, with_lagging_metadata),
    Variation("zookeeper", (0.1, 0.4), with_metadata_trouble),
    Variation("disks", (1 / 8, 0), with_busy_disks),
    Variation("lost", (0, 2 / 3), with_a_lost_bookie),
    Variation("upkeep", 0.3, with_overreplication_checks),
    Variation("upkeep", 0.15, with_two_journals),
    Variation("clients", 1 / 5, with_other_clients),
    Variation("machines", 1 / 6, with_bad_machines),
    Variation("settings", 1 / 4, with_other_settings),
    Variation("steps", 1 / 15, with_topic_owners),
    Variation("steps", (0, 1 / 8), with_autorecovery_disabled),
    Variation("reformatted", 1 / 50, with_formatted_bookies),
)
"""For scenarios without brokers, before the storm."""

TOPIC_VARIATIONS = (
    Variation("takeover", 0.1, with_a_slow_takeover),
    Variation("hanging", 0.15, with_hanging_metadata),
)
"""For scenarios with brokers, before the storm."""

TOPIC_VARIATIONS_AFTER_STORM = (
    Variation("consumers", 0.5, with_consumers),
    Variation("repairs", 0.2, with_topic_repairs),
    Variation("machines", 1 / 6, with_bad_machines),
    Variation("topic upkeep", 0.3, with_topic_upkeep),
    Variation("keys", 0.12, with_shared_keys),
    Variation("unloads", 0.1, with_unloads),
    Variation("settings", 1 / 4, with_other_settings),
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
