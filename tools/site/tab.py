"""Builds the lab that runs in a browser tab, which is JupyterLite with the prepared Pyodide and the
notebooks.

A lesson that needs a real cluster is replaced by a notebook with the same name, which explains what
the lesson needs and where to run it. Links between lessons therefore still work.
"""

import json
import logging
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4.nbbase import new_markdown_cell, new_notebook

from labkit.course.lessons.build import SOURCES, parse
from tools.site.address import Address
from tools.site.cache import builder, digest_of, keep
from tools.site.distribution import distribution, imports_of
from tools.site.lessons import Lesson
from tools.site.pyodide import ROOT, CannotBuildError, run_command

logger = logging.getLogger(__name__)

TOUR = SOURCES / "tour_in_a_tab.py"
"""The tour of the simulated world."""

_KERNEL = "@jupyterlite/pyodide-kernel-extension"
_EXTENSIONS = ("@jupyter-widgets/jupyterlab-manager", "anywidget", _KERNEL)
_KERNEL_IMPORTS = ("import pyodide_kernel", "import piplite.piplite")
"""These imports must run first: the kernel replaces modules that do not exist in a browser."""

_RUN_PAGE_IMPORT = "import labkit.course.runs.open_run"

_SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/apputils-extension:themes": {"adaptive-theme": True},
    # Render all cells of a notebook, as the tests of its views expect.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
}


def build_tab(
    target: Path, work: Path, cache: Path, lessons: Iterable[Lesson], address: Address | None
) -> None:
    """Build JupyterLite in `target`, using `work` for its sources.

    Raises `CannotBuildError`.
    """
    parts = [ROOT / name for name in ("labkit", "notebooks", "pyproject.toml", "constraints.txt")]
    kept = cache / "tab"
    keep(kept, digest_of(builder(), *parts), lambda: _build(kept, work, cache, lessons, address))
    shutil.copytree(kept, target)


def _build(
    target: Path, work: Path, cache: Path, lessons: Iterable[Lesson], address: Address | None
) -> None:
    logger.info("Tab: prepare Python with all imports, and the notebooks")
    lite = work / "lite"
    files = lite / "files"
    for name in _EXTENSIONS:
        shutil.copytree(_extension(name), lite / "labextensions" / name)
    (files / "solutions").mkdir(parents=True)
    for lesson in lessons:
        if lesson.in_a_tab:
            solution = lesson.path.parent / "solutions" / lesson.path.name
            _put(nbformat.read(lesson.path, as_version=4), files / lesson.path.name)
            _put(nbformat.read(solution, as_version=4), files / "solutions" / lesson.path.name)
        else:
            _put(_notice(lesson, address), files / lesson.path.name)
    _put(tour(), files / "00-tour.ipynb")
    imports = (*_KERNEL_IMPORTS, *imports_of(files.rglob("*.ipynb")), _RUN_PAGE_IMPORT)
    names = distribution(lite / "static" / "pyodide", cache, imports, _wheels_of_the_kernel())
    _write(lite / "jupyter-lite.json", _configuration(names))
    _write(lite / "overrides.json", _SETTINGS)
    logger.info("Tab: build JupyterLite")
    _run_jupyter_lite(lite, target, work)


def tour() -> NotebookNode:
    return parse(TOUR.read_text(encoding="utf-8"), "tab-tour", "learner")


def _put(notebook: NotebookNode, path: Path) -> None:
    # Do not split strings into lists of lines, because JupyterLite would join the lines with
    # commas.
    nbformat.write(notebook, path, split_lines=False)


def _notice(lesson: Lesson, address: Address | None) -> NotebookNode:
    binder = (
        f"[Open it on Binder]({address.binder(lesson.path.name)}), or run" if address else "Run"
    )
    text = (
        f"# {lesson.title}\n\nThis lesson needs {lesson.needs}, which a browser tab cannot run. "
        f"{binder} it at home: the page *Start* of this site explains how."
    )
    return new_notebook(cells=[new_markdown_cell(text, id=f"notice-{lesson.number}")])


def _extension(name: str) -> Path:
    folder = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / name
    if not folder.is_dir():
        raise CannotBuildError(f"{name} is not installed: pip install -e '.[site]'")
    return folder


def _wheels_of_the_kernel() -> list[Path]:
    """Return the wheels of JupyterLite's kernel, which replace those of IPython's kernel."""
    return sorted((_extension(_KERNEL) / "static" / "pypi").glob("*.whl"))


def _configuration(packages: list[str]) -> dict[str, object]:
    kernel = {
        "pyodideUrl": "./static/pyodide/pyodide.mjs",
        "disablePyPIFallback": True,
        "loadPyodideOptions": {"packages": packages},
    }
    return {
        "jupyter-lite-schema-version": 0,
        "jupyter-config-data": {
            "appName": "labkit",
            "exposeAppInBrowser": True,
            # Let JupyterLite cache files for the next visit.
            "enableServiceWorkerCache": "true",
            "disabledExtensions": ["@jupyterlab/apputils-extension:announcements"],
            "litePluginSettings": {f"{_KERNEL}:kernel": kernel},
        },
    }


def _run_jupyter_lite(lite: Path, target: Path, work: Path) -> None:
    run_command(
        *("jupyter", "lite", "build", "--force", "--apps", "lab", "--apps", "notebooks"),
        *("--no-sourcemaps", "--no-unused-shared-packages", "--no-libarchive"),
        *("--lite-dir", str(lite), "--contents", str(lite / "files")),
        *("--settings-overrides", str(lite / "overrides.json"), "--output-dir", str(target)),
        "--ignore-sys-prefix",
        f"--FederatedExtensionAddon.extra_labextensions_path={lite / 'labextensions'}",
        folder=work,
    )
    if not (target / "static" / "pyodide" / "pyodide-lock.json").exists():
        raise CannotBuildError(f"JupyterLite did not copy Pyodide to {target}")


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
