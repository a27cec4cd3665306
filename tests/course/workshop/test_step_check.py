"""Tests that a learner's file is created once, loaded for each check, and never overwritten."""

import subprocess
import sys
from pathlib import Path

import pytest

from labkit.cli.main import main
from labkit.course.checking.card import CardState
from labkit.course.checking.check import NotPassedError
from labkit.course.workshop import begin, check, step
from labkit.course.workshop.tracks import TRACKS, NoSuchStepError, track
from tests.course.workshop.wrong import with_changes


def test_the_first_check_makes_the_file_and_is_open_with_the_red_test(tmp_path: Path) -> None:
    card = check("bookie", 1, tmp_path / "mybookie.py")
    assert card.outcome is CardState.OPEN
    assert "Created " in card.message
    assert "assert journal.append" in card.message
    assert (tmp_path / "mybookie.py").read_text() == track("bookie").skeleton.read_text()


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "mybookie.py"
    mine.write_text("x = 1\n")
    card = check("bookie", 1, mine)
    assert card.message.startswith("mybookie.py has no `Journal`")
    assert mine.read_text() == "x = 1\n"


@pytest.mark.parametrize("name", TRACKS)
def test_a_track_begins_with_its_skeleton_and_never_overwrites_a_file(
    name: str, tmp_path: Path
) -> None:
    mine = begin(name, tmp_path / "mine.py")
    assert mine.read_text() == track(name).skeleton.read_text()
    mine.write_text("x = 1\n")
    assert begin(name, mine).read_text() == "x = 1\n"


@pytest.mark.parametrize("name", TRACKS)
def test_a_new_file_is_open_at_every_step(name: str, tmp_path: Path) -> None:
    mine = begin(name, tmp_path / "mine.py")
    for each in track(name).steps:
        card = check(name, each.number, mine)
        assert card.outcome is CardState.OPEN
        assert f'hint("{name}", {each.number}) gives up to three hints.' in card.message


@pytest.mark.slow
def test_the_tracks_need_no_processes_until_a_step_starts_some() -> None:
    """A browser tab has no `labkit.worlds.live`."""
    code = (
        "import sys; sys.modules['labkit.worlds.live'] = None\n"
        "from labkit.course.workshop.tracks import TRACKS, track\n"
        "print(*(len(track(name).steps) for name in TRACKS))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [str(len(track(name).steps)) for name in TRACKS]


def test_a_change_of_the_file_counts_at_the_next_check(tmp_path: Path) -> None:
    mine = tmp_path / "mybookie.py"
    mine.write_text("class Journal:\n    def __init__(self, disk, file_id):\n        1 / 0\n")
    card = check("bookie", 1, mine)
    assert card.message == (
        "Your code raised ZeroDivisionError: division by zero"
        " in mybookie.py, line 3, in __init__: 1 / 0."
    )
    mine.write_text("# and now\n" + mine.read_text().replace("1 / 0", "[].pop()"))
    assert "mybookie.py, line 4, in __init__: [].pop()" in check("bookie", 1, mine).message


def test_an_exception_in_a_generated_case_is_shown_with_the_case(tmp_path: Path) -> None:
    append = '        self.buffer += struct.pack(">i", len(entry)) + entry\n'
    one_byte = append, append + '        struct.pack(">b", len(entry))\n'
    card = check("bookie", 4, with_changes(tmp_path, "bookie", one_byte))
    assert card.message.startswith("Your code raised struct.error: ")
    assert card.message.endswith("\nlog = EntryLog(file)\nlog.append(...)  # 500 bytes\nlog.sync()")


def test_an_exception_in_a_call_of_a_function_is_shown_with_the_call(tmp_path: Path) -> None:
    unchecked = " or at + 4 + length > len(data)", " or data[at + 3 + length] is None"
    card = check("bookie", 2, with_changes(tmp_path, "bookie", unchecked))
    assert card.message.startswith("Your code raised IndexError: ")
    assert "\nlabkit called records(" in card.message


def test_a_file_that_is_not_python_is_refused_with_its_line(tmp_path: Path) -> None:
    mine = tmp_path / "mybookie.py"
    mine.write_text("x = 1\nclass Journal\n")
    assert check("bookie", 1, mine).message == "mybookie.py, line 2: expected ':': class Journal."


def test_a_file_that_ends_python_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mybookie.py"
    mine.write_text("import sys\nsys.exit(0)\n")
    words = "SystemExit: 0 in mybookie.py, line 2, in <module>: sys.exit(0)"
    assert words in check("bookie", 1, mine).message
    assert main(["workshop", "bookie", "1", "--file", str(mine)]) == 1
    assert words in capsys.readouterr().out
    assert main(["client", "--file", str(mine), "--zookeeper", "127.0.0.1:1", "take", "1"]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.slow
def test_code_that_never_ends_is_stopped_and_its_line_named(tmp_path: Path) -> None:
    forever = (
        "        if not self.group:\n            return None\n",
        "        while True:\n            pass\n",
    )
    mine = with_changes(tmp_path, "bookie", forever)
    card = check("bookie", 1, mine)
    assert "does not terminate; it was last in mybookie.py" in card.message


def test_must_pass_raises_for_an_open_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_CHECKS", "must-pass")
    with pytest.raises(NotPassedError, match="step 1"):
        check("bookie", 1, tmp_path / "mybookie.py")


def test_a_track_or_step_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(NoSuchStepError, match="the tracks are bookie"):
        check("broker", 1)
    with pytest.raises(NoSuchStepError, match="1 the journal"):
        check("bookie", 99)


@pytest.mark.parametrize("name", TRACKS)
def test_each_step_says_what_must_hold_what_to_write_and_the_cost_limits(name: str) -> None:
    for asked in track(name).steps:
        said = repr(step(name, asked.number))
        contract = [each.words for each in asked.contract]
        for line in (*contract, asked.write, *(each.name for each in asked.costs)):
            assert line in said
        assert asked.challenges


def test_the_command_checks_up_to_the_first_open_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["workshop", "bookie"]) == 1
    assert "bookie, step 1: the journal: open" in capsys.readouterr().out
    assert (tmp_path / "mybookie.py").is_file()


def test_the_command_names_the_steps_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workshop", "bookie", "99"]) == 1
    assert "there is no step 99" in capsys.readouterr().err
