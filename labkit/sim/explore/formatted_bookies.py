"""Bookies that an operator empties after a recovery, and an old writer that goes on.

Everything that these bookies had is lost, so the scenario has no other ledger.
"""

from dataclasses import replace

from labkit.sim.explore.lots import Lots
from labkit.sim.faults import Fault
from labkit.sim.machine_faults import Reformatted
from labkit.sim.moments import At
from labkit.sim.scenario import Scenario
from labkit.sim.workload import Recover, Write

_SHARE = 1 / 50


def with_formatted_bookies(scenario: Scenario, lots: Lots) -> Scenario:
    """The scenario, or, for one in fifty, another one in the same cluster: a ledger is recovered
    while its writer pauses, and most of its bookies are formatted before the writer's last add.
    """
    if not lots.chance(_SHARE):
        return scenario
    size = min(3, scenario.cluster.bookies)
    quorum = lots.number(1, size)
    tenth_ms = lots.horizon_ms / 10
    recovered_ms = lots.between(tenth_ms, 3 * tenth_ms)
    formatted_ms = lots.between(recovered_ms, 6 * tenth_ms)
    pause_ms = lots.between(formatted_ms, 12 * tenth_ms)
    write = Write(
        0, lots.one_of(1, 1, 2, 4), size, size, quorum, pause_ms=pause_ms, close=lots.chance(0.5)
    )
    formatted: list[Fault] = [
        Reformatted(name, lots.ms(tenth_ms), At(formatted_ms + lots.ms(tenth_ms)))
        for name in scenario.cluster.names[:size]
        if lots.chance(0.9)
    ]
    steps = write, Recover(client="g", when=At(recovered_ms))
    return replace(scenario, workload=steps, faults=tuple(formatted))
