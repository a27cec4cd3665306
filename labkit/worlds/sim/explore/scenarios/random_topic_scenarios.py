"""Generates complete scenarios with brokers from a seed. In these scenarios, topics change owners
while producers send messages.

A producer is connected to a broker over TCP, which neither loses nor reorders messages. A broker
that received only the second of two messages would have no way to know about the first. The links
between producers and brokers are therefore only cut, reset or slowed down.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.system.topic.config import ManagedLedgerConfig
from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.explore.scenarios.topic_faults import (
    topic_moment,
    with_adds_in_doubt,
    with_two_owners,
)
from labkit.worlds.sim.explore.scenarios.variations import (
    TOPIC_VARIATIONS,
    TOPIC_VARIATIONS_AFTER_STORM,
    with_variations,
)
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.scenario.faults import (
    Crash,
    Delay,
    Fault,
    Leave,
    Partition,
    Pause,
    Reset,
    SessionLoss,
)
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import BROKER, Cluster
from labkit.worlds.sim.workload.publish import Publish

_QUORUMS = (3, 3, 2), (3, 3, 2), (2, 2, 2), (3, 2, 2), (3, 3, 3)
_PRODUCERS = "p", "q"


def random_topic_scenario(seed: int) -> Scenario:
    """Return the scenario for the seed: two or three brokers, and one or two producers."""
    draw = ScenarioRandom("topic", seed, Cluster(), _PRODUCERS, 60.0)
    cluster = _cluster(draw)
    pace = draw.one_of(1.0, 10.0)
    horizon_ms = 60 * pace
    scenario = Scenario(
        cluster,
        tuple(_publish(draw, name, pace) for name in _PRODUCERS[: draw.one_of(1, 1, 2)]),
        tuple(_fault(draw, cluster, horizon_ms) for _ in range(draw.number(1, 5))),
        late_share=draw.one_of(0.03, 0.1, 0.4),
        slow_share=draw.one_of(0.0, 0.02, 0.2),
        limit_s=20.0,
    )
    owners = draw.one_of(None, None, with_two_owners, with_adds_in_doubt)
    if owners is not None:
        scenario = owners(scenario, draw)
    scenario = with_variations(scenario, TOPIC_VARIATIONS, seed, horizon_ms)
    scenario = storm(scenario, seed, draw.one_of(0, 0, 1, 3), horizon_ms)
    return with_variations(scenario, TOPIC_VARIATIONS_AFTER_STORM, seed, horizon_ms)


def _cluster(draw: ScenarioRandom) -> Cluster:
    bookies = draw.number(3, 5)
    ensemble, write_quorum, ack_quorum = draw.one_of(*_QUORUMS)
    return Cluster(
        bookies=bookies,
        flush_interval_ms=draw.one_of(10, 100),
        # Once a ledger has been deleted and garbage-collected, it is no longer fenced, so its
        # writer must have ended by then.
        gc_wait_time_ms=100_000,
        session_timeout_ms=draw.one_of(200, 1000),
        brokers=draw.one_of(2, 2, 3),
        broker=replace(
            BROKER,
            # Pulsar's backoff times of 15 to 60 s are longer than a run.
            dispatcher_read_failure_backoff_initial_ms=100,
            dispatcher_read_failure_backoff_max_ms=1000,
            managed_ledger=ManagedLedgerConfig(
                ensemble_size=ensemble,
                write_quorum=write_quorum,
                ack_quorum=ack_quorum,
                max_entries_per_ledger=draw.one_of(3, 10),
                cursor_persist_interval_ms=draw.one_of(0, 20),
            ),
        ),
    )


def _publish(draw: ScenarioRandom, producer: str, pace: float) -> Publish:
    return Publish(
        messages=draw.number(4, 40),
        batch_size=draw.one_of(1, 1, 3),
        window=draw.one_of(1, 4, 10),
        every_ms=pace * draw.one_of(0.0, 1.0, 3.0),
        client=producer,
    )


def _fault(draw: ScenarioRandom, cluster: Cluster, horizon_ms: float) -> Fault:
    broker, bookie = draw.one_of(*cluster.broker_names), draw.one_of(*cluster.names)
    peer = draw.one_of(METADATA_SERVER, bookie, _PRODUCERS[0])
    for_ms = draw.between(1, 3 * horizon_ms)
    direction = draw.one_of("both", "in", "out")
    when = topic_moment(draw, horizon_ms)
    makers: tuple[Callable[[], Fault], ...] = (
        lambda: Leave(broker, for_ms, when),
        lambda: Crash(broker, draw.one_of("kept", "lost"), for_ms, when),
        lambda: SessionLoss(broker, when),
        lambda: SessionLoss(broker, when),
        lambda: Pause(broker, for_ms, when),
        lambda: Partition((broker,), (METADATA_SERVER,), direction, for_ms, when),
        lambda: Partition((broker,), (peer,), direction, for_ms, when),
        lambda: Partition((broker,), cluster.names, direction, for_ms, when),
        lambda: Reset(broker, peer, when),
        lambda: Reset(broker, METADATA_SERVER, when),
        lambda: Delay(broker, peer, draw.between(1, 30), for_ms, when),
        lambda: Delay(peer, broker, draw.between(1, 30), for_ms, when),
    )
    return draw.one_of(*makers)()
