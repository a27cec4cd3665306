"""Tests that `labkit search` fails if a promise is broken, and prints the smallest scenario."""

import pytest

from labkit.cli.main import main
from labkit.system.check import broken, check_all
from labkit.worlds.sim.run import run
from labkit.worlds.sim.run_link import RunLink

ONE_PROCESS = ["--jobs", "1"]


def test_a_planted_mistake_is_found_and_shrunk(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "--variant", "ack after one bookie", "--seeds", "4", *ONE_PROCESS]) == 1
    output = capsys.readouterr().out
    assert output.startswith("\nAckQuorumIsReached: ")
    assert "Scenario(" in output
    [link] = [line for line in output.splitlines() if "run.1." in line]
    scenario = RunLink.parse(link).scenario
    assert "AckQuorumIsReached" in [each.name for each in broken(check_all(run(scenario)))]


@pytest.mark.slow
def test_the_real_protocol_breaks_no_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "--first", "7", "--seeds", "4", *ONE_PROCESS]) == 0
    assert "4 scenarios" in capsys.readouterr().out


def test_an_unknown_variant_is_answered_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["search", "--variant", "no such thing"]) == 1
    assert "unknown variant 'no such thing'; valid variants: " in capsys.readouterr().err
