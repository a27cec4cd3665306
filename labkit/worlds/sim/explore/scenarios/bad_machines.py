"""Machines that fail in rarer ways than in a storm: replaced disks, reads that fail, disks that are
full at the sync, and clocks that show another time.
"""

from collections.abc import Callable

from labkit.worlds.sim.explore.scenarios.scenario_random import Lots
from labkit.worlds.sim.scenario.faults import ClockSkew, Crash, Fault, PowerCut, Restart
from labkit.worlds.sim.scenario.machine_faults import FailingRead, FullAtSync, ReplacedDisks
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At

_SHARE = 1 / 6


def with_bad_machines(scenario: Scenario, seed: int, horizon_ms: float) -> Scenario:
    """The scenario, or, for one in six, the same with one or two kinds of such faults.

    Where there are brokers no disks are replaced: such a bookie never serves again, and a topic may
    need each of them.
    """
    brokers = scenario.cluster.broker_names
    clients = dict.fromkeys((*brokers, *(step.client for step in scenario.workload)))
    lots = Lots(f"machines {seed}", scenario.cluster, tuple(clients), horizon_ms)
    if not lots.chance(_SHARE):
        return scenario
    kinds = lots.some_of(_BELOW_BROKERS if brokers else _KINDS, lots.one_of(1, 1, 2))
    return scenario.with_fault(*(fault for kind in kinds for fault in kind(lots)))


def _replaced_disks(lots: Lots) -> list[Fault]:
    """The disks of one bookie, or of some of the first ones at about the same time; the writer is
    often gone by then, so that what they deny decides where the ledger ends.
    """
    when, which = lots.moment(), lots.one_of("all", "all", "journal", "ledgers")
    faults: list[Fault] = [
        ReplacedDisks(name, which, lots.ms(lots.horizon_ms / 4), when)
        for name in dict.fromkeys((lots.first_bookie(), lots.first_bookie()))
    ]
    if lots.chance(0.6):
        faults.append(Crash("w", "lost", when=when))
    return faults


def _failing_reads(lots: Lots) -> list[Fault]:
    """While reads fail, the bookie often starts."""
    bookie, when, for_ms = lots.bookie(), lots.moment(), lots.ms()
    faults: list[Fault] = [FailingRead(bookie, for_ms, when)]
    if lots.chance(0.4):
        faults.append(Crash(bookie, lots.fate(), lots.ms(for_ms), lots.moment()))
        faults.append(Restart(bookie, At(lots.horizon_ms)))
    return faults


def _full_at_syncs(lots: Lots) -> list[Fault]:
    """Often the power fails when the disk has space again."""
    bookie, at, for_ms = lots.bookie(), lots.between(0, lots.horizon_ms), lots.ms()
    faults: list[Fault] = [FullAtSync(bookie, for_ms, At(at))]
    if lots.chance(0.6):
        late = At(at + for_ms + lots.ms())
        ends: tuple[Fault, ...] = (
            Crash(bookie, lots.fate(), lots.ms(), late),
            PowerCut(lots.fate(), lots.ms(), late),
        )
        faults.append(lots.one_of(*ends))
    return faults


def _wrong_clocks(lots: Lots) -> list[Fault]:
    """Clocks that are off by seconds, hours or years, and run at the right rate or not."""
    return [
        ClockSkew(
            lots.node(),
            lots.one_of(1.0, 1.0, 0.9, 1.1),
            lots.one_of(-1, 1) * lots.one_of(2000, 10**7, 10**11),
            lots.one_of(0.0, lots.ms()),
            lots.one_of(At(0), lots.moment()),
        )
        for _ in range(lots.one_of(1, 2))
    ]


_BELOW_BROKERS: tuple[Callable[[Lots], list[Fault]], ...] = (
    _failing_reads,
    _full_at_syncs,
    _wrong_clocks,
)
_KINDS = (_replaced_disks, *_BELOW_BROKERS)
