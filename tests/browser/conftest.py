"""One browser and one JupyterLab for all tests of this folder; without Chromium they are skipped.

The browser is closed behind the last of them: until then Playwright keeps an event loop running, in
which no other test can start one.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.lab import CHROMIUM, JupyterLab, chromium


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH: on Debian, `apt-get install chromium`")
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def lab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterLab]:
    """JupyterLab on an empty folder."""
    folder: Path = tmp_path_factory.mktemp("notebooks")
    with JupyterLab(browser, folder, tmp_path_factory.mktemp("jupyter")) as lab:
        yield lab
