"""Consumers for scenarios with brokers: subscriptions of all types, while what lies between a
consumer and its broker is cut, reset and slow, the client stands still, and a new owner of the
topic cannot read what the one before has stored.  They acknowledge batches in parts, ask for
messages once more, and begin again at the first one.  Some are readers.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.scenario_random import rounded
from labkit.worlds.sim.scenario.faults import Crash, Delay, Fault, Partition, Pause, Reset
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.publish import Publish

_SHARE = 0.5
_UNREADABLE = 0.3
_READERS = 0.25
_TYPES = "Exclusive", "Exclusive", "Failover", "Shared", "Key_Shared"
_CLIENTS = "c", "d"


def with_consumers(scenario: Scenario, seed: int, horizon_ms: float) -> Scenario:
    """The scenario, in one of two with one or two more clients that consume its topic."""
    lots = random.Random(f"consumers {seed}")
    if lots.random() >= _SHARE:
        return scenario
    messages = sum(step.messages for step in scenario.workload if isinstance(step, Publish))
    consumers = [
        _consume(lots, client, messages, horizon_ms)
        for client in _CLIENTS[: lots.choice((1, 1, 2))]
    ]
    rarer = random.Random(f"rarer consumers {seed}")
    consumers = [_in_a_rarer_way(rarer, each) for each in consumers]
    readers = random.Random(f"readers {seed}")
    consumers = [_perhaps_a_reader(readers, each) for each in consumers]
    faults = [
        _fault(lots, lots.choice(scenario.cluster.broker_names), consumer.client, horizon_ms)
        for consumer in consumers
        for _ in range(lots.choice((0, 1, 2)))
    ]
    scenario = replace(scenario, workload=(*scenario.workload, *consumers)).with_fault(*faults)
    if lots.random() < _UNREADABLE:
        scenario = _with_unreadable_entries(lots, scenario, horizon_ms)
    return scenario


def _consume(lots: random.Random, client: str, messages: int, horizon_ms: float) -> Consume:
    """A subscription with the client's name."""
    subscription_type = lots.choice(_TYPES)
    step = Consume(
        messages=messages,
        subscription=client,
        subscription_type=subscription_type,
        consumers=1 if subscription_type == "Exclusive" else lots.choice((1, 2, 3)),
        permits=lots.choice((1, 4, 100)),
        ack_every=lots.choice((1, 1, 5)),
        entries_per_connection=lots.choice((0, 0, 2, 5)),
        client=client,
        when=At(rounded(lots.uniform(0, horizon_ms)) if lots.random() < 0.3 else 0.0),
    )
    return replace(step, is_cumulative=step.keeps_order and lots.random() < 0.5)


def _in_a_rarer_way(lots: random.Random, consume: Consume) -> Consume:
    """Often a batch is acknowledged in two parts, and messages are delivered again because the
    consumer wants that.
    """
    ways = "seek", "unsubscribe" if consume.consumers == 1 else "seek"
    return replace(
        consume,
        acks_parts=lots.random() < 0.5,
        redeliver_every=lots.choice((0, 0, consume.ack_every + lots.choice((1, 3)))),
        start_over_after=lots.choice((0, 0, lots.randint(1, 2 * consume.messages))),
        start_over_by=lots.choice(ways),
    )


def _perhaps_a_reader(lots: random.Random, consume: Consume) -> Consume:
    """One in four consumers that have a subscription for themselves reads without a durable one."""
    is_reader = lots.random() < _READERS
    return replace(consume, reader=is_reader and consume.subscription_type == "Exclusive")


def _with_unreadable_entries(
    lots: random.Random, scenario: Scenario, horizon_ms: float
) -> Scenario:
    """A broker is killed, and all bookies as soon as there is another owner, who has none of the
    entries in its memory.
    """
    cluster = scenario.cluster
    killed = On("batch.stored", lots.randint(2, 10))
    down_ms = rounded(lots.uniform(1, 10 * horizon_ms))
    return scenario.with_fault(
        *(Crash(broker, "kept", horizon_ms, killed) for broker in cluster.broker_names[1:]),
        *(Crash(bookie, "kept", down_ms, On("topic.opened", 2)) for bookie in cluster.names),
    )


def _fault(lots: random.Random, broker: str, client: str, horizon_ms: float) -> Fault:
    when = At(rounded(lots.uniform(0, 2 * horizon_ms)))
    for_ms = rounded(lots.uniform(1, 3 * horizon_ms))
    direction, slow_ms = lots.choice(("both", "in", "out")), rounded(lots.uniform(1, 30))
    makers: tuple[Callable[[], Fault], ...] = (
        lambda: Pause(client, for_ms, when),
        lambda: Reset(broker, client, when),
        lambda: Partition((broker,), (client,), direction, for_ms, when),
        lambda: Delay(broker, client, slow_ms, for_ms, when),
        lambda: Delay(client, broker, slow_ms, for_ms, when),
    )
    return lots.choice(makers)()
