"""Tests the view of a simulated cluster's metadata store in the middle of a run."""

import pytest

from labkit.course.runs.znodes import ledger_paths, znodes_of
from labkit.system.model.ledger import LedgerState
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Write


def test_the_tree_is_that_of_its_moment() -> None:
    scenario = Scenario(Cluster(3), (Write(entries=4, every_ms=50),))
    moments = [On("lac.advanced", nth=4), On("ledger.closed")]
    during, after = znodes_of(scenario, moments)
    metadata, version = during.ledger()
    assert (metadata.state, version) == (LedgerState.OPEN, 0)
    metadata, version = after.ledger()
    assert (metadata.state, metadata.last_entry_id, version) == (LedgerState.CLOSED, 3, 1)
    lines = repr(after).splitlines()
    assert lines[0] == "ledgers"
    assert lines[3].split() == ["L0000", *f"{len(after.piece().data)} bytes, version 1".split()]
    with pytest.raises(IndexError):
        after.ledger(1)


@pytest.mark.parametrize(("layout", "folder"), [("flat", ""), ("hierarchical", "/00/0000")])
def test_a_layout_determines_the_paths_of_ledgers(layout: str, folder: str) -> None:
    paths = ledger_paths(layout)
    assert len(paths) == 3
    assert all(path.startswith(f"/ledgers{folder}/L0") for path in paths)
