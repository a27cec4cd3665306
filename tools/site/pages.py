"""Builds the pages with Sphinx, namely the course with its views, the documents, and the essays.

The sources are collected in a separate folder. They are executed notebooks, the documents of the
repository (with their links converted to links to pages), and the essays, which are the docstrings
of packages.
"""

import ast
import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

import nbformat
from sphinx.application import Sphinx

from benchmarks.report import pictures, report
from benchmarks.results import stored_runs
from tools.site.address import README_BLOCK, Address
from tools.site.api_page import api_page
from tools.site.cache import builder, digest_of, keep, mirror
from tools.site.configuration_page import configuration_page
from tools.site.doors import doors
from tools.site.errors_page import errors_page
from tools.site.gallery import gallery
from tools.site.landing import landing
from tools.site.lessons import Lesson
from tools.site.play_page import play_page
from tools.site.promises_page import promises_page
from tools.site.pyodide import ROOT, CannotBuildError
from tools.site.run_page import run_page
from tools.site.views import Views, for_a_page, run_notebook

logger = logging.getLogger(__name__)

THEME = Path(__file__).parent / "theme"

_DOCUMENTS = {
    "start": "README.md",
    "architecture": "ARCHITECTURE.md",
    "contributing": "CONTRIBUTING.md",
    "changelog": "CHANGELOG.md",
    **{
        f"reference/{path.stem}": f"docs/{path.name}"
        for path in sorted((ROOT / "docs").glob("*.md"))
    },
}
"""Page -> source file in the repository."""

_GENERATED = {
    "reference/api": api_page,
    "reference/configuration": configuration_page,
    "reference/errors": errors_page,
    "reference/promises": promises_page,
    "reference/benchmarks": lambda: report(stored_runs()),
}
"""Page -> the function that returns it as Markdown."""

_ESSAYS = (
    *("system", "system/broker", "system/topic", "system/client", "system/bookie"),
    *("system/storage", "system/model", "system/metadata", "system/autorecovery"),
    *("system/node", "system/trace", "system/check"),
    *("worlds", "worlds/live", "worlds/sim", "worlds/sim/explore"),
    *("views", "views/shell", "views/widgets", "views/spark"),
    *("course", "course/lessons", "course/workshop", "course/grading"),
)
_READABLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    # Make blocks that scroll horizontally accessible by keyboard.
    "<pre>": '<pre tabindex="0">',
    '<div id="search-results"></div>': '<h1>Search</h1>\n<div id="search-results"></div>',
    # The corner cell of a table, above the row labels, is not a heading.
    "<th></th>": "<td></td>",
    '<th class="head"><p></p></th>': "<td></td>",
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
}
"""HTML of the theme -> accessible replacement for screen readers and keyboards."""

_LINK = re.compile(r"\[([^][]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")
"""A link to a file of the project: its text and its path."""


def build_pages(
    target: Path, work: Path, cache: Path, lessons: list[Lesson], address: Address | None
) -> None:
    """Build the pages in `target`. Raises `CannotBuildError`, for example if a link is broken.

    Sphinx keeps its files in `cache`, and builds only the pages that have changed. If the list of
    pages or one of the titles has changed, Sphinx builds all pages, because every page contains the
    list.
    """
    source = work / "pages"
    (source / "course").mkdir(parents=True)
    views = Views(source / "_static" / "views")
    for name in ("play.js", "landing.js", "run.js", "run-worker.js", "site.css"):
        shutil.copy(THEME / name, source / "_static")
    for number, lesson in enumerate(lessons, 1):
        logger.info("Lesson %d of %d: %s", number, len(lessons), lesson.title)
        _put_lesson(lesson, source / "course", views, cache)
    logger.info("Pages: collect documents and views")
    course = [f"course/{lesson.path.stem}" for lesson in lessons]
    documents = {page: _document(page, file, address) for page, file in _DOCUMENTS.items()}
    documents |= {page: write() for page, write in _GENERATED.items()}
    essays = {f"essays/{name.replace('/', '-')}": _essay(name) for name in _ESSAYS}
    for page, text in {**documents, **essays}.items():
        path = source / f"{page}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for picture in (ROOT / "docs").glob("*.svg"):
        shutil.copy(picture, source / "reference")
        (source / "docs").mkdir(exist_ok=True)
        shutil.copy(picture, source / "docs")
    for name, drawn in pictures(stored_runs()).items():
        (source / "reference" / name).write_text(drawn, encoding="utf-8")
    (source / "views.md").write_text(gallery(lessons, views), encoding="utf-8")
    (source / "play.md").write_text(play_page(views), encoding="utf-8")
    (source / "run.md").write_text(run_page(views, cache), encoding="utf-8")
    index = landing(lessons, address, views, cache) + _contents(
        course, list(documents), list(essays)
    )
    (source / "index.md").write_text(index, encoding="utf-8")
    kept = cache / "sphinx"
    titles = {name: _title(source / f"{name}.md") for name in (*documents, *essays)}
    titles |= {lesson.path.stem: lesson.title for lesson in lessons}
    keep(kept, digest_of(builder(), repr(titles)), lambda: (kept / "pages").mkdir(parents=True))
    mirror(source, kept / "pages")
    # Use a separate folder, because MyST-NB also writes files next to the folder that it builds.
    built = kept / "html"
    # Sphinx copies the static files again, but never deletes old ones.
    shutil.rmtree(built / "_static", ignore_errors=True)
    logger.info("Pages: run Sphinx")
    _run_sphinx(kept / "pages", built, kept / "doctrees", doors(lessons, address))
    shutil.copytree(built, target, dirs_exist_ok=True)
    for path in target.rglob("*.html"):
        html = path.read_text(encoding="utf-8")
        for written, readable in _READABLE.items():
            html = html.replace(written, readable)
        path.write_text(html, encoding="utf-8")


