"""Folds outputs in the learner's notebook that reveal the result of a prediction.

Notebooks are stored with their outputs, so the answer would be visible below the question. All
outputs from a `predict` call up to and including the `compare` call with the same name are folded;
in JupyterLab, clicking an output or running its cell unfolds it. Plots are kept, except those made
by `compare`.
"""

import re

from nbformat import NotebookNode

_NAMED = r"""\b{call}\(\s*f?["']([^"']+)"""
_PREDICT, _COMPARE = (re.compile(_NAMED.format(call=call)) for call in ("predict", "compare"))
_PICTURES = ("image/png", "image/svg+xml", "application/vnd.plotly.v1+json")


def fold(notebook: NotebookNode) -> None:
    """Fold the outputs that reveal an answer."""
    open_predictions: set[str] = set()
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        compared = set(_COMPARE.findall(cell.source))
        reveals = bool(compared) or (
            bool(open_predictions) and bool(cell.outputs) and not has_picture(cell)
        )
        open_predictions = (open_predictions - compared) | set(_PREDICT.findall(cell.source))
        if reveals and not _PREDICT.search(cell.source):
            cell.metadata.setdefault("jupyter", {})["outputs_hidden"] = True


def has_picture(cell: NotebookNode) -> bool:
    shown = [output.get("data", {}) for output in cell.get("outputs", ())]
    return any(
        any(kind in data for kind in _PICTURES) or "<img" in "".join(data.get("text/html", ""))
        for data in shown
    )
