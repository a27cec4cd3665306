"""fold: in the learner's notebook no output tells what a prediction asks for.

Notebooks are stored executed, so the answer would stand below the question.  Between a `predict`
and the `compare` of the same name, that one included, outputs are folded, as JupyterLab does it: a
click or a run of the cell opens them.  Pictures stay, except those of a `compare`.
"""

import re

from nbformat import NotebookNode

_NAMED = r"""\b{call}\(\s*f?["']([^"']+)"""
_PREDICT, _COMPARE = (re.compile(_NAMED.format(call=call)) for call in ("predict", "compare"))
_PICTURES = ("image/png", "image/svg+xml", "application/vnd.plotly.v1+json")


def fold(notebook: NotebookNode) -> None:
    """Fold what gives an answer away; open what does not."""
    asked: set[str] = set()
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        told = set(_COMPARE.findall(cell.source))
        tells = bool(told) or (bool(asked) and bool(cell.outputs) and not _has_picture(cell))
        asked = (asked - told) | set(_PREDICT.findall(cell.source))
        if tells and not _PREDICT.search(cell.source):
            cell.metadata["jupyter"] = {"outputs_hidden": True}
        else:
            cell.metadata.pop("jupyter", None)


def _has_picture(cell: NotebookNode) -> bool:
    shown = [output.get("data", {}) for output in cell.outputs]
    return any(
        any(kind in data for kind in _PICTURES) or "<img" in "".join(data.get("text/html", ""))
        for data in shown
    )
