"""Tests which parts of a learner's file labkit uses, and what the learner is told about them."""

from pathlib import Path

import pytest

from labkit.course.workshop import begin, check, overview, your_bookie
from labkit.course.workshop.definitions import definition_in
from labkit.course.workshop.tracks import track
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.settings.bookie_script import Add, Checkpoint, Commit, Restart
from tests.course.workshop.wrong import with_changes

SCRIPT = (Add(5, 0), Commit(), Checkpoint((Add(5, 1), Commit())), Restart(), Add(5, 2), Commit())


def test_a_lost_file_is_reported_with_what_to_do(tmp_path: Path) -> None:
    said = repr(overview("bookie", tmp_path / "mybookie.py"))
    assert "mybookie.py is not in this folder" in said
    assert "copy your file into this folder" in said
    assert your_bookie(tmp_path / "mybookie.py") is LedgerStore


@pytest.mark.parametrize("name", ["bookie", "client"])
def test_a_new_file_has_no_lines_of_the_learner_and_the_learner_is_told_how_to_get_theirs(
    name: str, tmp_path: Path
) -> None:
    said = repr(overview(name, begin(name, tmp_path / track(name).file_name)))
    assert f"{track(name).file_name}: 0 lines are yours" in said
    assert "●" not in said
    assert "copy your file into this folder" in said


def test_a_step_whose_first_test_fails_is_not_the_learners_yet(tmp_path: Path) -> None:
    empty = "        raise ZeroDivisionError\n"
    close = "        last = self.last_add_confirmed\n        metadata = await close_at(\n"
    said = repr(overview("client", with_changes(tmp_path, "client", (close, empty + close))))
    assert "● 4 " in said
    assert "○ 5 close, and be fenced: its first test does not pass yet" in said
    assert "labkit runs your `Writer` anyway" in said
    assert "labkit's, for now" not in said
    assert "copy your file" not in said


def test_a_step_of_which_nothing_is_the_learners_is_labkits(tmp_path: Path) -> None:
    nothing = "async def recover(cluster: Cluster) -> LedgerMetadata:\n"
    changes = (nothing, f"{nothing}    raise NotImplementedError\n")
    said = repr(overview("client", with_changes(tmp_path, "client", changes)))
    assert "○ 6 recover a ledger: labkit's, for now" in said


def test_a_file_that_cannot_be_run_is_reported_with_its_line(tmp_path: Path) -> None:
    file = begin("client", tmp_path / "myclient.py")
    file.write_text("import nothing_like_this\n")
    said = repr(overview("client", file))
    assert "myclient.py cannot be run" in said
    assert "line 1" in said


@pytest.mark.parametrize("name", ["bookie", "client"])
def test_the_solution_is_the_learners_in_every_step(name: str) -> None:
    said = repr(overview(name, track(name).solution))
    assert "○" not in said
    assert "● 1 " in said


def test_a_crash_of_your_bookie_loses_nothing_if_every_part_is_right() -> None:
    assert crash_map(SCRIPT, store_factory=your_bookie(track("bookie").solution)).is_safe


def test_a_crash_of_your_bookie_shows_the_mistake_of_a_part(tmp_path: Path) -> None:
    late = ("self.mark = bookie.synced()\n", "pass\n")
    taken = (
        "        bookie.move_mark(*self.mark)\n",
        "        self.mark = bookie.synced()\n        bookie.move_mark(*self.mark)\n",
    )
    yours = your_bookie(with_changes(tmp_path, "bookie", late, taken))
    assert not crash_map(SCRIPT, store_factory=yours).is_safe


def test_replay_reads_the_journal_with_labkits_function_until_the_learner_has_one(
    tmp_path: Path,
) -> None:
    file = begin("bookie", tmp_path / "mybookie.py")
    solution = track("bookie").solution.read_text()
    parts = [definition_in(solution, name) for name in ("replay", "redo")]
    file.write_text("\n\n\n".join([file.read_text(), *parts]))
    assert crash_map(SCRIPT, store_factory=your_bookie(file)).is_safe
    assert check("bookie", 7, file, seeds=2).passed


def test_parts_that_are_not_begun_are_labkits(tmp_path: Path) -> None:
    yours = your_bookie(begin("bookie", tmp_path / "mybookie.py"))
    assert crash_map(SCRIPT, store_factory=yours).is_safe
