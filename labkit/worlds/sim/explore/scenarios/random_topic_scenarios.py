"""Scenarios with brokers, drawn whole from a seed: owners come and go while producers send.

A producer reaches a broker by TCP, which neither loses nor reorders messages; a broker that got
only the second of two sends could not know of the first.  So these links are cut, reset and slow,
and nothing worse.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from labkit.system.topic.config import ManagedLedgerConfig
from labkit.worlds.sim.explore.scenarios.bad_machines import with_bad_machines
from labkit.worlds.sim.explore.scenarios.consumers import with_consumers
from labkit.worlds.sim.explore.scenarios.keys import with_keys
from labkit.worlds.sim.explore.scenarios.other_settings import with_other_settings
from labkit.worlds.sim.explore.scenarios.scenario_random import Lots, rounded
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.explore.scenarios.topic_repairs import with_repairs
from labkit.worlds.sim.explore.scenarios.topic_upkeep import with_topic_upkeep
from labkit.worlds.sim.explore.scenarios.unloads import with_unloads
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.scenario.faults import Crash, Delay, Fault, Leave, Partition, Pause, Reset
from labkit.worlds.sim.scenario.metadata_faults import HangingMetadata, SessionLoss, SlowMetadata
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import BROKER, Cluster
from labkit.worlds.sim.settings.triggers import At, Moment, On
from labkit.worlds.sim.workload.publish import Publish

_QUORUMS = (3, 3, 2), (3, 3, 2), (2, 2, 2), (3, 2, 2), (3, 3, 3)
_TURNS = (
    *("add.sent", "add.acked", "batch.stored", "batch.stored", "message.acked"),
    *("bundle.acquired", "recovery.started", "ledger.rolled", "topic.opened"),
    *("ledger.closed", "ledger.created"),
)
_PRODUCERS = "p", "q"
_SLOW_TAKEOVERS = 0.1
_HANGING = 0.15


def drawn_topic(seed: int) -> Scenario:
    """The scenario of the seed: two or three brokers, and one or two producers."""
    lots = random.Random(f"topic {seed}")
    cluster = _cluster(lots)
    pace = lots.choice((1.0, 10.0))
    horizon_ms = 60 * pace
    scenario = Scenario(
        cluster,
        tuple(_publish(lots, name, pace) for name in _PRODUCERS[: lots.choice((1, 1, 2))]),
        tuple(_fault(lots, cluster, horizon_ms) for _ in range(lots.randint(1, 5))),
        late_share=lots.choice((0.03, 0.1, 0.4)),
        slow_share=lots.choice((0.0, 0.02, 0.2)),
        limit_s=20.0,
    )
    scenario = lots.choice((_as_it_is, _as_it_is, _with_two_owners, _with_adds_in_doubt))(
        lots, scenario
    )
    takeover = random.Random(f"takeover {seed}")
    if takeover.random() < _SLOW_TAKEOVERS:
        scenario = _with_a_slow_takeover(takeover, scenario)
    hanging = random.Random(f"hanging {seed}")
    if hanging.random() < _HANGING:
        scenario = _with_hanging_metadata(hanging, scenario, horizon_ms)
    scenario = storm(scenario, seed, lots.choice((0, 0, 1, 3)), horizon_ms)
    scenario = with_repairs(with_consumers(scenario, seed, horizon_ms), seed)
    scenario = with_topic_upkeep(with_bad_machines(scenario, seed, horizon_ms), seed)
    scenario = with_unloads(with_keys(scenario, seed), seed, horizon_ms)
    return with_other_settings(scenario, Lots(f"settings {seed}", cluster, (), horizon_ms))


def _as_it_is(_: random.Random, scenario: Scenario) -> Scenario:
    return scenario


def _with_adds_in_doubt(lots: random.Random, scenario: Scenario) -> Scenario:
    """A producer's messages reach the bookies late; it connects again in the meantime, and sooner
    or later the broker is gone.
    """
    cluster = scenario.cluster
    broker, start_ms = lots.choice(cluster.broker_names), rounded(lots.uniform(10, 100))
    for_ms = rounded(lots.uniform(100, 1000))
    ends_at = At(start_ms + rounded(lots.uniform(100, 1.5 * for_ms)))
    ends: tuple[Fault, ...] = (
        Crash(broker, "kept", for_ms, ends_at),
        SessionLoss(broker, ends_at),
        Leave(broker, for_ms, ends_at),
    )
    return scenario.with_fault(
        Partition((broker,), cluster.names, "both", for_ms, At(start_ms)),
        Reset(broker, _PRODUCERS[0], At(start_ms + 10)),
        lots.choice(ends),
    )


def _with_two_owners(lots: random.Random, scenario: Scenario) -> Scenario:
    """A broker loses its session without noticing: one producer stays with it, another finds the
    next owner.  With long ledgers the first owner needs no metadata store for a while.
    """
    scenario = _with_ledgers_of(scenario, lots.choice((3, 10, 100)))
    timeout_ms = scenario.cluster.session_timeout_ms
    broker, for_ms = lots.choice(scenario.cluster.broker_names), 3.0 * timeout_ms
    when = _moment(lots, timeout_ms)
    first, second = _both_publish(30, timeout_ms)
    cut_off: tuple[str, ...] = (METADATA_SERVER, _PRODUCERS[0])
    if lots.random() < 0.5:
        second, cut_off = replace(second, when=On("session.lost", node=broker)), cut_off[:1]
    return replace(scenario, workload=(first, second)).with_fault(
        *(Partition((broker,), (other,), "both", for_ms, when) for other in cut_off)
    )


def _both_publish(messages: int, timeout_ms: float) -> list[Publish]:
    """Slow producers, which outlive sessions."""
    return [
        Publish(messages=messages, window=4, every_ms=timeout_ms / 10, client=name)
        for name in _PRODUCERS
    ]


def _with_a_slow_takeover(lots: random.Random, scenario: Scenario) -> Scenario:
    """A broker takes the topic over, and its bookies are slow.  When it has fenced some of them, it
    loses the metadata store until there is another owner, and then continues its takeover.
    """
    scenario = _with_ledgers_of(scenario, lots.choice((10, 100, 100)))
    cluster, broker = scenario.cluster, lots.choice(scenario.cluster.broker_names)
    timeout_ms = cluster.session_timeout_ms
    began = On("recovery.started", node=broker)
    fenced = On("fence.answered", lots.choice((1, 2, 3)), node=broker)
    first, second = _both_publish(40, timeout_ms)
    over = On("session.lost", lots.choice((1, 2)), node=broker)
    slow_ms = rounded(lots.uniform(0.8, 1.5) * timeout_ms)
    workload = first, replace(second, when=over)
    return replace(scenario, workload=workload, faults=()).with_fault(
        Crash(
            lots.choice(cluster.broker_names), "kept", 30, On("batch.stored", lots.randint(1, 10))
        ),
        *(Delay(broker, bookie, slow_ms, 10 * slow_ms, began) for bookie in cluster.names),
        Partition((broker,), (METADATA_SERVER,), "both", 1.5 * timeout_ms, fenced),
    )


def _with_hanging_metadata(lots: random.Random, scenario: Scenario, horizon_ms: float) -> Scenario:
    """The metadata store hangs for about as long as sessions last; often its answers take long
    before, so that some are under way when it stops.
    """
    timeout_ms = scenario.cluster.session_timeout_ms
    for_ms = rounded(lots.uniform(0.1, 3) * timeout_ms)
    shares = lots.choice((0.3, 0.5, 0.7)), lots.choice((0.2, 0.5))
    scenario = scenario.with_fault(HangingMetadata(for_ms, *shares, _moment(lots, horizon_ms)))
    if lots.random() < 0.5:
        scenario = scenario.with_fault(SlowMetadata(rounded(lots.uniform(1, 30))))
    return scenario


def _with_ledgers_of(scenario: Scenario, max_entries: int) -> Scenario:
    broker = scenario.cluster.broker
    managed_ledger = replace(broker.managed_ledger, max_entries_per_ledger=max_entries)
    cluster = replace(scenario.cluster, broker=replace(broker, managed_ledger=managed_ledger))
    return replace(scenario, cluster=cluster)


def _cluster(lots: random.Random) -> Cluster:
    bookies = lots.randint(3, 5)
    ensemble, write_quorum, ack_quorum = lots.choice(_QUORUMS)
    return Cluster(
        bookies=bookies,
        flush_interval_ms=lots.choice((10, 100)),
        # A ledger that is deleted and collected is no longer fenced: its writer must be gone by
        # then.
        gc_wait_time_ms=100_000,
        session_timeout_ms=lots.choice((200, 1000)),
        brokers=lots.choice((2, 2, 3)),
        broker=replace(
            BROKER,
            # Pulsar's pauses, of 15 to 60 s, are longer than a run.
            dispatcher_read_failure_backoff_initial_ms=100,
            dispatcher_read_failure_backoff_max_ms=1000,
            managed_ledger=ManagedLedgerConfig(
                ensemble_size=ensemble,
                write_quorum=write_quorum,
                ack_quorum=ack_quorum,
                max_entries_per_ledger=lots.choice((3, 10)),
                cursor_persist_interval_ms=lots.choice((0, 20)),
            ),
        ),
    )


def _publish(lots: random.Random, producer: str, pace: float) -> Publish:
    return Publish(
        messages=lots.randint(4, 40),
        batch_size=lots.choice((1, 1, 3)),
        window=lots.choice((1, 4, 10)),
        every_ms=pace * lots.choice((0.0, 1.0, 3.0)),
        client=producer,
    )


def _fault(lots: random.Random, cluster: Cluster, horizon_ms: float) -> Fault:
    broker, bookie = lots.choice(cluster.broker_names), lots.choice(cluster.names)
    peer = lots.choice((METADATA_SERVER, bookie, _PRODUCERS[0]))
    for_ms = rounded(lots.uniform(1, 3 * horizon_ms))
    direction = lots.choice(("both", "in", "out"))
    when = _moment(lots, horizon_ms)
    makers: tuple[Callable[[], Fault], ...] = (
        lambda: Leave(broker, for_ms, when),
        lambda: Crash(broker, lots.choice(("kept", "lost")), for_ms, when),
        lambda: SessionLoss(broker, when),
        lambda: SessionLoss(broker, when),
        lambda: Pause(broker, for_ms, when),
        lambda: Partition((broker,), (METADATA_SERVER,), direction, for_ms, when),
        lambda: Partition((broker,), (peer,), direction, for_ms, when),
        lambda: Partition((broker,), cluster.names, direction, for_ms, when),
        lambda: Reset(broker, peer, when),
        lambda: Reset(broker, METADATA_SERVER, when),
        lambda: Delay(broker, peer, rounded(lots.uniform(1, 30)), for_ms, when),
        lambda: Delay(peer, broker, rounded(lots.uniform(1, 30)), for_ms, when),
    )
    return lots.choice(makers)()


def _moment(lots: random.Random, horizon_ms: float) -> Moment:
    if lots.random() < 0.4:
        return At(rounded(lots.uniform(0, 2 * horizon_ms)))
    return On(lots.choice(_TURNS), lots.randrange(1, 30))
