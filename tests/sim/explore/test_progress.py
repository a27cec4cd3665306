"""The line tells how far a search is, and no more often than a reader needs it."""

import pytest

from labkit.sim.explore.progress import ProgressLine


def test_before_the_first_seed_of_a_search_without_an_end_nothing_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ProgressLine(0, "seeds")(0, 0)
    assert capsys.readouterr().err == ""


def test_the_last_one_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    tell = ProgressLine(2, "seeds")
    tell(1, 0)
    assert capsys.readouterr().err == ""
    tell(2, 1)
    assert "2 seeds" in (said := capsys.readouterr().err)
    assert said.endswith("1 findings\n")
