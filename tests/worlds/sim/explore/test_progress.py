"""The progress line shows how far a search has got, and is updated only when necessary."""

import pytest

from labkit.worlds.sim.explore.progress import ProgressLine


def test_a_search_without_an_end_says_nothing_before_its_first_seed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ProgressLine(0, "seeds")(0, 0)
    assert capsys.readouterr().err == ""


def test_the_line_says_at_once_that_the_search_has_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell = ProgressLine(2, "seeds")
    tell(1, 0)
    assert capsys.readouterr().err == ""
    tell(2, 1)
    assert "2 seeds" in (said := capsys.readouterr().err)
    assert said.endswith("1 findings\n")
