"""Tests the view of a simulated cluster's metadata store in the middle of a run."""

import pytest

from labkit.course.runs.znodes import SetLayout, znodes_of
from labkit.system.metadata.ledger_layout import LAYOUTS
from labkit.system.model.ledger import LedgerState
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
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
def test_a_layout_that_was_set_says_where_ledgers_lie(layout: str, folder: str) -> None:
    steps = SetLayout(LAYOUTS[layout]), Write(entries=1, when=At(50))
    (znodes,) = znodes_of(Scenario(Cluster(3), steps), [At(100)])
    (path,) = [path for path in znodes.nodes if path.rpartition("/")[2].startswith("L0")]
    assert path.startswith(f"/ledgers{folder}/L0")
