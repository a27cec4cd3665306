"""Tests that the notebook about a search reproduces its committed output."""

from pathlib import Path

import pytest

from tests.notebooks.running import check_with_nbval

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_the_committed_notebook_says_what_it_says_when_run_again(tmp_path: Path) -> None:
    check_with_nbval("../docs/search-runs.ipynb", tmp_path)
