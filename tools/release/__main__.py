"""Builds and checks a release: `python -m tools.release [FOLDER]`."""

import re
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from labkit import __version__
from tools.site.links import broken_links, pages
from tools.site.offline import build_offline
from tools.site.pyodide import ROOT, CannotBuildError, run_command

_HATCHLING = (sys.executable, "-m", "hatchling", "build")


def build_release(folder: Path) -> None:
    """Build and check every part of the release in `folder`, which is emptied beforehand.

    Raises `CannotBuildError` if a part cannot be built or fails its check.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pack = folder / "offline"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (folder / "notes.md").write_text(release_notes(changelog, __version__), encoding="utf-8")
    with _timed("wheel and source distribution"):
        run_command(*_HATCHLING, "-d", str(folder))
    (wheel,) = folder.glob("*.whl")
    (source,) = folder.glob("*.tar.gz")
    with _timed("the source distribution builds the same wheel"):
        check_source(source, wheel)
    with _timed("site and offline pack"):
        build_offline(pack, ROOT / "build" / "site")
    with _timed(f"{len(pages(pack / 'site'))} pages of the site have no broken link"):
        if broken := broken_links(pack / "site"):
            raise CannotBuildError("broken links:\n" + "\n".join(broken))
    with _timed("the pack installs the wheel without internet, and labkit runs"):
        _check_wheel(wheel, pack / "wheelhouse")


def release_notes(changelog: str, version: str) -> str:
    """Return the section about this version. Raises `CannotBuildError` if there is no such
    section.
    """
    section = re.search(
        rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.M | re.S
    )
    if section is None or not section[1].strip():
        raise CannotBuildError(f"CHANGELOG.md has no section for {version}; add one")
    return f"# labkit {version}\n\n{section[1].strip()}\n"


def check_source(source: Path, wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        with tarfile.open(source) as archive:
            archive.extractall(work, filter="data")
        (project,) = Path(work).iterdir()
        run_command(*_HATCHLING, "-t", "wheel", "-d", work, folder=project)
        (built,) = Path(work).glob("*.whl")
        if differing := _names(built) ^ _names(wheel):
            raise CannotBuildError(f"the two wheels differ: {', '.join(sorted(differing))}")


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _check_wheel(wheel: Path, wheelhouse: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        home = Path(work) / "venv"
        run_command(sys.executable, "-m", "venv", str(home))
        pip = (str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-index")
        run_command(*pip, "--find-links", str(wheelhouse), str(wheel))
        labkit = str(home / "bin" / "labkit")
        run_command(labkit, "--version", folder=Path(work))
        run_command(labkit, "search", "--seeds", "5", "--jobs", "1", folder=Path(work))


@contextmanager
def _timed(what: str) -> Iterator[None]:
    start = monotonic()
    yield
    print(f"{monotonic() - start:6.0f} s  {what}", flush=True)


def main(arguments: list[str]) -> None:
    folder = Path(*arguments or (ROOT / "build" / "release",)).resolve()
    try:
        build_release(folder)
    except CannotBuildError as error:
        sys.exit(f"labkit: {error}")
    print(f"labkit {__version__} is in {folder}; publish the files and notes.md yourself")


if __name__ == "__main__":
    main(sys.argv[1:])
