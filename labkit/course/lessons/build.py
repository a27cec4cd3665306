"""build: one source, two notebooks, executed.

    python -m labkit.course.lessons.build          every lesson
    python -m labkit.course.lessons.build 02 10    these

A source is Python in percent format.  `# %%` begins a code cell, `# %% [markdown]` a text whose
lines are comments.  Tags follow as `tags=["parameters"]`:

    parameters            papermill's cell: quick defaults
    exercise              shows a card that is open in the learner's version, passed in the solution
    refused               shows a card that is refused in both versions, as the text announces; its
                          `check` has `must_pass=False`
    nbval-ignore-output   what it shows is not the same in every run (needs a reason in the text)
    talkative             the same, and it shows a lot: in JupyterLab in a box that scrolls

The outputs of all other cells are compared by nbval.  In the learner's version those that tell what
a prediction asks for are folded (`hide_outputs`).  Both versions are talks, too (`slides`).  Inside
a code cell:

    # solution            these lines are only in the solution
    ...
    # learner             and these, written as comments, only in the learner's version
    # raise NotImplementedError
    # end

Either block may stand alone.
"""

import os
import re
import sys
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbformat import NotebookNode
from nbformat.v4.nbbase import new_code_cell, new_markdown_cell, new_notebook

from labkit.course.lessons.hide_outputs import fold
from labkit.course.lessons.slides import stage

SOURCES = Path(__file__).parent / "source"
NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
VERSIONS = {"learner": NOTEBOOKS, "solution": NOTEBOOKS / "solutions"}
CELL_TIMEOUT_S = 120

CHARTS = "plotly_mimetype+svg"
"""A chart is kept as data, which JupyterLab draws, and as a picture for where nothing runs; the
picture needs the extra `dev`.
"""

_CELL = re.compile(r"(?m)^# %%(?P<markdown> \[markdown\])?(?: tags=(?P<tags>\[.*\]))?\n")
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_LANGUAGE = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"}


def notebook_name(source: Path) -> str:
    """`02_journal.py` becomes `02-journal.ipynb`."""
    return source.stem.replace("_", "-") + ".ipynb"


def parse(text: str, prefix: str, version: str) -> NotebookNode:
    """One version ("learner" or "solution") of a source as a notebook that has not run yet.

    Cell ids are `<prefix>-<number>`, the same in both versions and in every build.
    """
    marks = list(_CELL.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    cells = []
    for number, (mark, end) in enumerate(zip(marks, ends, strict=True)):
        body, cell_id = text[mark.end() : end].strip(), f"{prefix}-{number:02}"
        if mark["markdown"]:
            words = _uncommented(body)
            if version == "solution":  # The tour has none: it is one folder up.
                words = words.replace("](00-tour.ipynb", "](../00-tour.ipynb")
            cells.append(new_markdown_cell(words, id=cell_id))
        else:
            code = "\n".join(_lines_of(version, body)).strip()
            tags = literal_eval(mark["tags"] or "[]")
            metadata: dict[str, object] = {"tags": _with_comparison(tags)}
            if "talkative" in tags:
                metadata |= {"scrolled": True}
            cells.append(new_code_cell(code, id=cell_id, metadata=metadata))
    return new_notebook(cells=cells, metadata={"kernelspec": _KERNEL, "language_info": _LANGUAGE})


def _lines_of(version: str, body: str) -> Iterator[str]:
    """The code's lines that belong to a version.  Raises `ValueError` for a block without end."""
    block = ""
    for line in body.splitlines():
        word = line.strip().removeprefix("# ")
        if word in ("solution", "learner", "end") and line.strip().startswith("# "):
            block = "" if word == "end" else word
        elif block == "learner" == version:
            yield line.replace("# " if "# " in line else "#", "", 1)
        elif block in ("", version):
            yield line
    if block:
        raise ValueError(f"a cell's block `# {block}` has no `# end`:\n{body}")


def _with_comparison(tags: list[str]) -> list[str]:
    if "talkative" in tags:
        return [*tags, "nbval-ignore-output"]
    ignored = "nbval-ignore-output" in tags or "parameters" in tags
    return tags if ignored else [*tags, "nbval-check-output"]


def _uncommented(body: str) -> str:
    return re.sub(r"(?m)^# ?", "", body)


def execute(notebook: NotebookNode) -> None:
    """Run all cells in a new kernel, in a folder that is empty at first; store neither widget state
    nor times.  Raises `nbclient.exceptions.CellExecutionError` when a cell fails.
    """
    with TemporaryDirectory(prefix="labkit-", ignore_cleanup_errors=True) as folder:
        NotebookClient(
            notebook,
            timeout=CELL_TIMEOUT_S,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            store_widget_state=False,
            record_timing=False,
        ).execute(env={"PLOTLY_RENDERER": CHARTS} | os.environ)
    for cell in notebook.cells:
        # What processes beneath the notebook say there is of this run and this machine alone.
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    # How a kernel cuts a text into messages is chance.
    CoalesceStreamsPreprocessor().preprocess(notebook, {})
    # The kernel's own description names its exact Python.
    notebook.metadata["language_info"] = _LANGUAGE


def build(source: Path) -> None:
    """Write both notebooks of a lesson, executed."""
    prefix = "lesson-" + source.stem.partition("_")[0]
    for version, folder in VERSIONS.items():
        notebook = parse(source.read_text(encoding="utf-8"), prefix, version)
        execute(notebook)
        if version == "learner":
            fold(notebook)
        stage(notebook)
        folder.mkdir(exist_ok=True)
        nbformat.write(notebook, folder / notebook_name(source))


def main(numbers: list[str]) -> None:
    """Build the lessons of these numbers, or all of them."""
    for source in sorted(SOURCES.glob("[0-9][0-9]_*.py")):
        if not numbers or source.stem[:2] in numbers:
            build(source)


if __name__ == "__main__":
    main(sys.argv[1:])
