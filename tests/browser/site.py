"""Serve the static site on this machine, and open its pages as a visitor would."""

import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from tests.browser.lab import ROOT, START_MS, WINDOW, Notebook
from tools.site.distribution import distribution
from tools.site.pyodide import CannotDownloadError

BELOW = "classes/labkit"
"""A project site on GitHub Pages is also served from a subdirectory of its host."""

_REPLACE = """([index, source]) => jupyterapp.shell.currentWidget.content.widgets
    .filter((cell) => cell.model.type === "code")[index].model.sharedModel.setSource(source)"""


def built(folder: Path) -> Path:
    """Build the site in a subdirectory of `folder`, as `make site` does, and return `folder`."""
    command = (sys.executable, "-m", "tools.site", str(folder / BELOW))
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    beside = [path.name for path in (folder / BELOW).parent.iterdir()]
    assert beside == [Path(BELOW).name], "the build created files outside of the site's directory"
    return folder


def write_page(folder: Path, name: str, html: str) -> None:
    """Write a page with the style and the scripts of the pages that open runs."""
    for each in ("play.js", "run.js", "run-worker.js", "site.css"):
        shutil.copy(ROOT / "tools" / "site" / "theme" / each, folder / BELOW / "_static")
    style = '<link rel="stylesheet" href="_static/site.css">'
    page = f"<!doctype html><meta charset=utf-8><body>{style}{html}</body>"
    (folder / BELOW / name).write_text(page)


def add_python(folder: Path, cache: Path) -> None:
    """Add the Python that pages run. Skips the test if it cannot be downloaded."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("Node.js and npm are not on the PATH")
    python = folder / BELOW / "tab" / "static" / "pyodide"
    if python.exists():
        return
    try:
        distribution(python, cache, ["import labkit.course.runs.open_run"])
    except CannotDownloadError as error:
        pytest.skip(str(error))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Keep the test output free of access logs."""


class Site:
    """The site, which is served on a loopback port, and the requests that its pages send.

    asked: every requested URL.
    errors: uncaught exceptions and error messages on the pages' consoles.
    """

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser, self.folder = browser, folder
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
        self.host = f"http://127.0.0.1:{self._server.server_port}/"
        self.asked: list[str] = []
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def open(self, path: str, width: int = WINDOW["width"], theme: str = "light") -> Page:
        """Open a page of the site in a new window."""
        size: ViewportSize = {**WINDOW, "width": width}
        page = self.browser.new_page(
            viewport=size, color_scheme="dark" if theme == "dark" else "light"
        )
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(f"{path}: {error}"))
        page.goto(f"{self.host}{BELOW}/{path}")
        return page

    def open_lesson(self, name: str) -> Notebook:
        """Open a notebook in the browser tab and wait until its Python is ready."""
        return self._lesson(self.open(f"tab/lab/index.html?path={name}"))

    def reload(self, notebook: Notebook) -> Notebook:
        """Reload the notebook in the same window and wait until its Python is ready."""
        notebook.page.reload()
        return self._lesson(notebook.page)

    def stop(self) -> None:
        """Stop the server, so that the host can no longer be reached."""
        self._server.shutdown()
        self._server.server_close()

    def _lesson(self, page: Page) -> Notebook:
        page.wait_for_selector(".jp-Notebook", timeout=START_MS)
        notebook = Notebook(page, "light")
        notebook.wait_until_idle(START_MS)
        # The stored notebook already shows prompts, as if its cells had been run.
        page.evaluate("() => jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        return notebook

    def asked_elsewhere(self) -> list[str]:
        """Return the URLs on other hosts that pages have requested."""
        return [url for url in self.asked if not url.startswith((self.host, "data:", "blob:"))]


def rewrite(notebook: Notebook, index: int, source: str) -> None:
    """Replace the source of the code cell with this index."""
    notebook.page.evaluate(_REPLACE, [index, source])
