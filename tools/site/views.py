"""Prepares views for pages without a kernel, by running a lesson once and storing the state of the
views in it.

A view is an anywidget, which consists of a JavaScript module, a style sheet, and a state. In
JupyterLab, the state comes from a kernel; on a page, it comes from a file, which `theme/play.js`
passes to the module. Until then, and in browsers without JavaScript, the page shows a still picture
of the view.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from hashlib import blake2b
from html import escape
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from labkit.views.widgets.scene_view import MODULE, STYLE, SceneView
from labkit.worlds.sim.run_link import CrashMapLink, RunLink, parse_link
from tools.site.cache import builder, digest_of, keep
from tools.site.pyodide import ROOT

_WIDGET = "application/vnd.jupyter.widget-view+json"
_STATE = "application/vnd.jupyter.widget-state+json"
_SHOWN = ("text/html", "image/svg+xml", "image/png", "text/markdown", "text/plain")
"""MIME types in order of preference; a page shows an output in the first type that exists."""

_CELL_TIMEOUT_S = 300
_FILES, _HTML, _RUNS = "views", "page.html", "runs.json"
_BUTTON = {"role", "tabindex", "data-act", "data-on"}
_HIDDEN = ("display", "none")
_CLICK = re.compile(r": click to .*")


def run_notebook(notebook: NotebookNode, cache: Path) -> NotebookNode:
    """Return the executed notebook with the state of its views.

    The result is cached in `cache` until the notebook or labkit changes.
    """
    code = "".join(cell.source for cell in notebook.cells)
    cached = cache / f"{digest_of(code, ROOT / 'labkit')}.ipynb"
    if not cached.exists():
        client = NotebookClient(notebook, timeout=_CELL_TIMEOUT_S, store_widget_state=True)
        # A failing cell raises an error anyway, and the kernel's own warnings would hide the
        # progress.
        client.execute(stderr=DEVNULL)
        cache.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, cached)
    return nbformat.read(cached, as_version=4)


class Views:
    """Writes the files of views to a folder; identical files are written only once."""

    def __init__(self, folder: Path) -> None:
        self.runs: dict[str, dict[str, str]] = {}
        """The files of each view that a link can open, by the part of the link's content that
        identifies the view."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def place(self, state: dict[str, Any], still: str) -> str:
        """Return an HTML element that shows the still picture until `play.js` has loaded the view.

        `state` contains the widget's traits, as a kernel sends them.
        """
        module = self.keep(state["_esm"], ".js")
        style = self.keep(state.get("_css", ""), ".css")
        traits = {name: value for name, value in state.items() if not name.startswith("_")}
        text = json.dumps(traits, separators=(",", ":"), sort_keys=True)
        data = {"module": module, "style": style, "state": self.keep(text, ".json")}
        if link := traits.get("film", {}).get("link", ""):
            self.runs.setdefault(key_of(parse_link(link)), data)
        attributes = " ".join(f'data-{name}="{escape(value)}"' for name, value in data.items())
        return f'<div class="lk-place" {attributes}>{still}</div>'

    def show(self, view: SceneView) -> str:
        """Return an HTML element for a view that is created while the site is being built."""
        return self.place(_for_readers(state_of(view)), view.image())

    def recorded(self, folder: Path, record: Callable[["Views"], str]) -> str:
        """Return the HTML that `record` returns, and keep the views that `record` places.

        Both the HTML and the views are kept in `folder`, so that a later build does not record them
        again unless labkit or the site's code has changed.
        """
        keep(folder, digest_of(builder(), ROOT / "labkit"), lambda: _record(folder, record))
        shutil.copytree(folder / _FILES, self._folder, dirs_exist_ok=True)
        for key, data in json.loads((folder / _RUNS).read_text(encoding="utf-8")).items():
            self.runs.setdefault(key, data)
        return (folder / _HTML).read_text(encoding="utf-8")

    def files(self) -> dict[str, str]:
        """Return the names of the files that a page with links to runs needs."""
        return {
            "index": self.keep(json.dumps(self.runs), ".json"),
            "module": self.keep(MODULE, ".js"),
            "style": self.keep(STYLE, ".css"),
        }

    def keep(self, text: str, suffix: str) -> str:
        name = blake2b(text.encode(), digest_size=8).hexdigest() + suffix
        (self._folder / name).write_text(text, encoding="utf-8")
        return name


def _record(folder: Path, record: Callable[[Views], str]) -> None:
    views = Views(folder / _FILES)
    (folder / _HTML).write_text(record(views), encoding="utf-8")
    (folder / _RUNS).write_text(json.dumps(views.runs), encoding="utf-8")


def state_of(view: SceneView) -> dict[str, Any]:
    """Return the state of a view, as a kernel would send it to the browser."""
    traits = {"film": view.film, "controls": view.controls, "notice": view.notice, "ended": ""}
    return {"_esm": MODULE, "_css": STYLE, **traits}


def key_of(link: RunLink | CrashMapLink) -> str:
    """Return the first part of a link's content, which `theme/run.js` uses to look up a run."""
    return re.split('"(?:scenario|script)":', link.content())[0]


def for_a_page(notebook: NotebookNode, views: Views) -> NotebookNode:
    """Keep only the preferred type of each output, replace views with HTML elements, and fold the
    same code as JupyterLab.
    """
    for cell in notebook.cells:
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            cell.metadata["tags"] = [*cell.metadata.get("tags", ()), "hide-input"]
    states = notebook.metadata.pop("widgets", {}).get(_STATE, {}).get("state", {})
    for output in _outputs(notebook):
        data = output["data"]
        state = states.get(data.get(_WIDGET, {}).get("model_id"), {}).get("state", {})
        if "_esm" in state:
            still = data.get("text/html") or f"<pre>{escape(data.get('text/plain', ''))}</pre>"
            output["data"] = {
                "text/html": views.place(_for_readers(state), still) + _settings(state)
            }
        else:
            output["data"] = {kind: data[kind] for kind in _SHOWN if kind in data}
            output["data"] = dict(list(output["data"].items())[:1])
    return notebook


def _for_readers(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a view, without the controls and buttons that need Python."""
    film = dict(state.get("film", {}))
    pairs = [tuple(pair) for pair in film.get("pairs", ())]
    hidden = len(pairs)

    def readable(numbers: list[int]) -> list[int]:
        match dict(pairs[number] for number in numbers).get("data-act", ""):
            case "" | "seek" | "show":  # The page itself handles "seek" and "show".
                return numbers
            case "fail":  # A bookie's heading is a button only in a notebook.
                return [number for number in numbers if pairs[number][0] not in _BUTTON]
        return [hidden]

    if pairs:
        film["attributes"] = [readable(numbers) for numbers in film["attributes"]]
        film["pairs"] = [*pairs, _HIDDEN]
        film["words"] = [_CLICK.sub("", each) for each in film["words"]]
        film["reports"] = False
    return {**state, "film": film, "controls": []} if "controls" in state else state


def _settings(state: dict[str, Any]) -> str:
    """Return the values of the view's controls as text."""
    words = []
    for each in state.get("controls", ()):
        if each["kind"] == "number":
            words.append(f"{each['label']}: {each['value']}")
        elif each["kind"] == "choice":
            words.append(f"{each['label']}: {dict(each['options']).get(each['value'], '')}")
    if not words:
        return ""
    shown = escape(" \N{MIDDLE DOT} ".join(words))
    return f'<p class="lk-settings">{shown}. Open the lesson in a tab to change this.</p>'


def _outputs(notebook: NotebookNode) -> Iterator[NotebookNode]:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "data" in output:
                yield output
