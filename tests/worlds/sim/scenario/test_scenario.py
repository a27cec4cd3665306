"""A scenario is a value that can be written as JSON or Python and changed piece by piece."""

import pytest

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.storage.config import StorageConfig
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.scenario import faults
from labkit.worlds.sim.scenario.faults import Crash, Loss, Partition
from labkit.worlds.sim.scenario.scenario import Scenario, from_json
from labkit.worlds.sim.settings import triggers as moments
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload import steps as workload
from labkit.worlds.sim.workload.steps import Delete, Read, Recover, Write

NAMES = {
    **vars(faults),
    **vars(moments),
    **vars(workload),
    "Scenario": Scenario,
    "Cluster": Cluster,
    "StorageConfig": StorageConfig,
}
BUSY = Scenario(
    Cluster(5, storage=StorageConfig(journal_max_size_mb=1, page_size=512)),
    (Write(entries=3), Read(when=On("lac.advanced", 2)), Recover(client="x"), Delete(when=At(9))),
    (Crash("b1", "lost", 5, On("journal.synced", 3, "b1")), Partition(("b0", "w")), Loss(share=1)),
    seed=3,
    decisions={"delay w>b0 2": 30.0},
    variant="ack before sync",
)


@pytest.mark.parametrize("scenario", [Scenario(), BUSY, storm(BUSY, 5, fault_count=40)])
def test_a_scenario_survives_json_and_its_own_repr(scenario: Scenario) -> None:
    assert from_json(scenario.to_json()) == scenario
    assert eval(repr(scenario), NAMES) == scenario


def test_the_repr_leaves_out_what_is_as_usual() -> None:
    assert repr(Scenario()) == "Scenario()"
    assert repr(Crash("b1", when=At(5))) == "Crash(node='b1', when=At(ms=5))"


def test_a_fork_changes_one_thing_and_leaves_the_first_as_it_was() -> None:
    forked = BUSY.with_fault(Crash("b2")).with_decision("lose w>b0 1", 1)
    assert forked.faults == (*BUSY.faults, Crash("b2"))
    assert forked.decisions == {"delay w>b0 2": 30.0, "lose w>b0 1": 1}
    assert BUSY.decisions == {"delay w>b0 2": 30.0}


def test_an_unknown_part_is_named() -> None:
    with pytest.raises(BKIncorrectParameterException, match="Meteorite"):
        from_json('{"Scenario": {"faults": [{"Meteorite": {"node": "b1"}}]}}')
