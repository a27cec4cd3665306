"""Bookies that an operator empties after a recovery, and an old writer that goes on.

Everything that these bookies had is lost, so the scenario has no other ledger.
"""

from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.scenario_random import Lots
from labkit.worlds.sim.scenario.faults import Fault
from labkit.worlds.sim.scenario.machine_faults import Reformatted
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.steps import Recover, Write

_SHARE = 1 / 50
_RETURN_MS = 100.0
"""More than a bookie needs to start, mostly."""


def with_formatted_bookies(scenario: Scenario, lots: Lots) -> Scenario:
    """The scenario, or, for one in fifty, another one in the same cluster: a ledger is recovered
    while its writer pauses, and most or all of its bookies are formatted before its last add.
    """
    if not lots.chance(_SHARE):
        return scenario
    size = min(3, scenario.cluster.bookies)
    quorum = lots.number(1, size)
    recovered = At(lots.between(0, lots.horizon_ms))
    pause_ms = _RETURN_MS + lots.between(1, 3) * lots.horizon_ms
    write = Write(
        0, lots.one_of(1, 1, 2, 4), size, size, quorum, pause_ms=pause_ms, close=lots.chance(0.5)
    )
    when = lots.one_of(On("ledger.closed"), On("ledger.closed"), lots.turn("recovery.ended"))
    formatted: list[Fault] = [
        Reformatted(name, lots.ms(), when)
        for name in scenario.cluster.names[:size]
        if lots.chance(0.9)
    ]
    steps = write, Recover(client="g", when=recovered)
    return replace(scenario, workload=steps, faults=tuple(formatted))
