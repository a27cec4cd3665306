"""Tests that one source produces two notebooks, which differ only where the source says so."""

import os
import re
from pathlib import Path

import pytest

from labkit.course.lessons.build import CHARTS, SOURCES, execute, parse

SOURCE = """\
# %% [markdown]
# # Title
#
# text

# %% tags=["parameters"]
size = 1

# %% tags=["exercise"]
def answer(x):
    # solution
    return x + size
    # learner
    # raise NotImplementedError  # yours
    # end
"""


def sources_of(version: str) -> list[str]:
    return [cell.source for cell in parse(SOURCE, "lesson-01", version).cells]


def test_text_loses_its_comment_signs() -> None:
    assert sources_of("learner")[0] == "# Title\n\ntext"


def test_the_learner_gets_the_gap_and_the_solution_fills_it() -> None:
    assert sources_of("learner")[2] == "def answer(x):\n    raise NotImplementedError  # yours"
    assert sources_of("solution")[2] == "def answer(x):\n    return x + size"
    assert sources_of("learner")[:2] == sources_of("solution")[:2]


def test_cells_have_the_same_ids_in_both_versions() -> None:
    versions = [parse(SOURCE, "lesson-01", version) for version in ("learner", "solution")]
    assert [[cell.id for cell in each.cells] for each in versions] == [
        ["lesson-01-00", "lesson-01-01", "lesson-01-02"]
    ] * 2


def test_outputs_are_compared_without_parameters() -> None:
    tags = [cell.metadata.get("tags") for cell in parse(SOURCE, "p", "learner").cells]
    assert tags == [None, ["parameters"], ["exercise", "nbval-check-output"]]


def test_a_talkative_cell_scrolls_and_is_not_compared() -> None:
    cells = parse(SOURCE.replace('"exercise"', '"talkative"'), "p", "learner").cells
    assert cells[2].metadata == {"tags": ["talkative", "nbval-ignore-output"], "scrolled": True}


def test_a_block_that_does_not_end_is_refused() -> None:
    with pytest.raises(ValueError, match="`# learner` has no `# end`"):
        parse(SOURCE.replace("    # end\n", ""), "p", "learner")


@pytest.mark.slow
def test_what_a_cell_prints_before_or_after_a_picture_is_one_output() -> None:
    body = 'from IPython.display import Latex\nfor n in "ab":\n    print(n, flush=True)\n'
    notebook = parse(f"# %%\n{body}display(Latex('x'))\nprint('c')\n", "p", "learner")
    execute(notebook)
    outputs = notebook.cells[0].outputs
    assert [output.get("text") for output in outputs] == ["a\nb\n", None, "c\n"]


IMPORT = re.compile(r"(?m)(?<= import )\([^()]*\)")


@pytest.mark.slow
def test_the_way_to_show_charts_reaches_the_kernel_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLOTLY_RENDERER", raising=False)
    notebook = parse("# %%\nimport os\nos.environ['PLOTLY_RENDERER']\n", "p", "learner")
    execute(notebook)
    assert CHARTS in notebook.cells[0].outputs[0].data["text/plain"]
    assert "PLOTLY_RENDERER" not in os.environ


@pytest.mark.parametrize("source", sorted(SOURCES.glob("*.py")), ids=lambda s: s.stem)
def test_a_lesson_has_short_cells_and_no_solution_for_the_learner(source: Path) -> None:
    cells = [c for c in parse(source.read_text(), "p", "learner").cells if c.cell_type == "code"]
    # An import counts as one line, however many names it lists; JupyterLab folds its cell.
    sources = [IMPORT.sub("", cell.source) for cell in cells]
    # The learner fills in the stubs of a part, so its cell may be longer.
    shown = [source for source in sources if "raise NotImplementedError" not in source]
    assert max(len(source.splitlines()) for source in shown) <= 15
    assert "# solution" not in "".join(cell.source for cell in cells)


@pytest.mark.parametrize("source", sorted(SOURCES.glob("*.py")), ids=lambda s: s.stem)
def test_only_a_cell_that_shows_a_wrong_answer_need_not_pass(source: Path) -> None:
    for cell in parse(source.read_text(), "p", "solution").cells:
        if cell.cell_type != "code" or "check(" not in cell.source:
            continue
        is_free = "must_pass=False" in cell.source
        assert is_free == ("refused" in cell.metadata.tags), cell.source
