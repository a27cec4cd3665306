import ast

from labkit.course.grading.slices import code_cells, needed_code


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