def _put_lesson(lesson: Lesson, folder: Path, views: Views, cache: Path) -> None:
    """Write a lesson, which is executed anew if it runs in a tab, and otherwise written with its
    stored outputs.
    """
    notebook = nbformat.read(lesson.path, as_version=4)
    if lesson.in_a_tab:
        notebook = run_notebook(notebook, cache / "run")
    nbformat.write(for_a_page(notebook, views), folder / lesson.path.name)


def _document(page: str, file: str, address: Address | None) -> str:
    """Return a document in which relative links are converted to links to pages, or to files in the
    repository.
    """
    pages = {path: name for name, path in _DOCUMENTS.items()}
    up = "../" * page.count("/")

    def converted(link: re.Match[str]) -> str:
        text, (path, _, anchor) = link[1], link[2].partition("#")
        found = normpath(PurePosixPath(file).parent / path)
        anchor = f"#{anchor}" if anchor else ""
        if found in pages:
            return f"[{text}]({up}{pages[found]}.md{anchor})"
        if found.startswith("notebooks/") and found.count("/") == 1 and found.endswith(".ipynb"):
            return f"[{text}]({up}course/{PurePosixPath(found).name})"
        if found.endswith(".svg"):
            return f"[{text}]({up}{found})"
        return f"[{text}]({address.file(found)})" if address else text

    # Remove the badges, which would be loaded from other hosts.
    return _LINK.sub(converted, README_BLOCK.sub("", (ROOT / file).read_text(encoding="utf-8")))


def _title(page: Path) -> str:
    lines = page.read_text(encoding="utf-8").splitlines()
    return next((line for line in lines if line.startswith("# ")), "")


def _essay(name: str) -> str:
    module = ast.parse((ROOT / "labkit" / name / "__init__.py").read_text(encoding="utf-8"))
    # `2**40` is a power; the asterisks do not start bold text.
    text = re.sub(r"(?<=\d)\*\*(?=\d)", r"\\*\\*", ast.get_docstring(module) or "")
    return f"# labkit.{name.replace('/', '.')}\n\n{text}\n"


def _contents(course: list[str], documents: list[str], essays: list[str]) -> str:
    parts = {
        "The course": [*course, "views"],
        "Reference": [page for page in documents if page.startswith("reference/")],
        "The code, package by package": essays,
        "The project": [page for page in documents if "/" not in page],
    }
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
        for caption, pages in parts.items()
    )


def _run_sphinx(
    source: Path, target: Path, doctrees: Path, with_doors: Callable[..., None]
) -> None:
    configuration: dict[str, Any] = {
        "project": "labkit",
        "html_title": "labkit",
        "extensions": ["myst_nb", "sphinx_copybutton"],
        "html_theme": "furo",
        "html_static_path": ["_static"],
        "html_css_files": ["site.css"],
        "html_js_files": [(name, {"type": "module"}) for name in ("landing.js", "play.js")],
        "html_show_sourcelink": False,
        "html_show_copyright": False,
        "html_copy_source": False,
        "nb_execution_mode": "off",
        "nb_ipywidgets_js": {},
        "nb_code_prompt_show": "Show the code",
        "nb_code_prompt_hide": "Hide the code",
        "myst_heading_anchors": 3,
        "copybutton_exclude": ".linenos, .gp, .go",
        "suppress_warnings": ["myst.header", "misc.highlighting_failure"],
        "myst_enable_extensions": [],  # No math mode: a dollar sign is just a dollar sign.
    }
    app = Sphinx(
        source,
        None,
        target,
        doctrees,
        "html",
        configuration,
        status=None,
        warningiserror=True,
    )
    app.connect("html-page-context", with_doors)
    app.build()
    if app.statuscode:
        raise CannotBuildError("Sphinx failed to build the pages; see its warnings above")
