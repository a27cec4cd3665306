"""Tests that the tour runs with any parameters and reproduces its committed output."""

from pathlib import Path

import pytest

from tests.notebooks.running import check_with_nbval, run_with

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.mark.long
@pytest.mark.parametrize("sizes", [(5, 10), (4, 25)])
def test_tour_runs_with_other_sizes(tmp_path: Path, sizes: tuple[int, int]) -> None:
    bookies, message_count = sizes
    shown = run_with(
        "00-tour.ipynb", tmp_path / "out.ipynb", bookies=bookies, message_count=message_count
    )
    assert f"{message_count + 2} messages read back" in shown
    assert "entry 3: b3, b0, b1" in shown
    assert f"Cluster: {bookies} bookies, ledger 0 with entries up to 7" in shown


@pytest.mark.core
def test_committed_tour_says_what_it_says_when_run_again(tmp_path: Path) -> None:
    check_with_nbval("00-tour.ipynb", tmp_path)
