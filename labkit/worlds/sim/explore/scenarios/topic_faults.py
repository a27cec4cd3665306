"""What happens to topics and brokers: two owners at a time, slow takeovers, a metadata store that
hangs, lost bookies, unloading.
"""

from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom, rounded
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.scenario.faults import Crash, Delay, Fault, Leave, Partition, Reset, Unload
from labkit.worlds.sim.scenario.metadata_faults import HangingMetadata, SessionLoss, SlowMetadata
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
_FEW = 8


def with_adds_in_doubt(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """A producer's messages reach the bookies late; it connects again in the meantime, and sooner
    or later the broker is gone.
    """
    cluster = scenario.cluster
    broker, start_ms = draw.one_of(*cluster.broker_names), draw.between(10, 100)
    for_ms = draw.between(100, 1000)
    ends_at = At(start_ms + draw.between(100, 1.5 * for_ms))
    ends: tuple[Fault, ...] = (
        Crash(broker, "kept", for_ms, ends_at),
        SessionLoss(broker, ends_at),
        Leave(broker, for_ms, ends_at),
    )
    return scenario.with_fault(
        Partition((broker,), cluster.names, "both", for_ms, At(start_ms)),
        Reset(broker, _PRODUCERS[0], At(start_ms + 10)),
        draw.one_of(*ends),
    )


def with_two_owners(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """A broker loses its session without noticing: one producer stays with it, another finds the
    next owner.  With long ledgers the first owner needs no metadata store for a while.
    """
    scenario = _with_ledgers_of(scenario, draw.one_of(3, 10, 100))
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
    """A broker takes the topic over, and its bookies are slow.  When it has fenced some of them, it
    loses the metadata store until there is another owner, and then continues its takeover.
    """
    scenario = _with_ledgers_of(scenario, draw.one_of(10, 100, 100))
    cluster, broker = scenario.cluster, draw.one_of(*scenario.cluster.broker_names)
    timeout_ms = cluster.session_timeout_ms
    began = On("recovery.started", node=broker)
    fenced = On("fence.answered", draw.one_of(1, 2, 3), node=broker)
    first, second = _both_publish(40, timeout_ms)
    over = On("session.lost", draw.one_of(1, 2), node=broker)
    slow_ms = rounded(draw.uniform(0.8, 1.5) * timeout_ms)
    workload = first, replace(second, when=over)
    return replace(scenario, workload=workload, faults=()).with_fault(
        Crash(
            draw.one_of(*cluster.broker_names), "kept", 30, On("batch.stored", draw.number(1, 10))
        ),
        *(Delay(broker, bookie, slow_ms, 10 * slow_ms, began) for bookie in cluster.names),
        Partition((broker,), (METADATA_SERVER,), "both", 1.5 * timeout_ms, fenced),
    )


def with_hanging_metadata(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """The metadata store hangs for about as long as sessions last; often its answers take long
    before, so that some are under way when it stops.
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
    """Autorecovery, one more bookie, and a bookie that is gone for good or for seconds; half of
    these scenarios have slow producers.

    A bookie is taken for lost while a topic's ledger is open, so that a worker fences the broker
    that writes to it.
    """
    config = draw.autorecovery(0, 0, 1)
    cluster = replace(scenario.cluster, bookies=scenario.cluster.bookies + 1, autorecovery=config)
    gone = Crash(
        draw.one_of(*cluster.names[:3]),
        draw.one_of("kept", "lost"),
        draw.one_of(0.0, 0.0, 3000.0),
        At(float(draw.number(0, 299))),
    )
    workload = scenario.workload
    if draw.chance(0.5):
        every_ms = draw.one_of(500.0, 1500.0)
        workload = tuple(_slower(step, every_ms) for step in workload)
    return replace(scenario, cluster=cluster, workload=workload).with_fault(gone)


def _slower(step: Step, every_ms: float) -> Step:
    """A producer that is slower than a repair: its broker does not notice that a bookie is gone,
    and replaces none before the worker comes.
    """
    if isinstance(step, Publish):
        return replace(step, messages=min(step.messages, _FEW), every_ms=every_ms)
    return step


def with_unloads(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """An administrator unloads the topic, mostly again before that is done.

    The bookies are slow meanwhile, since a topic is closed once what it has pushed is stored.
    """
    cluster = scenario.cluster
    faults: list[Fault] = []
    for _ in range(draw.one_of(1, 2, 4)):
        start_ms, slow_ms = draw.uniform(5, 4 * draw.horizon_ms), draw.one_of(5.0, 30.0)
        again_ms = start_ms + draw.uniform(0.1, 1) * slow_ms
        faults += [
            Delay(bookie, "*", slow_ms, 60.0, At(rounded(start_ms))) for bookie in cluster.names
        ]
        for broker in cluster.broker_names:
            faults.append(Unload(broker, when=At(rounded(start_ms))))
            if draw.chance(0.8):
                faults.append(Unload(broker, when=At(rounded(again_ms))))
            elif draw.chance(0.5):
                faults.append(Leave(broker, draw.horizon_ms, At(rounded(again_ms))))
    return scenario.with_fault(*faults)


def _both_publish(messages: int, timeout_ms: float) -> list[Publish]:
    """Slow producers, which outlive sessions."""
    return [
        Publish(messages=messages, window=4, every_ms=timeout_ms / 10, client=name)
        for name in _PRODUCERS
    ]


def _with_ledgers_of(scenario: Scenario, max_entries: int) -> Scenario:
    broker = scenario.cluster.broker
    managed_ledger = replace(broker.managed_ledger, max_entries_per_ledger=max_entries)
    cluster = replace(scenario.cluster, broker=replace(broker, managed_ledger=managed_ledger))
    return replace(scenario, cluster=cluster)


def topic_moment(draw: ScenarioRandom, horizon_ms: float) -> Moment:
    """A time up to twice the horizon, or an event of a broker or a ledger."""
    if draw.chance(0.4):
        return At(draw.between(0, 2 * horizon_ms))
    return On(draw.one_of(*_EVENTS), draw.number(1, 29))
