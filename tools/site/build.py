"""Builds the whole site into a folder."""

import logging
import shutil
import tempfile
from pathlib import Path

from tools.site.address import Address
from tools.site.lessons import lessons
from tools.site.pages import build_pages
from tools.site.tab import build_tab

logger = logging.getLogger(__name__)


def build_site(target: Path, cache: Path) -> None:
    """Build the site in `target`, which is emptied beforehand.

    `cache` keeps downloads and everything else that a later build can reuse. Raises
    `CannotBuildError`.
    """
    # Use absolute paths, because some commands run in other folders.
    target, cache = target.resolve(), cache.resolve()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    cache.mkdir(parents=True, exist_ok=True)
    course, address = lessons(), Address.of_project()
    with tempfile.TemporaryDirectory() as work:
        build_pages(target, Path(work), cache, course, address)
        build_tab(target / "tab", Path(work), cache, course, address)
    logger.info("The site is in %s", target)
