"""Tests runs that are written as Python code: the code runs and reproduces the run exactly."""

from dataclasses import replace

import pytest

from labkit.course.runs.play import Play
from labkit.course.runs.recorded import recorded
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.publish import Publish
from labkit.worlds.sim.workload.steps import Recover, Write

SCENARIO = Scenario(
    Cluster(3),
    (Write(entries=1, close=False), Recover(when=On("add.pushed"))),
    variant="ack after one bookie",
)


@pytest.mark.parametrize("ends", [False, True])
def test_a_recorded_play_runs_again_to_the_same_digest(
    ends: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    view = Play(SCENARIO)
    for move in ("deliver w>b1 2", "lose w>b0 2", "deliver b1>w 2", "crash b2 0"):
        view.handle({"do": "move", "on": move, "seq": -1})
    if ends:
        view.handle({"set": "rest", "value": True})
    code = view.film["code"]
    assert code == view.recorded()
    assert code.startswith("# ")
    names: dict[str, object] = {}
    exec(code, names)  # The code asserts that the digest is the same.
    assert names["scenario"] == view.scenario
    assert Play(view.scenario).played.moves == view.played.moves
    assert "AckQuorumIsReached" in capsys.readouterr().out


def test_the_scenario_alone_is_an_expression_for_a_golden_script() -> None:
    code = recorded(run(SCENARIO), "one add and a recovery")
    imports, _, rest = code.partition("scenario = ")
    names: dict[str, object] = {}
    exec(imports, names)
    assert eval(rest.partition("\ntrace = ")[0], names) == SCENARIO


def test_classes_that_labkit_does_not_export_are_imported_from_their_modules() -> None:
    scenario = replace(SCENARIO, cluster=Cluster(3, brokers=1), workload=(Publish(messages=1),))
    code = recorded(run(scenario), "one message")
    assert "from labkit.worlds.sim.workload.publish import Publish\n" in code
    exec(code, {})
