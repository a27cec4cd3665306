"""Builds two executed notebooks from one source: the learner's version and the solution.

    python -m labkit.course.lessons.build          all lessons
    python -m labkit.course.lessons.build 02 10    only these

A source is a Python file in percent format. `# %%` starts a code cell, and `# %% [markdown]` starts
a text cell whose lines are comments. Tags follow, for example `tags=["parameters"]`:

    parameters            papermill's parameters cell, with defaults that run quickly
    exercise              the cell's check is open in the learner's version and passes in the
                          solution
    refused               the cell's check is refused in both versions, as the text announces; the
                          call contains `must_pass=False`
    nbval-ignore-output   the cell's output varies from run to run (the text must explain why)
    talkative             as above, but with so much output that JupyterLab should show a scroll box

nbval compares the outputs of all other cells. In the learner's version, outputs that reveal the
result of a prediction are folded (`hide_outputs`). Both versions open with their first picture
(`opening`), and both can be shown as talks (`slides`). Inside a code cell, the following comments
mark blocks:

    # solution            the following lines are only in the solution
    ...
    # learner             the following lines, which are comments, are only in the learner's version
    # raise NotImplementedError
    # end

Either block can be omitted. A line `# part bookie Journal` is replaced by the definition of
`Journal`, which is taken from the skeleton of the workshop's track in the learner's version, and
from the track's solution in the solution.
"""

import os
import re
import sys
import textwrap
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
from labkit.course.lessons.opening import open_with_picture
from labkit.course.lessons.slides import assign_slide_types
from labkit.course.workshop.definitions import definition_in
from labkit.course.workshop.tracks import track
from labkit.shipped_files import shipped

NOTEBOOKS = shipped("notebooks")
SOURCES = NOTEBOOKS / "source"
VERSIONS = {"learner": NOTEBOOKS, "solution": NOTEBOOKS / "solutions"}
CELL_TIMEOUT_S = 120

CHARTS = "plotly_mimetype+svg"
"""Store charts as data, which JupyterLab draws, and as pictures for static viewers (needs the
extra `dev`).
"""

_CELL = re.compile(r"(?m)^# %%(?P<markdown> \[markdown\])?(?: tags=(?P<tags>\[.*\]))?\n")
_LONG_IMPORT = re.compile(r"(?m)^(from \S+ import )\(\n([^()]*)\)$")
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_LANGUAGE = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"}


def notebook_name(source: Path) -> str:
    """Return the file name of the notebook; for example, `02_journal.py` becomes
    `02-journal.ipynb`.
    """
    return source.stem.replace("_", "-") + ".ipynb"


def parse(text: str, prefix: str, version: str) -> NotebookNode:
    """Return one version of a source, either "learner" or "solution", as a notebook without
    outputs.

    Cell ids have the form `<prefix>-<number>`, and are the same in both versions and in every
    build.
    """
    marks = list(_CELL.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    cells = []
    for number, (mark, end) in enumerate(zip(marks, ends, strict=True)):
        body, cell_id = text[mark.end() : end].strip(), f"{prefix}-{number:02}"
        if mark["markdown"]:
            markdown = re.sub(r"(?m)^# ?", "", body)
            if version == "solution":  # The tour has no solution; its notebook is one folder up.
                markdown = markdown.replace("](00-tour.ipynb", "](../00-tour.ipynb")
            cells.append(new_markdown_cell(markdown, id=cell_id))
        else:
            code = _LONG_IMPORT.sub(_compact, "\n".join(_lines_of(version, body)).strip())
            tags = literal_eval(mark["tags"] or "[]")
            metadata: dict[str, object] = {"tags": _with_comparison(tags)}
            if "talkative" in tags:
                metadata |= {"scrolled": True}
            cells.append(new_code_cell(code, id=cell_id, metadata=metadata))
    return new_notebook(cells=cells, metadata={"kernelspec": _KERNEL, "language_info": _LANGUAGE})


def _compact(long_import: re.Match[str]) -> str:
    """Put the names of an import on as few lines as possible, so that the first picture moves
    up.
    """
    start, names = long_import.groups()
    filled = textwrap.fill(
        " ".join(names.split()), 100, initial_indent="    ", subsequent_indent="    "
    )
    return f"{start}(\n{filled}\n)"


def _lines_of(version: str, body: str) -> Iterator[str]:
    """Yield the lines that belong to this version. Raises `ValueError` if the end of a block is
    missing.
    """
    block = ""
    for line in body.splitlines():
        word = line.strip().removeprefix("# ")
        if word in ("solution", "learner", "end") and line.strip().startswith("# "):
            block = "" if word == "end" else word
        elif word.startswith("part ") and line.startswith("# "):
            yield from _part(version, *word.split()[1:])
        elif block == "learner" == version:
            yield line.replace("# " if "# " in line else "#", "", 1)
        elif block in ("", version):
            yield line
    if block:
        raise ValueError(f"a cell's block `# {block}` has no `# end`:\n{body}")


def _part(version: str, track_name: str, name: str) -> list[str]:
    """Return the source of a part, either from the skeleton (for the learner) or from the
    solution.
    """
    found = track(track_name)
    file = found.skeleton if version == "learner" else found.solution
    return definition_in(file.read_text(encoding="utf-8"), name).splitlines()


def _with_comparison(tags: list[str]) -> list[str]:
    if "talkative" in tags:
        return [*tags, "nbval-ignore-output"]
    ignored = "nbval-ignore-output" in tags or "parameters" in tags
    return tags if ignored else [*tags, "nbval-check-output"]


def execute(notebook: NotebookNode) -> None:
    """Run all cells in a new kernel and an empty directory, without storing widget state or
    timestamps.

    Raises `nbclient.exceptions.CellExecutionError` if a cell fails.
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
        # The stderr of processes is specific to this run and this machine.
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    # The kernel splits output into messages at random points.
    CoalesceStreamsPreprocessor().preprocess(notebook, {})
    # The kernel's own description contains its exact Python version.
    notebook.metadata["language_info"] = _LANGUAGE


def build(source: Path) -> None:
    prefix = "lesson-" + source.stem.partition("_")[0]
    for version, folder in VERSIONS.items():
        notebook = parse(source.read_text(encoding="utf-8"), prefix, version)
        execute(notebook)
        if version == "learner":
            fold(notebook)
        open_with_picture(notebook, prefix)
        assign_slide_types(notebook)
        folder.mkdir(exist_ok=True)
        nbformat.write(notebook, folder / notebook_name(source))


def main(numbers: list[str]) -> None:
    for source in sorted(SOURCES.glob("[0-9][0-9]_*.py")):
        if not numbers or source.stem[:2] in numbers:
            build(source)


if __name__ == "__main__":
    main(sys.argv[1:])
