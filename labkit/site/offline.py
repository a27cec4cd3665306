"""For a class without internet: the site, all wheels that labkit needs, and a page for teachers.

python -m labkit.site.offline [FOLDER]      by default build/offline
"""

import shutil
import sys
from pathlib import Path

from labkit.site.build import build_site
from labkit.site.pyodide import ROOT, CannotBuildError, CannotDownloadError, run_command


def build_offline(folder: Path, cache: Path) -> None:
    """Put everything into a folder, which is emptied first.  Raises `CannotBuildError`."""
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "teaching.md", folder / "README.md")
    build_site(folder / "site", cache)
    wheelhouse(folder / "wheelhouse")


def wheelhouse(folder: Path) -> None:
    """The wheels of labkit and its dependencies, for a machine like this.  Raises
    `CannotBuildError`.
    """
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check")
    pins = ("-c", str(ROOT / "constraints.txt"))
    run_command(*pip, *pins, "-w", str(folder), str(ROOT), failure=CannotDownloadError)


def main(arguments: list[str]) -> None:
    """Build into the given folder; exits with the error if it fails."""
    try:
        build_offline(Path(*arguments or ("build/offline",)), ROOT / "build" / "site")
    except CannotBuildError as error:
        sys.exit(f"labkit: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
