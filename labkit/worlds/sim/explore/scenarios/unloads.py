"""Topics that an administrator unloads in scenarios with brokers, often again before that is done.

The bookies are slow meanwhile, since a topic is closed once what it has pushed is stored.
"""

import random

from labkit.worlds.sim.explore.scenarios.scenario_random import rounded
from labkit.worlds.sim.scenario.faults import Delay, Fault, Leave, Unload
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At

_SHARE = 0.1


def with_unloads(scenario: Scenario, seed: int, horizon_ms: float) -> Scenario:
    """The scenario, or, for one in ten, one in which the topic is unloaded, mostly twice."""
    lots = random.Random(f"unloads {seed}")
    if lots.random() >= _SHARE:
        return scenario
    cluster = scenario.cluster
    faults: list[Fault] = []
    for _ in range(lots.choice((1, 2, 4))):
        start_ms, slow_ms = lots.uniform(5, 4 * horizon_ms), lots.choice((5.0, 30.0))
        again_ms = start_ms + lots.uniform(0.1, 1) * slow_ms
        faults += [
            Delay(bookie, "*", slow_ms, 60.0, At(rounded(start_ms))) for bookie in cluster.names
        ]
        for broker in cluster.broker_names:
            faults.append(Unload(broker, when=At(rounded(start_ms))))
            if lots.random() < 0.8:
                faults.append(Unload(broker, when=At(rounded(again_ms))))
            elif lots.random() < 0.5:
                faults.append(Leave(broker, horizon_ms, At(rounded(again_ms))))
    return scenario.with_fault(*faults)
