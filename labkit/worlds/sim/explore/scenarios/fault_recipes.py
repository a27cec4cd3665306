"""Combines faults with the steps that they affect, and chooses the details at random.

A fault is rarely harmful on its own, but it may become harmful if it coincides with a client's
actions. For example, a ledger is recovered while its writer is alive, while its bookies restart, or
while the ledger is being deleted; or a client needs data that a disk has lost, or a bookie that is
unavailable. The clients of a recipe have distinct names, because the checks identify recoveries by
the client's name.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.scenario.faults import (
    BitRot,
    Crash,
    Delay,
    Fault,
    HangingMetadata,
    LaggingMetadata,
    Loss,
    Partition,
    Pause,
    Reordering,
    SessionLoss,
    SlowStart,
)
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, Moment, On
from labkit.worlds.sim.workload.steps import Delete, Read, Recover, Step, Write

Parts = tuple[list[Step], list[Fault]]

_DELETED_LEDGER = 2
"""The number of the ledger in `with_a_deletion`. The workload does not use this number."""
_ADD_EVENTS = ("add.sent", "add.acked", "lac.advanced")
_RECOVERY_EVENTS = ("recovery.started", "ledger.fenced", "recovery.covered", "recovery.ended")


def with_fault_recipes(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    for recipe in draw.some_of(_RECIPES, draw.one_of(0, 1, 1, 2)):
        steps, faults = recipe(draw, scenario.cluster)
        scenario = scenario.with_steps(*steps).with_fault(*faults)
    return scenario


def with_lagging_metadata(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Make one bookie's metadata server lag behind the others."""
    lag_ms = draw.between(0.05, 1) * draw.horizon_ms
    return scenario.with_fault(LaggingMetadata(draw.bookie(), lag_ms))


