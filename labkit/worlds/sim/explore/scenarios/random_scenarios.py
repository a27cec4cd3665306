"""Generates complete scenarios from a seed: cluster, workload, faults, and random decisions.

The scenarios do not target individual bugs. They create conditions in which bugs tend to show up:
clusters without a spare bookie, ledgers that are so small that the last entries matter, ledgers
that are recovered by other clients, and simultaneous faults. A search that finds the known bugs may
therefore also find unknown ones.
"""

from collections.abc import Callable

from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.explore.scenarios.variations import LEDGER_VARIATIONS, with_variations
from labkit.worlds.sim.scenario.faults import Duplication, Fault, Loss, Reordering
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, Moment
from labkit.worlds.sim.workload.steps import Delete, Read, Recover, Step, Write

_QUORUMS = (
    *((3, 3, 2),) * 4,
    *((1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 2, 2), (2, 2, 2), (3, 3, 3), (3, 2, 1), (3, 2, 2)),
    *((4, 3, 2), (4, 2, 2), (5, 3, 2)),
)
"""Combinations of E, Qw and Qa. The usual one is drawn more often."""

_NETWORKS: tuple[tuple[Fault, ...], ...] = (
    (),
    (),
    (Loss(share=0.05),),
    (Reordering(share=0.2),),
    (Reordering(share=0.2),),
    (Duplication(share=0.1),),
)
"""Faults that affect all links from the start until the epilogue."""

_SLOW = 50.0
"""The factor by which everything takes longer in a slow scenario."""


def random_scenario(seed: int) -> Scenario:
    """Return the scenario for the seed.

    A quarter of the scenarios are slow: they last seconds instead of milliseconds, and use
    autorecovery.
    """
    draw = ScenarioRandom("drawn", seed, Cluster(), ("w",), 60.0)
    pace = _SLOW if draw.chance(0.25) else 1.0
    quorums = draw.one_of(*_QUORUMS)
    bookies = quorums[0] + draw.one_of(0, 0, 1, 2)
    cluster = _cluster(draw, bookies) if pace == 1 else _slow_cluster(draw, max(3, bookies))
    horizon_ms = draw.one_of(20.0, 100.0) * pace
    calm = Scenario(
        cluster,
        _workload(draw, quorums, pace),
        draw.one_of(*_NETWORKS),
        late_share=draw.one_of(0.03, 0.1, 0.4),
        slow_share=draw.one_of(0.0, 0.02, 0.2),
        limit_s=7.0 if pace == 1 else 30.0,
    )
    scenario = with_variations(calm, LEDGER_VARIATIONS, seed, horizon_ms)
    return storm(scenario, seed, draw.one_of(0, 0, 1, 2, 3, 5), horizon_ms)


def _cluster(draw: ScenarioRandom, bookies: int) -> Cluster:
    return Cluster(
        bookies,
        flush_interval_ms=draw.one_of(3, 10, 30, 100),
        gc_wait_time_ms=draw.one_of(50, 1000),
        session_timeout_ms=draw.one_of(200, 4000),
    )


def _slow_cluster(draw: ScenarioRandom, bookies: int) -> Cluster:
    return Cluster(
        bookies,
        flush_interval_ms=500,
        session_timeout_ms=500,
        autorecovery=draw.autorecovery(0, 1, 3),
    )


def _workload(draw: ScenarioRandom, quorums: tuple[int, int, int], pace: float) -> tuple[Step, ...]:
    steps: list[Step] = [_write(draw, quorums, pace, 0, "w")]
    if draw.chance(0.2):
        steps.append(_write(draw, quorums, pace, 1, "v"))
    others: tuple[tuple[float, Callable[[], Step]], ...] = (
        (0.5, lambda: Read(polls=draw.number(1, 7), poll_ms=3 * pace, when=_when(draw, pace))),
        (0.5, lambda: Recover(client="x", when=_when(draw, pace))),
        (0.1, lambda: Recover(client="y", when=_when(draw, pace))),
        (0.1, lambda: Delete(when=_when(draw, pace))),
    )
    steps += [step() for share, step in others if draw.chance(share)]
    return tuple(steps)


def _write(
    draw: ScenarioRandom, quorums: tuple[int, int, int], pace: float, ledger: int, client: str
) -> Write:
    most, every_ms = draw.one_of(
        (3, 0.0), (6, 0.0), (40, 0.0), (12, 1.0), (6, 3.0), (5, 200.0), (3, 200.0)
    )
    if pace != 1:
        every_ms = pace * draw.one_of(1.0, 3.0, 4.0)
    return Write(
        ledger,
        draw.number(1, most),
        *quorums,
        window=draw.one_of(1, 4, 10),
        every_ms=every_ms,
        close=draw.chance(0.5),
        client=client,
    )


def _when(draw: ScenarioRandom, pace: float) -> Moment:
    if draw.chance(0.3):
        return At(draw.between(0, 60 * pace))
    return draw.event("add.sent", "add.acked", "lac.advanced")
