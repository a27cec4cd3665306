import ast

import pytest

from labkit.course.grading.slices import CHECKS, code_cells, needed_code


def run_of(*cells: str) -> str:
    return "\n".join(ast.unparse(tree) for tree in needed_code(list(cells)))


def test_only_what_an_answer_needs_is_run() -> None:
    assert run_of(
        "import labkit\nrun = labkit.run",
        "import math\nscenario = run(1)\nscenario",
        "size = 3\nshow(size)",
        "def helper(x): return math.sqrt(x) + size",
        "def f(x): return helper(x)\ncheck('a.b', f)",
    ) == (
        "import math\nsize = 3\ndef helper(x):\n    return math.sqrt(x) + size\n"
        "def f(x):\n    return helper(x)\ncheck('a.b', f)"
    )


def test_of_an_import_only_the_names_that_an_answer_needs_are_imported() -> None:
    cells = (
        "from lab import (check, picture, session)\nimport math, time",
        "check('a.b', math.sqrt)",
    )
    assert run_of(*cells) == "from lab import check\nimport math\ncheck('a.b', math.sqrt)"


def test_a_cell_that_is_not_python_is_left_out() -> None:
    assert run_of("def f(:", "check('a.b', None)") == "check('a.b', None)"


def test_a_cell_that_shows_a_wrong_answer_on_purpose_is_not_an_answer() -> None:
    cells = [
        {"cell_type": "code", "source": "check('a.b', f)", "metadata": {"tags": ["exercise"]}},
        {"cell_type": "code", "source": "check('a.b', g)", "metadata": {"tags": ["refused"]}},
        {"cell_type": "markdown", "source": "text", "metadata": {}},
    ]
    assert list(code_cells({"cells": cells})) == ["check('a.b', f)"]


def test_an_operator_at_the_start_of_a_line_is_no_magic_command() -> None:
    wrapped = "x = (\n    entry_id\n    % size\n)\ny = '''\n!text\n'''\n"
    assert run_of(f"{wrapped}check('a.b', (x, y))") == (
        "x = entry_id % size\ny = '\\n!text\\n'\ncheck('a.b', (x, y))"
    )


def test_a_magic_command_is_run_by_the_shell_and_leaves_the_cell_valid() -> None:
    cell = "%%time\n%matplotlib inline\nif True:\n    !ls\nx = (1\n    % 2)\ncheck('a.b', x)"
    assert run_of(cell) == (
        "get_ipython().run_line_magic('matplotlib', 'inline')\nif True:\n"
        "    get_ipython().system('ls')\nx = 1 % 2\ncheck('a.b', x)"
    )


@pytest.mark.parametrize(
    "change",
    [
        "order.reverse()",
        "order[0] = 3",
        "del order[0]",
        "order[0].size = 3",
        "for each in (1, 2):\n    order.append(each)",
        "last = order.pop()",
        "random.shuffle(order)",
        "add(3)",
    ],
)
def test_a_statement_that_changes_a_needed_value_is_run(change: str) -> None:
    before = "order = list(range(3))\ndef add(x):\n    order.append(x)"
    assert change in run_of(before, change, "check('a.b', order)")


def test_names_that_a_star_may_import_are_imported() -> None:
    assert "from math import *" in run_of("from math import *", "check('a.b', sqrt)")


def test_a_helper_may_use_a_name_that_is_bound_below_it() -> None:
    cells = ("def f():\n    return size", "size = 3", "check('a.b', f)", "size = 4")
    assert run_of(*cells) == "def f():\n    return size\nsize = 3\ncheck('a.b', f)"


def test_a_statement_that_only_shows_a_needed_value_is_not_run() -> None:
    cells = ("size = 3\ndef f():\n    return size", "show(f, size)\nsize.bit_length()")
    assert "show" not in run_of(*cells, "check('a.b', f)")


def test_checks_are_found_however_the_name_of_the_exercise_is_passed() -> None:
    for call in ("check('a.b', f)", "check(name='a.b', learner=f)", "check(learner=f, name='a.b')"):
        assert CHECKS.findall(call) == ["a.b"]
