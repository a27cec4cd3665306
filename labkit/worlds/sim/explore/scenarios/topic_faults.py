"""Adds faults that affect topics and brokers.

In these scenarios, a topic has two owners at once, is taken over slowly, or is unloaded. In others,
the metadata store hangs or a bookie is lost.
"""

from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.other_settings import with_managed_ledger
from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom, rounded
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.scenario.faults import (
    Crash,
    Delay,
    Fault,
    HangingMetadata,
    Leave,
    Partition,
    Reset,
    SessionLoss,
    SlowMetadata,
    Unload,
)
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At, Moment, On
from labkit.worlds.sim.workload.publish import Publish
from labkit.worlds.sim.workload.steps import Step

_PRODUCERS = "p", "q"
_EVENTS = (
    *("add.sent", "add.acked", "batch.stored", "batch.stored", "message.acked"),
    *("bundle.acquired", "recovery.started", "ledger.rolled", "topic.opened"),
    *("ledger.closed", "ledger.created"),
)
_MAX_SLOW_MESSAGES = 8


def with_adds_in_doubt(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Delay a producer's entries while they are being sent from the broker to the bookies.

    The producer reconnects while the entries are delayed. Later, the broker fails or leaves.
    """
    cluster = scenario.cluster
    broker, start_ms = draw.one_of(*cluster.broker_names), draw.between(10, 100)
    for_ms = draw.between(100, 1000)
    fails_at = At(start_ms + draw.between(100, 1.5 * for_ms))
    failures: tuple[Fault, ...] = (
        Crash(broker, "kept", for_ms, fails_at),
        SessionLoss(broker, fails_at),
        Leave(broker, for_ms, fails_at),
    )
    return scenario.with_fault(
        Partition((broker,), cluster.names, "both", for_ms, At(start_ms)),
        Reset(broker, _PRODUCERS[0], At(start_ms + 10)),
        draw.one_of(*failures),
    )


def with_two_owners(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Make a broker lose its session without noticing: one producer stays connected to this broker
    while another producer finds the new owner.

    If ledgers are long, the first owner does not need the metadata store for a while.
    """
    scenario = with_managed_ledger(scenario, max_entries_per_ledger=draw.one_of(3, 10, 100))
    timeout_ms = scenario.cluster.session_timeout_ms
    broker, for_ms = draw.one_of(*scenario.cluster.broker_names), 3.0 * timeout_ms
    when = topic_moment(draw, timeout_ms)
    first, second = _both_publish(30, timeout_ms)
    cut_off: tuple[str, ...] = (METADATA_SERVER, _PRODUCERS[0])
    if draw.chance(0.5):
        second, cut_off = replace(second, when=On("session.lost", node=broker)), cut_off[:1]
    return replace(scenario, workload=(first, second)).with_fault(
        *(Partition((broker,), (other,), "both", for_ms, when) for other in cut_off)
    )


def with_a_slow_takeover(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Let a broker take over the topic while the bookies are slow.

    After the broker has fenced some of the bookies, it is disconnected from the metadata store
    until the topic has another owner, and then continues its takeover.
    """
    scenario = with_managed_ledger(scenario, max_entries_per_ledger=draw.one_of(10, 100, 100))
    cluster, broker = scenario.cluster, draw.one_of(*scenario.cluster.broker_names)
    timeout_ms = cluster.session_timeout_ms
    started = On("recovery.started", node=broker)
    fenced = On("fence.answered", draw.one_of(1, 2, 3), node=broker)
    first, second = _both_publish(40, timeout_ms)
    expired = On("session.lost", draw.one_of(1, 2), node=broker)
    slow_ms = rounded(draw.uniform(0.8, 1.5) * timeout_ms)
    workload = first, replace(second, when=expired)
    return replace(scenario, workload=workload, faults=()).with_fault(
        Crash(
            draw.one_of(*cluster.broker_names), "kept", 30, On("batch.stored", draw.number(1, 10))
        ),
        *(Delay(broker, bookie, slow_ms, 10 * slow_ms, started) for bookie in cluster.names),
        Partition((broker,), (METADATA_SERVER,), "both", 1.5 * timeout_ms, fenced),
    )


def with_hanging_metadata(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Make the metadata store hang for about a session timeout.

    Often the store's responses are slow, so that some responses are in flight when the store hangs.
    """
    timeout_ms = scenario.cluster.session_timeout_ms
    for_ms = rounded(draw.uniform(0.1, 3) * timeout_ms)
    shares = draw.one_of(0.3, 0.5, 0.7), draw.one_of(0.2, 0.5)
    scenario = scenario.with_fault(
        HangingMetadata(for_ms, *shares, topic_moment(draw, draw.horizon_ms))
    )
    if draw.chance(0.5):
        scenario = scenario.with_fault(SlowMetadata(draw.between(1, 30)))
    return scenario


def with_topic_repairs(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Add autorecovery and a bookie, and crash one of the bookies for good or for a few seconds.
    Half of these scenarios have slow producers.

    If the bookie counts as lost while a topic's ledger is open, a worker fences that ledger, and
    thereby the broker that writes to it.
    """
    bookies = scenario.cluster.bookies + 1
    scenario = scenario.with_cluster(bookies=bookies, autorecovery=draw.autorecovery(0, 0, 1))
    crash = Crash(
        draw.one_of(*scenario.cluster.names[:3]),
        draw.one_of("kept", "lost"),
        draw.one_of(0.0, 0.0, 3000.0),
        At(float(draw.number(0, 299))),
    )
    if draw.chance(0.5):
        every_ms = draw.one_of(500.0, 1500.0)
        slower = tuple(_slower(step, every_ms) for step in scenario.workload)
        scenario = replace(scenario, workload=slower)
    return scenario.with_fault(crash)


def _slower(step: Step, every_ms: float) -> Step:
    """Slow a producer down so much that a worker repairs the topic's ledger before the broker has
    to replace the lost bookie.
    """
    if isinstance(step, Publish):
        return replace(step, messages=min(step.messages, _MAX_SLOW_MESSAGES), every_ms=every_ms)
    return step


def with_unloads(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Unload the topic, usually a second time before the first unload has finished.

    Meanwhile, the bookies are slow. This delays the unload, because a topic is closed only after
    its pending entries have been stored.
    """
    cluster = scenario.cluster
    faults: list[Fault] = []
    for _ in range(draw.one_of(1, 2, 4)):
        start_ms, slow_ms = draw.uniform(5, 4 * draw.horizon_ms), draw.one_of(5.0, 30.0)
        second_ms = start_ms + draw.uniform(0.1, 1) * slow_ms
        faults += [
            Delay(bookie, "*", slow_ms, 60.0, At(rounded(start_ms))) for bookie in cluster.names
        ]
        for broker in cluster.broker_names:
            faults.append(Unload(broker, when=At(rounded(start_ms))))
            if draw.chance(0.8):
                faults.append(Unload(broker, when=At(rounded(second_ms))))
            elif draw.chance(0.5):
                faults.append(Leave(broker, draw.horizon_ms, At(rounded(second_ms))))
    return scenario.with_fault(*faults)


def _both_publish(messages: int, timeout_ms: float) -> list[Publish]:
    return [
        Publish(messages=messages, window=4, every_ms=timeout_ms / 10, client=name)
        for name in _PRODUCERS
    ]


def topic_moment(draw: ScenarioRandom, horizon_ms: float) -> Moment:
    """Return a time up to twice the horizon, or an event of a broker or of a ledger."""
    if draw.chance(0.4):
        return At(draw.between(0, 2 * horizon_ms))
    return On(draw.one_of(*_EVENTS), draw.number(1, 29))
