"""Tests for playing with the learner's code: it runs, is named, and cannot break the view."""

from pathlib import Path

import pytest

from labkit.course.checking.refused import Refused
from labkit.course.workshop import begin, play
from labkit.course.workshop.playing import LearnersPlay
from labkit.course.workshop.tracks import track
from labkit.worlds.sim.run_link import RunLink
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.variants.variants import VARIANTS
from labkit.worlds.sim.workload.steps import Write
from tests.course.workshop.wrong import with_changes

TWO_ADDS = Scenario(
    Cluster(1),
    (Write(entries=2, ensemble=1, write_quorum=1, ack_quorum=1, window=1, close=False),),
)
APPEND = "    def append(self, body: bytes) -> int:\n"


def press(view: LearnersPlay, *moves: str) -> None:
    for move in moves:
        view.handle({"do": "move", "on": move, "seq": -1})


def broken(view: LearnersPlay) -> list[str]:
    return [each.name for each in view.played.broken]


def test_a_bookie_that_does_not_sync_loses_an_entry_in_a_power_cut(tmp_path: Path) -> None:
    write = "self.file.write(offset, data)\n        self.file.sync()"
    change = write, "self.file.write(offset, data)"
    view = play("bookie", file=with_changes(tmp_path, "bookie", change))
    press(view, "deliver w>b0 2", "crash b0 1", "deliver b0>w 2")
    view.handle({"set": "rest", "value": True})
    assert "EveryCopyIsDurable" in broken(view)
    correct = play("bookie", file=track("bookie").solution)
    press(correct, *view.played.moves)
    assert broken(correct) == []


@pytest.mark.slow
def test_the_client_writes_and_recovers_with_the_learners_parts() -> None:
    view = play("client", file=track("client").solution)
    assert "Yours: write_set, Writer, Reader, recover" in view.remarks()[0][0]
    press(view, "deliver w>b0 2", "deliver r>r 0")
    view.handle({"set": "rest", "value": True})
    assert (view.played.is_over, broken(view), view.notice) == (True, [], "")


def test_undo_compare_and_record_run_the_learners_code_too(tmp_path: Path) -> None:
    change = "self.file.sync()\n\n\n# Step 2", "\n\n\n# Step 2"
    view = play("bookie", TWO_ADDS, with_changes(tmp_path, "bookie", change))
    press(view, "deliver w>b0 2", "deliver b0>w 2")
    view.handle({"set": "undo", "value": True})
    press(view, "crash b0 1")
    view.handle({"set": "compare", "value": "0"})
    assert view.comparison is not None
    view.handle({"set": "back", "value": True})
    exec(view.recorded(), {})  # The code asserts that the digest is the same.
    link = RunLink.parse(view.film["link"])
    assert (link.code, link.scenario.variant) == ("", "")
    assert "yours" not in VARIANTS


def test_the_first_exception_is_shown_with_its_line(tmp_path: Path) -> None:
    raising = f"{APPEND}        if len(body) > 50:\n            raise ValueError('too long')\n"
    view = play("bookie", file=with_changes(tmp_path, "bookie", (APPEND, raising)))
    assert view.notice == ""
    press(view, "deliver w>b0 2")
    assert "✘ Your code raised ValueError: too long in mybookie.py, line" in view.notice
    view.handle({"set": "undo", "value": True})
    assert view.notice == ""


def test_a_call_that_the_learners_code_does_not_accept_is_shown_without_a_line(
    tmp_path: Path,
) -> None:
    change = "def write(self, offset: int, data: bytes)", "def write(self, offset: int)"
    view = play("bookie", file=with_changes(tmp_path, "bookie", change))
    press(view, "deliver w>b0 2")
    assert view.notice.startswith("✘ Your code raised TypeError: Journal.write() takes 2")
    assert view.notice.endswith("were given.")


def test_an_endless_loop_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.course.checking.check.STEPS", 200_000)
    endless = f"{APPEND}        while len(body) > 50:\n            pass\n"
    view = play("bookie", file=with_changes(tmp_path, "bookie", (APPEND, endless)))
    press(view, "deliver w>b0 2")
    assert "it was last in mybookie.py" in view.notice


def test_a_file_in_which_nothing_works_yet_cannot_be_played(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="start with step 1"):
        play("bookie", file=begin("bookie", tmp_path / "mybookie.py"))
