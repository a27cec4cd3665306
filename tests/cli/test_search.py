"""Tests that `labkit search` fails if a promise is broken, and prints the smallest scenario."""

import re
from pathlib import Path

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


@pytest.mark.usefixtures("spark")
def test_a_search_on_spark_prints_the_same_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    search = ["search", "--variant", "ack after one bookie", "--seeds", "4"]
    assert main([*search, *ONE_PROCESS]) == 1
    expected = _without_times(capsys.readouterr().out)
    for _ in range(2):  # The second search only reads the table.
        assert main([*search, "--spark", str(tmp_path)]) == 1
        assert _without_times(capsys.readouterr().out) == expected


@pytest.mark.slow
def test_the_real_protocol_breaks_no_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "--first", "7", "--seeds", "4", *ONE_PROCESS]) == 0
    assert "4 scenarios" in capsys.readouterr().out


def test_an_unknown_variant_is_answered_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["search", "--variant", "no such thing"]) == 1
    assert "unknown variant 'no such thing'; valid variants: " in capsys.readouterr().err


def _without_times(output: str) -> str:
    return re.sub(r"\d+\.\d s", "", output)
