"""Keys in scenarios with brokers: consumers that share them come and go while entries are read.

Reads take time only where the broker keeps no entries in its memory.  Then a consumer can leave
between the moment at which an entry is chosen for it and the moment at which the entry is there.
"""

import random
from dataclasses import replace

from labkit.worlds.sim.scenario.faults import Delay, Fault, Reset
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.publish import Publish

_SHARE = 0.12
_CLIENTS = "k", "l"
_SUBSCRIPTION = "keys"


def with_keys(scenario: Scenario, seed: int) -> Scenario:
    """The scenario, or, for one in eight, one whose messages have few keys, which the consumers of
    one Key_Shared subscription share.  These consumers hang up, and their connections break.
    """
    lots = random.Random(f"keys {seed}")
    if lots.random() >= _SHARE:
        return scenario
    keys = lots.choice((1, 2, 4))
    workload = [
        replace(step, keys=keys) if isinstance(step, Publish) else step
        for step in scenario.workload
    ]
    messages = sum(step.messages for step in workload if isinstance(step, Publish))
    clients = _CLIENTS[: lots.choice((1, 2, 2))]
    consumers = [_consume(lots, client, messages) for client in clients]
    broker = scenario.cluster.broker
    managed_ledger = replace(broker.managed_ledger, entry_cache_size_bytes=lots.choice((0, 0, 100)))
    cluster = replace(scenario.cluster, broker=replace(broker, managed_ledger=managed_ledger))
    scenario = replace(scenario, cluster=cluster, workload=(*workload, *consumers))
    faults: list[Fault] = [
        Reset(broker, client, At(float(lots.randrange(5, 400))))
        for client in clients
        for broker in cluster.broker_names
        for _ in range(lots.choice((0, 1, 3)))
    ]
    if lots.random() < 0.5:
        slow_ms = float(lots.choice((3, 10)))
        faults += [Delay(bookie, "*", slow_ms, 500.0) for bookie in cluster.names]
    return scenario.with_fault(*faults)


def _consume(lots: random.Random, client: str, messages: int) -> Consume:
    return Consume(
        messages=messages,
        subscription=_SUBSCRIPTION,
        subscription_type="Key_Shared",
        consumers=lots.choice((1, 2, 3)),
        permits=lots.choice((1, 2, 4)),
        ack_every=lots.choice((1, 3, 5)),
        entries_per_connection=lots.choice((0, 2, 3, 5)),
        client=client,
    )
