"""Views that play on a page without a kernel: a lesson runs once, and its views' states are stored.

A view is an anywidget: a JavaScript module, a style sheet and its state.  In JupyterLab the state
comes from a kernel; on a page it comes from a file, and `theme/play.js` passes it to the module.
Before that, and without JavaScript, the page shows the view's still picture.
"""

import json
from collections.abc import Iterator
from hashlib import blake2b
from html import escape
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from tools.site.pyodide import ROOT

_WIDGET = "application/vnd.jupyter.widget-view+json"
_STATE = "application/vnd.jupyter.widget-state+json"
_SHOWN = ("text/html", "image/svg+xml", "image/png", "text/markdown", "text/plain")
"""The forms of an output: a page shows the first of these that exists."""

_CELL_TIMEOUT_S = 300


def run_notebook(notebook: NotebookNode, cache: Path) -> NotebookNode:
    """The notebook after a run, with the state of its views.

    It is kept in `cache` under a name that changes with the notebook and with labkit.
    """
    code = "".join(cell.source for cell in notebook.cells)
    kept = cache / f"{blake2b((code + _labkit()).encode(), digest_size=12).hexdigest()}.ipynb"
    if not kept.exists():
        NotebookClient(notebook, timeout=_CELL_TIMEOUT_S, store_widget_state=True).execute()
        cache.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, kept)
    return nbformat.read(kept, as_version=4)


class Views:
    """Writes the files of views into a folder; equal modules and style sheets only once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def place(self, state: dict[str, Any], still: str) -> str:
        """HTML that shows the still picture until it becomes the view.

        state: the widget's traits, as a kernel sends them.
        """
        module = self.keep(state["_esm"], ".js")
        style = self.keep(state.get("_css", ""), ".css")
        traits = {name: value for name, value in state.items() if not name.startswith("_")}
        text = json.dumps(traits, separators=(",", ":"), sort_keys=True)
        data = {"module": module, "style": style, "state": self.keep(text, ".json")}
        attributes = " ".join(f'data-{name}="{escape(value)}"' for name, value in data.items())
        return f'<div class="lk-place" {attributes}>{still}</div>'

    def keep(self, text: str, suffix: str) -> str:
        """Write a file under a name made from its content; returns the name."""
        name = blake2b(text.encode(), digest_size=8).hexdigest() + suffix
        (self._folder / name).write_text(text, encoding="utf-8")
        return name


def for_a_page(notebook: NotebookNode, views: Views) -> NotebookNode:
    """The notebook with one form of each output, and an HTML place for each view."""
    states = notebook.metadata.pop("widgets", {}).get(_STATE, {}).get("state", {})
    for output in _outputs(notebook):
        data = output["data"]
        state = states.get(data.get(_WIDGET, {}).get("model_id"), {}).get("state", {})
        if "_esm" in state:
            still = data.get("text/html") or f"<pre>{escape(data.get('text/plain', ''))}</pre>"
            output["data"] = {"text/html": views.place(state, still)}
        else:
            output["data"] = {kind: data[kind] for kind in _SHOWN if kind in data}
            output["data"] = dict(list(output["data"].items())[:1])
    return notebook


def _outputs(notebook: NotebookNode) -> Iterator[NotebookNode]:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "data" in output:
                yield output


def _labkit() -> str:
    """A text that changes when labkit does."""
    found = blake2b(digest_size=16)
    for path in sorted((ROOT / "labkit").rglob("*")):
        if path.suffix in {".py", ".js", ".css"} and "site" not in path.parts:
            found.update(path.read_bytes())
    return found.hexdigest()
