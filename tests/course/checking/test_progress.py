"""Tests the line that says how long a check has been running."""

import threading
import time
from typing import Any

import pytest

from labkit.course.checking import progress


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Return the lines that are shown, and whether each replaces the one before it."""
    lines: list[tuple[str, bool]] = []

    def display(data: dict[str, str], *, update: bool, **_: Any) -> None:
        lines.append((data["text/plain"], update))

    monkeypatch.setattr(progress, "display", display)
    monkeypatch.setattr(progress, "AFTER_S", 0.01)
    monkeypatch.setenv(progress.READER, "notebook.ipynb")
    return lines


def test_a_long_check_shows_one_line_that_counts_and_is_cleared(
    shown: list[tuple[str, bool]],
) -> None:
    with progress.progress_line("bookie, step 1"):
        while len(shown) < 3:
            time.sleep(0.001)
    assert shown[0] == ("Checking bookie, step 1: 1 s", False)
    assert shown[1] == ("Checking bookie, step 1: 2 s", True)
    assert shown[-1] == ("", True)
    assert [update for _, update in shown[1:]] == [True] * (len(shown) - 1)


def test_the_line_is_cleared_even_if_the_check_raises(shown: list[tuple[str, bool]]) -> None:
    def check() -> None:
        with progress.progress_line("bookie, step 1"):
            while not shown:
                time.sleep(0.001)
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        check()
    assert shown[-1] == ("", True)


def test_a_short_check_shows_no_line(
    shown: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "AFTER_S", 60)
    with progress.progress_line("bookie, step 1"):
        pass
    assert not shown


def test_a_notebook_that_nobody_reads_shows_no_line(
    shown: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(progress.READER)
    before = threading.enumerate()
    with progress.progress_line("bookie, step 1"):
        # A separate thread shows the line, so without that thread there is no line.
        assert threading.enumerate() == before
    assert not shown
