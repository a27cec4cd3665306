import importlib
import pkgutil
import subprocess
import sys
from functools import reduce
from typing import Any

import pytest

from labkit.course import exercises
from labkit.course.checking.exercise import all_exercises, find
from labkit.course.grading.blocked_answers import STORAGE_ANSWERS, labkits_answers
from labkit.course.grading.isolation.block_answers import block_answers
from labkit.system.client import striping

for module in pkgutil.iter_modules(exercises.__path__):
    importlib.import_module(f"{exercises.__name__}.{module.name}")


@pytest.mark.parametrize("name", labkits_answers(all_exercises()))
def test_what_is_withheld_is_a_function_of_labkit_that_raises(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _, place = name.partition(":")
    owner: Any = importlib.import_module(module)
    function = reduce(getattr, place.split("."), owner)
    monkeypatch.setattr(function, "__code__", function.__code__)  # so that monkeypatch restores it
    file = function.__code__.co_filename
    block_answers([name])
    with pytest.raises(RuntimeError, match="labkit's own answer"):
        function(1, 2, 3)
    assert function.__code__.co_filename == file


def test_the_real_functions_belong_to_exercises_that_there_are() -> None:
    assert {find(name).name for name in STORAGE_ANSWERS} == set(STORAGE_ANSWERS)
    assert "labkit.system.client.striping:write_set" in labkits_answers([find("quorums.write_set")])


def test_a_withheld_function_raises_under_another_name_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(striping.write_set, "__code__", striping.write_set.__code__)
    known_before = striping.write_set
    block_answers(["labkit.system.client.striping:write_set"])
    with pytest.raises(RuntimeError, match="write_set is labkit's own answer"):
        known_before(1, 3, 2)


def test_a_withheld_function_of_a_module_that_is_imported_later_raises_too() -> None:
    source = (
        "import sys\n"
        "from labkit.course.grading.isolation.block_answers import block_answers\n"
        "block_answers(['labkit.system.client.striping:write_set'])\n"
        "assert 'labkit.system.client.striping' not in sys.modules\n"
        "from labkit.system.client import striping\n"
        "striping.write_set(0, 3, 2)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False
    )
    assert run.stderr.endswith("RuntimeError: write_set is labkit's own answer: write your own.\n")
