"""Adds consumers with subscriptions of all types to scenarios with brokers.

While these consumers run, their connections to the brokers are cut, reset and slowed down, and
their clients pause. Sometimes a new owner of the topic cannot read the entries that the previous
owner stored. The consumers acknowledge batches in parts, request redelivery, and reset their
subscriptions to the first message. Some consumers are readers, and some share the keys of a
subscription.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.other_settings import with_managed_ledger
from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.scenario.faults import Crash, Delay, Fault, Partition, Pause, Reset
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.publish import Publish

_UNREADABLE = 0.3
_READERS = 0.25
_TYPES = "Exclusive", "Exclusive", "Failover", "Shared", "Key_Shared"
_CLIENTS = "c", "d"
_SHARING_CLIENTS = "k", "l"


def with_consumers(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    messages = sum(step.messages for step in scenario.workload if isinstance(step, Publish))
    clients = _CLIENTS[: draw.one_of(1, 1, 2)]
    consumers = [_consumer(draw, client, messages) for client in clients]
    rarer, readers = draw.other_stream("rarer consumers"), draw.other_stream("readers")
    consumers = [_with_rarer_requests(rarer, each) for each in consumers]
    consumers = [_reader_or_consumer(readers, each) for each in consumers]
    faults = [
        _fault(draw, draw.one_of(*scenario.cluster.broker_names), consumer.client)
        for consumer in consumers
        for _ in range(draw.one_of(0, 1, 2))
    ]
    scenario = scenario.with_steps(*consumers).with_fault(*faults)
    if draw.chance(_UNREADABLE):
        scenario = _with_unreadable_entries(draw, scenario)
    return scenario


def _consumer(draw: ScenarioRandom, client: str, messages: int) -> Consume:
    subscription_type = draw.one_of(*_TYPES)
    step = Consume(
        messages=messages,
        subscription=client,
        subscription_type=subscription_type,
        consumers=1 if subscription_type == "Exclusive" else draw.one_of(1, 2, 3),
        permits=draw.one_of(1, 4, 100),
        ack_every=draw.one_of(1, 1, 5),
        entries_per_connection=draw.one_of(0, 0, 2, 5),
        client=client,
        when=At(draw.between(0, draw.horizon_ms) if draw.chance(0.3) else 0.0),
    )
    return replace(step, is_cumulative=step.keeps_order and draw.chance(0.5))


def _with_rarer_requests(draw: ScenarioRandom, consume: Consume) -> Consume:
    """Often let consumers acknowledge batches in two parts, request redelivery, or reset their
    subscription.
    """
    methods = "seek", "unsubscribe" if consume.consumers == 1 else "seek"
    return replace(
        consume,
        acks_parts=draw.chance(0.5),
        redeliver_every=draw.one_of(0, 0, consume.ack_every + draw.one_of(1, 3)),
        start_over_after=draw.one_of(0, 0, draw.number(1, 2 * consume.messages)),
        start_over_by=draw.one_of(*methods),
    )


def _reader_or_consumer(draw: ScenarioRandom, consume: Consume) -> Consume:
    """Turn a quarter of the Exclusive consumers into readers with non-durable subscriptions."""
    is_reader = draw.chance(_READERS)
    return replace(consume, reader=is_reader and consume.subscription_type == "Exclusive")


def _with_unreadable_entries(draw: ScenarioRandom, scenario: Scenario) -> Scenario:
    """Make entries unreadable for the topic's new owner.

    All brokers but the first are killed. All bookies are killed as soon as the topic has a new
    owner, which has not cached any of the entries.
    """
    cluster = scenario.cluster
    killed = On("batch.stored", draw.number(2, 10))
    down_ms = draw.between(1, 10 * draw.horizon_ms)
    return scenario.with_fault(
        *(Crash(broker, "kept", draw.horizon_ms, killed) for broker in cluster.broker_names[1:]),
        *(Crash(bookie, "kept", down_ms, On("topic.opened", 2)) for bookie in cluster.names),
    )


def _fault(draw: ScenarioRandom, broker: str, client: str) -> Fault:
    when = At(draw.between(0, 2 * draw.horizon_ms))
    for_ms = draw.between(1, 3 * draw.horizon_ms)
    direction, slow_ms = draw.one_of("both", "in", "out"), draw.between(1, 30)
    makers: tuple[Callable[[], Fault], ...] = (
        lambda: Pause(client, for_ms, when),
        lambda: Reset(broker, client, when),
        lambda: Partition((broker,), (client,), direction, for_ms, when),
        lambda: Delay(broker, client, slow_ms, for_ms, when),
        lambda: Delay(client, broker, slow_ms, for_ms, when),
    )
    return draw.one_of(*makers)()


def with_shared_keys(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Give the messages a few different keys, which are divided among the consumers of a Key_Shared
    subscription.

    These consumers disconnect, and their connections break. Usually the broker does not cache any
    entries, so that it must read them from the bookies. A consumer can then leave after an entry
    has been assigned to it but before the entry has been read.
    """
    keys = draw.one_of(1, 2, 4)
    workload = [
        replace(step, keys=keys) if isinstance(step, Publish) else step
        for step in scenario.workload
    ]
    messages = sum(step.messages for step in workload if isinstance(step, Publish))
    clients = _SHARING_CLIENTS[: draw.one_of(1, 2, 2)]
    consumers = [_sharing_consumer(draw, client, messages) for client in clients]
    scenario = replace(scenario, workload=(*workload, *consumers))
    scenario = with_managed_ledger(scenario, entry_cache_size_bytes=draw.one_of(0, 0, 100))
    faults: list[Fault] = [
        Reset(broker, client, At(float(draw.number(5, 399))))
        for client in clients
        for broker in scenario.cluster.broker_names
        for _ in range(draw.one_of(0, 1, 3))
    ]
    if draw.chance(0.5):
        slow_ms = float(draw.one_of(3, 10))
        faults += [Delay(bookie, "*", slow_ms, 500.0) for bookie in scenario.cluster.names]
    return scenario.with_fault(*faults)


def _sharing_consumer(draw: ScenarioRandom, client: str, messages: int) -> Consume:
    return Consume(
        messages=messages,
        subscription="keys",
        subscription_type="Key_Shared",
        consumers=draw.one_of(1, 2, 3),
        permits=draw.one_of(1, 2, 4),
        ack_every=draw.one_of(1, 3, 5),
        entries_per_connection=draw.one_of(0, 2, 3, 5),
        client=client,
    )
