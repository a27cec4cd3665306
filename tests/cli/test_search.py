"""`labkit search` prints the smallest scenario that breaks a promise, and fails if there is one."""

import pytest

from labkit.cli.main import main

ONE_PROCESS = ["--jobs", "1"]


def test_a_planted_mistake_is_found_and_shrunk(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "--variant", "ack after one bookie", "--seeds", "4", *ONE_PROCESS]) == 1
    output = capsys.readouterr().out
    assert output.startswith("\nAckQuorumIsReached: ")
    assert "Scenario(" in output


@pytest.mark.slow
def test_the_real_protocol_breaks_no_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "--first", "7", "--seeds", "4", *ONE_PROCESS]) == 0
    assert "4 scenarios" in capsys.readouterr().out


def test_an_unknown_variant_is_answered_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["search", "--variant", "no such thing"]) == 1
    assert "unknown variant 'no such thing'; variants: " in capsys.readouterr().err
