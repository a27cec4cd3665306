"""Fixtures that start one browser, one JupyterLab and one static site for this directory.

The tests are skipped if Chromium is missing. The browser is closed after the last test because, as
long as the browser is open, Playwright keeps an event loop running, and no other test can start an
event loop.
"""

import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from labkit.views.widgets.page import page as page_of
from labkit.views.widgets.scene_view import SceneView
from tests.browser.lab import CHROMIUM, JupyterLab, chromium
from tests.browser.site import Site, built


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH: on Debian, `apt-get install chromium`")
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def lab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterLab]:
    """Start JupyterLab in an empty directory."""
    folder: Path = tmp_path_factory.mktemp("notebooks")
    with JupyterLab(browser, folder, tmp_path_factory.mktemp("jupyter")) as lab:
        yield lab


@pytest.fixture(scope="package")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Build the static site and serve it from a subdirectory of its host."""
    if not shutil.which("npm"):
        pytest.skip("npm is needed to download Pyodide and is not on the PATH")
    if not find_spec("jupyterlite_core"):
        pytest.skip("the tools that build the site are missing: pip install -e '.[site]'")
    with Site(browser, built(tmp_path_factory.mktemp("site"))) as site:
        yield site


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Return a function that opens views on a page. The test fails if the page reports an error."""
    pages: list[Page] = []
    errors: list[str] = []

    def opened(
        *views: SceneView, width: int = 900, theme: Literal["light", "dark"] = "light", **how: Any
    ) -> Page:
        file = tmp_path / f"page-{len(pages)}.html"
        file.write_text(page_of(views))
        size: ViewportSize = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=theme, **how)
        context.set_offline(True)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(file.as_uri())
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.context.close()
    assert errors == []
