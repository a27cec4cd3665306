"""Tests the landing page's forks: one run for each bookie and each moment at which it can die."""

import itertools
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from labkit.worlds.sim.run import run
from tools.site.landing import SCENARIO, LandingView, breakable_run, moments
from tools.site.views import Views

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def state(folder: Path) -> Any:
    """Return the state of the run that is sent to the browser."""
    html = breakable_run(run(SCENARIO), Views(folder))
    name = re.search(r'data-state="([^"]+)"', html)
    assert name
    return json.loads((folder / unescape(name[1])).read_text())


def test_each_bookie_can_be_killed_at_each_moment(state: Any) -> None:
    assert set(state["forks"]) == set(SCENARIO.cluster.names)
    for forks in state["forks"].values():
        found = [moment for moment, _ in forks]
        assert found == sorted(set(found))
        assert len(found) >= 8


def test_a_fork_is_the_run_up_to_its_moment_and_then_the_bookie_dies(
    state: Any, folder: Path
) -> None:
    moment, name = state["forks"]["b1"][4]
    film = json.loads((folder / name).read_text())
    view = LandingView(run(SCENARIO))
    view.fork(moment, "kill", "b1")
    assert film == json.loads(json.dumps(view.film))
    killed = next(e for e in view.run.events if e.kind == "node.killed")
    assert film["moment"] == round(view.run.at(killed.seq), 1)
    assert film["run"] != state["film"]["run"]
    assert any("b1" in words and "killed" in words for words in film["words"])


def test_a_moment_is_never_far_behind_a_click() -> None:
    view = LandingView(run(SCENARIO))
    positions = {seq: at for at, _, _, seq in view.film["beats"]}
    found = [positions[seq] for seq in moments(view)]
    assert max(b - a for a, b in itertools.pairwise(found)) < 3000
