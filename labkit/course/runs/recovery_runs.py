"""Runs for lesson 08: the adds that a bookie rejects, and a recovery that finds a damaged copy."""

from labkit.course.runs.bookie.one_bookie import OneBookie
from labkit.system.model.errors import LedgerFencedException
from labkit.worlds.sim.scenario.faults import BitRot, Crash, Delay, Fault, Partition
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.bookie_script import MASTER_KEY, entry_bytes
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.steps import Recover, Write


def rejected_adds() -> list[str]:
    """Return the adds that a bookie rejects. Adds A and B arrive before a fence, and C and D arrive
    after it; B and D are sent by recovery.
    """
    bookie = OneBookie()
    rejected = []
    for entry_id, letter in enumerate("ABCD"):
        if letter == "C":
            bookie.fence(5)
        try:
            data = entry_bytes(5, entry_id, 20)
            bookie.store.add_entry(5, entry_id, data, MASTER_KEY, recovery=letter in "BD")
        except LedgerFencedException:
            rejected.append(letter)
    return rejected


def damaged_copy() -> Scenario:
    """Return a run in which only b0 and b1 have entries 2 and 3; b1's copies are damaged and b0 is
    slow to respond.
    """
    write = Write(entries=4, window=1, close=False)
    faults: tuple[Fault, ...] = (
        Partition(("w",), ("b2",), when=On("add.pushed", 3)),
        Crash("w", when=At(18.0)),
        Crash("b1", down_ms=50.0, when=At(300.0)),
        *(BitRot("b1", "entry log", part / 20, At(400.0)) for part in range(20)),
        Delay("b0", "r", 5.0),
    )
    return Scenario(Cluster(3), (write, Recover(when=At(500.0))), faults)