def with_metadata_trouble(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Make the metadata store hang for about a session timeout, or make a bookie lose its session
    while the bookie starts. These faults are more frequent in scenarios with autorecovery, which
    reacts to both.
    """
    if draw.chance(0.3):
        return scenario.with_fault(*_session_lost_during_start(draw))
    return _hanging_metadata(scenario, draw)


def _hanging_metadata(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Make the metadata store hang.

    If autorecovery runs, the lost-bookie delay is usually 0, because a longer delay would hide a
    bug that reads the list of bookies too early. Half of these scenarios have no other faults,
    because other faults can cause the auditor's requests to fail, which makes the auditor restart.
    """
    config = scenario.cluster.autorecovery
    if config is not None and draw.chance(0.7):
        without_delay = replace(config, lost_bookie_recovery_delay_s=0)
        scenario = scenario.with_cluster(autorecovery=without_delay)
    for_ms = draw.between(0.7, 3) * scenario.cluster.session_timeout_ms
    shares = draw.one_of(0.3, 0.5, 0.7), draw.one_of(0.2, 0.5)
    hang = HangingMetadata(for_ms, *shares, At(draw.between(0, draw.horizon_ms / 3)))
    if config is not None and draw.chance(0.5):
        write = Write(entries=40, every_ms=draw.horizon_ms / 40)
        scenario = replace(scenario, workload=(write,), faults=())
    return scenario.with_fault(hang)


def _session_lost_during_start(draw: ScenarioRandom) -> list[Fault]:
    bookie, when = draw.bookie(), draw.moment()
    return [
        SlowStart(bookie, draw.between(5, 50)),
        Crash(bookie, draw.unsynced(), draw.ms(draw.horizon_ms / 4), when),
        SessionLoss(bookie, On("bookie.registered", node=bookie)),
    ]


def _takeover(draw: ScenarioRandom, _: Cluster) -> Parts:
    """Recover the ledger while its writer is alive.

    The recovering client fails, and another client continues the recovery. One bookie is poorly
    connected to the writer and to the first recovering client.
    """
    far = draw.bookie()

    def event() -> Moment:
        return draw.event(*_RECOVERY_EVENTS, "ensemble.changing")

    second = draw.event(*_RECOVERY_EVENTS, "ensemble.changing", "node.killed")
    steps: list[Step] = [
        Recover(client="s", when=draw.event(*_ADD_EVENTS)),
        Recover(client="t", when=second),
    ]
    troubles: tuple[tuple[float, tuple[Callable[[], Fault], ...]], ...] = (
        (
            0.7,
            (
                lambda: Crash("s", "lost", draw.ms(), event()),
                lambda: Pause("s", draw.ms(), event()),
                lambda: Loss("s", far, 0.5),
                lambda: Reordering("s", far, 0.5),
            ),
        ),
        (
            0.7,
            (
                lambda: Pause("w", draw.ms(), event()),
                lambda: Partition(("w",), ("zk",), "both", draw.ms(), event()),
                lambda: Delay("w", far, draw.ms(30)),
                lambda: Delay("w", far, draw.ms(30)),
            ),
        ),
        (0.4, (lambda: Crash(draw.bookie(), draw.unsynced(), draw.ms(), event()),)),
    )
    return steps, [draw.one_of(*faults)() for share, faults in troubles if draw.chance(share)]


def _restart(draw: ScenarioRandom, cluster: Cluster) -> Parts:
    """Restart most bookies, together or one by one, often while the ledger is being recovered."""
    fate, down_ms = draw.unsynced(), draw.ms(draw.horizon_ms / 5)
    names = [name for name in cluster.names if draw.chance(0.8)]
    steps: list[Step] = [Recover(client="u", when=draw.event(*_ADD_EVENTS))]
    if draw.chance(0.7):
        is_soon = draw.chance(0.7)
        when = draw.event(*_RECOVERY_EVENTS, "ledger.closed") if is_soon else draw.moment()
        return steps, [Crash(name, fate, down_ms, when) for name in names]
    first, gap_ms = draw.time(), draw.ms(draw.horizon_ms / 4)
    return steps, [
        Crash(name, fate, down_ms, At(first.ms + index * gap_ms))
        for index, name in enumerate(names)
    ]


def _rotten_disk(draw: ScenarioRandom, cluster: Cluster) -> Parts:
    rotten = At(draw.between(1, 4) * cluster.flush_interval_ms)
    needed = At(rotten.ms + draw.ms())
    faults: list[Fault] = [
        BitRot(draw.bookie(), "entry log", draw.position_in_file(), rotten, draw.one_of(1, 512))
        for _ in range(draw.one_of(1, 1, 2))
    ]
    if draw.chance(0.5):
        faults.append(Crash("w", "lost", when=At(draw.between(0, rotten.ms))))
    return [_reads_or_recovers(draw, "m", needed)], faults


def _absence(draw: ScenarioRandom, cluster: Cluster) -> Parts:
    """Make a bookie unavailable for about a session timeout, while a client needs that bookie."""
    absent, when = draw.bookie(), draw.moment()
    for_ms = draw.between(0, 4) * cluster.session_timeout_ms
    faults: tuple[Fault, ...] = (
        Crash(absent, draw.unsynced(), for_ms, when),
        Partition((absent,), (), draw.one_of("both", "in", "out"), for_ms, when),
    )
    return [_reads_or_recovers(draw, "n", draw.one_of(when, draw.moment()))], [draw.one_of(*faults)]


def with_a_deletion(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Add a ledger that is deleted, often after a recovery, while its writer pauses.

    The writer resumes at about the time at which the bookies have garbage-collected the ledger. In
    the meantime, other recipes or the storm may restart some of the bookies.
    """
    deleted, gc_wait_ms = At(draw.between(20, 200)), scenario.cluster.gc_wait_time_ms
    size, quorum = draw.one_of((1, 1), (2, 2), (3, 2), (3, 3))
    size = min(size, scenario.cluster.bookies)
    writer = Write(
        _DELETED_LEDGER,
        draw.one_of(1, 2, 2, 5),
        size,
        size,
        min(quorum, size),
        pause_ms=deleted.ms + draw.between(gc_wait_ms / 2, gc_wait_ms * 2.5),
        client="c",
    )
    steps: list[Step] = [writer, Delete(_DELETED_LEDGER, "d", deleted)]
    if draw.chance(0.6):
        steps.append(Recover(_DELETED_LEDGER, "e", At(draw.between(0, deleted.ms))))
    return scenario.with_steps(*steps)


def _reads_or_recovers(draw: ScenarioRandom, client: str, when: Moment) -> Step:
    steps: tuple[Step, ...] = (
        Recover(client=client, when=when),
        Read(polls=draw.number(1, 8), poll_ms=draw.ms(), client=client, when=when),
    )
    return draw.one_of(*steps)


_RECIPES = (_takeover, _restart, _rotten_disk, _absence)
