"""Tests that `labkit open` writes the run of a link to a page, and rejects broken links."""

import webbrowser
from dataclasses import replace
from pathlib import Path

import pytest

from labkit.cli.main import main
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.explore.counterexamples import counterexample
from labkit.worlds.sim.run import run
from labkit.worlds.sim.run_link import RunLink
from labkit.worlds.sim.settings.bookie_script import Add, Commit

TRACE = run(counterexample("ack after one bookie"))
LINK = TRACE.link("ClusterView", at=9)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_link_is_written_to_a_page_that_opens_in_the_browser(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    page = folder / f"run-{TRACE.digest[:8]}.html"
    assert main(["open", f"https://someone.github.io/labkit/run.html#{LINK}"]) == 0
    assert opened == [page.as_uri()]
    assert "ClusterView" not in capsys.readouterr().err
    assert "Which bookies have which entries" in page.read_text()


def test_a_link_to_a_crash_map_is_written_to_a_page(folder: Path) -> None:
    crashes = crash_map([Add(5, 0), Commit()])
    assert main(["open", "--no-browser", crashes.link(at=3)]) == 0
    page = folder / f"crash-{crashes.digest[:8]}.html"
    assert "A crash map of labkit" in page.read_text()


def test_a_learners_code_is_printed_as_text_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    link = replace(RunLink.parse(LINK), code="print(1)  # \x1b[2J")
    assert main(["open", "--no-browser", str(link)]) == 0
    printed = capsys.readouterr().out
    assert "print(1)  # " in printed
    assert "\x1b" not in printed


@pytest.mark.parametrize(
    ("link", "why"),
    [
        (LINK[:-9], "not a valid link"),
        (LINK.replace("run.1", "run.2"), "need a newer labkit"),
    ],
)
def test_a_bad_link_is_an_error_that_says_why(
    folder: Path, capsys: pytest.CaptureFixture[str], link: str, why: str
) -> None:
    assert main(["open", link]) == 1
    assert why in capsys.readouterr().err
    assert list(folder.iterdir()) == []
