"""Adds machine failures that storms do not contain: replaced disks, failing reads, disks that fill
up during a sync, and wrong clocks.
"""

from collections.abc import Callable

from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.scenario.faults import (
    ClockSkew,
    Crash,
    FailingRead,
    Fault,
    FullAtSync,
    PowerCut,
    ReplacedDisks,
    Restart,
)
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At


def with_bad_machines(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Add failures of one or two of the kinds described above.

    In scenarios with brokers, no disks are replaced, because a bookie with replaced disks never
    serves again, and a topic may need all of its bookies.
    """
    candidates = _KINDS_WITH_BROKERS if scenario.cluster.brokers else _KINDS
    kinds = draw.some_of(candidates, draw.one_of(1, 1, 2))
    return scenario.with_fault(*(fault for kind in kinds for fault in kind(draw)))


def _replaced_disks(draw: ScenarioRandom) -> list[Fault]:
    """Replace the disks of one of the first bookies, or of two of them at about the same time.

    Often the writer dies at the same moment, so that a recovery cannot find the end of the ledger
    without entries that these bookies have lost.
    """
    when, which = draw.moment(), draw.one_of("all", "all", "journal", "ledgers")
    faults: list[Fault] = [
        ReplacedDisks(name, which, draw.ms(draw.horizon_ms / 4), when)
        for name in dict.fromkeys((draw.first_bookie(), draw.first_bookie()))
    ]
    if draw.chance(0.6):
        faults.append(Crash("w", "lost", when=when))
    return faults


def _failing_reads(draw: ScenarioRandom) -> list[Fault]:
    bookie, when, for_ms = draw.bookie(), draw.moment(), draw.ms()
    faults: list[Fault] = [FailingRead(bookie, for_ms, when)]
    if draw.chance(0.4):
        faults.append(Crash(bookie, draw.unsynced(), draw.ms(for_ms), draw.moment()))
        faults.append(Restart(bookie, At(draw.horizon_ms)))
    return faults


def _full_at_syncs(draw: ScenarioRandom) -> list[Fault]:
    """Make syncs fail because the disk is full. Often the power fails after space has become
    available again.
    """
    bookie, at, for_ms = draw.bookie(), draw.between(0, draw.horizon_ms), draw.ms()
    faults: list[Fault] = [FullAtSync(bookie, for_ms, At(at))]
    if draw.chance(0.6):
        late = At(at + for_ms + draw.ms())
        ends: tuple[Fault, ...] = (
            Crash(bookie, draw.unsynced(), draw.ms(), late),
            PowerCut(draw.unsynced(), draw.ms(), late),
        )
        faults.append(draw.one_of(*ends))
    return faults


def _wrong_clocks(draw: ScenarioRandom) -> list[Fault]:
    """Set clocks off by seconds, hours or years, and make some of them run at the wrong rate."""
    return [
        ClockSkew(
            draw.node(),
            draw.one_of(1.0, 1.0, 0.9, 1.1),
            draw.one_of(-1, 1) * draw.one_of(2000, 10**7, 10**11),
            draw.one_of(0.0, draw.ms()),
            draw.one_of(At(0), draw.moment()),
        )
        for _ in range(draw.one_of(1, 2))
    ]


_KINDS_WITH_BROKERS: tuple[Callable[[ScenarioRandom], list[Fault]], ...] = (
    _failing_reads,
    _full_at_syncs,
    _wrong_clocks,
)
_KINDS = (_replaced_disks, *_KINDS_WITH_BROKERS)
