"""Tests that a check saves what a notebook cell defines, and that no code is lost."""

import linecache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from labkit.course.checking.card import CardState
from labkit.course.workshop import begin, check
from labkit.course.workshop.definitions import definition_in, definitions_in, save
from labkit.course.workshop.tracks import track

_numbers = count()
SOLUTION = track("bookie").solution.read_text()
SKELETON = track("bookie").skeleton.read_text()


def run_cell(source: str) -> dict[str, Any]:
    """Run a cell as IPython does, which keeps its source in `linecache`."""
    name = f"<cell {next(_numbers)}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), names)
    return names


def cell_with(name: str, text: str = SOLUTION) -> Any:
    imports = "import struct\nfrom labkit.system.storage.disk import Disk, File\n"
    return run_cell(imports + definition_in(text, name))[name]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return begin("bookie", tmp_path / "mybookie.py")


def test_a_saved_part_replaces_the_skeletons_and_leaves_the_others(file: Path) -> None:
    assert save(file, [cell_with("Journal")]) == "Saved in mybookie.py: Journal."
    text = file.read_text()
    assert definition_in(text, "Journal") == definition_in(SOLUTION, "Journal")
    assert definition_in(text, "Memtable") == definition_in(SKELETON, "Memtable")
    names = [each.name for each in definitions_in(SKELETON)]
    assert [each.name for each in definitions_in(text)] == names


def test_everything_in_the_cell_of_a_part_is_saved_with_its_imports(file: Path) -> None:
    cell = "from bisect import insort\nMASK = -0x100\ndef helper(): return insort\n"
    cell += "def records(data, start): return helper()\nhelper()\nresult = records(b'', 0)\n"
    assert save(file, [run_cell(cell)["records"]]) == (
        "Saved in mybookie.py: MASK, helper, records."
    )
    text = file.read_text()
    assert "from bisect import insort\nimport struct" in text
    assert "result" not in text
    exec(compile(text, "mybookie.py", "exec"), {})


def test_a_part_without_code_is_not_saved(file: Path) -> None:
    save(file, [cell_with("Journal")])
    before = file.read_text()
    assert save(file, [cell_with("Journal", SKELETON)]) == ""
    assert file.read_text() == before


def test_a_part_that_is_begun_is_saved(file: Path) -> None:
    begun = "class Journal:\n    def append(self, body):\n        raise NotImplementedError\n"
    begun += "    def seal(self):\n        return None\n"
    save(file, [run_cell(begun)["Journal"]])
    assert begun in file.read_text()


def test_code_that_the_notebook_did_not_save_is_copied_before_it_is_replaced(file: Path) -> None:
    edited = SOLUTION.replace("self.group_offset = 512", "self.group_offset = 256 + 256")
    file.write_text(edited)
    report = save(file, [cell_with("Journal")])
    assert report.endswith("The file contained other code for this; it is now in mybookie-1.py.")
    assert file.with_name("mybookie-1.py").read_text() == edited
    assert "256 + 256" not in file.read_text()
    newer = SOLUTION.replace("self.group_offset = 512", "self.group_offset = 511 + 1")
    assert save(file, [cell_with("Journal", newer)]) == "Saved in mybookie.py: Journal."
    file.write_text(edited)
    assert save(file, [cell_with("Journal")]).endswith("it is now in mybookie-2.py.")


def test_saving_the_same_code_again_changes_nothing(file: Path) -> None:
    for _ in range(2):
        save(file, [cell_with("records")])
    assert file.read_text().count("def records(") == 1
    assert [each.name for each in file.parent.iterdir()] == ["mybookie.py"]


def test_a_check_saves_the_part_before_it_tests_it(tmp_path: Path) -> None:
    file = tmp_path / "mybookie.py"
    wrong = definition_in(SOLUTION, "records").replace("length <= 0", "length < 0")
    card = check("bookie", 2, file, parts=[run_cell("import struct\n" + wrong)["records"]])
    assert card.outcome is CardState.REFUSED
    assert "for your code. Saved in mybookie.py: records." in card.message
    assert wrong in file.read_text()


def test_a_check_of_a_part_without_code_is_open(tmp_path: Path) -> None:
    card = check("bookie", 1, tmp_path / "mybookie.py", parts=[cell_with("Journal", SKELETON)])
    assert card.outcome is CardState.OPEN


def test_a_part_that_no_cell_defines_is_refused_with_what_to_do(file: Path) -> None:
    message = check("bookie", 1, file, parts=[Path]).message
    assert message == "the source of Path is not available: run the cell that defines it."


def test_nothing_is_saved_in_a_file_that_is_not_python(file: Path) -> None:
    file.write_text("class Journal\n")
    message = check("bookie", 1, file, parts=[cell_with("Journal")]).message
    assert message == "mybookie.py, line 1: expected ':'."
    assert file.read_text() == "class Journal\n"
