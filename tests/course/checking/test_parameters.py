"""Tests that a lesson's parameter cell rejects invalid values and misspelt names."""

import ast

import nbformat
import papermill
import pytest
from IPython.core.interactiveshell import InteractiveShell

from labkit.course.checking.parameters import LESSONS, ParameterError, case_seed
from labkit.course.lessons import parameters
from labkit.course.lessons.build import NOTEBOOKS
from tests.notebooks.test_lesson_runs import PARAMETERS

DEFAULTS = {
    path.name: {
        name: ast.literal_eval(each["default"])
        for name, each in papermill.inspect_notebook(str(path)).items()
    }
    for path in sorted(NOTEBOOKS.glob("*.ipynb"))
    if path.name[:2] in LESSONS
}


@pytest.fixture(autouse=True)
def nothing_was_injected() -> None:
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_parameter_has_a_range_that_holds_its_values(name: str) -> None:
    lesson, defaults = name[:2], DEFAULTS[name]
    assert list(LESSONS[lesson]) == list(defaults)
    for others in ({}, *PARAMETERS[name]):
        parameters(lesson, defaults | others)


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_lesson_asks_before_it_does_anything_with_its_parameters(name: str) -> None:
    cells = [c for c in nbformat.read(NOTEBOOKS / name, 4).cells if c.cell_type == "code"]
    assert "parameters" in cells[0].metadata.tags
    statements = [each for cell in cells[1:3] for each in ast.parse(cell.source).body]
    first = next(s for s in statements if not isinstance(s, ast.Import | ast.ImportFrom))
    assert ast.unparse(first) == f"parameters('{name[:2]}', globals())"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"ensemble_size": 40}, "ensemble_size is 40: it must be a whole number from 2 to 9."),
        ({"write_quorum": 6}, "write_quorum is 6: it must be a whole number from 1 to 5."),
        ({"ack_quorum": True}, "ack_quorum is True: it must be a whole number from 1 to 3."),
        ({"entry_count": "8"}, "entry_count is '8': it must be a whole number from 2 to 20."),
    ],
)
def test_a_value_out_of_its_range_is_refused_with_the_range(
    wrong: dict[str, object], reason: str
) -> None:
    with pytest.raises(ParameterError) as raised:
        parameters("05", DEFAULTS["05-ensembles.ipynb"] | wrong)
    assert str(raised.value) == reason


@pytest.mark.parametrize(
    ("lesson", "name", "value", "allowed"),
    [
        ("01", "digest_type", "MD5", "one of 'CRC32C', 'CRC32', 'HMAC', 'DUMMY'"),
        ("01", "payload", b"x", "a string of at most 200 characters"),
        ("03", "page_size", 513, "a whole number from 512 to 65536 in steps of 8"),
        ("10", "living_percent", [7], "a list of 1 to 8 numbers, each a whole number from 0 to"),
        ("10", "major_threshold", 0.1, "a number from 0.2 to 1.0"),
    ],
)
def test_a_refusal_says_what_is_allowed(
    lesson: str, name: str, value: object, allowed: str
) -> None:
    defaults = next(values for file, values in DEFAULTS.items() if file.startswith(lesson))
    with pytest.raises(ParameterError, match=name) as raised:
        parameters(lesson, defaults | {name: value})
    assert allowed in str(raised.value)


def test_a_misspelt_name_is_refused_with_the_one_that_was_meant() -> None:
    shell = InteractiveShell.instance()
    shell.user_ns["In"] = ["", "ensemble_size = 5", "# Parameters\nensembel_size = 4\n"]
    try:
        with pytest.raises(ParameterError, match=r"ensembel_size; .*mean ensemble_size\?"):
            parameters("05", DEFAULTS["05-ensembles.ipynb"])
    finally:
        InteractiveShell.clear_instance()


def test_every_lesson_takes_the_seed_of_its_generated_cases() -> None:
    values = DEFAULTS["05-ensembles.ipynb"]
    parameters("05", values | {"case_seed": 7})
    assert case_seed() == 7
    with pytest.raises(ParameterError, match="case_seed is 0: it must be a whole number from 1 to"):
        parameters("05", values | {"case_seed": 0})
    parameters("05", values)
    assert case_seed() == 1
