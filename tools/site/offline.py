"""For a class without internet: the site, all wheels that labkit needs, and a page for teachers.

Students' machines are not like the teacher's, so there are wheels for each usual system.

python -m tools.site.offline [FOLDER]      by default build/offline
"""

import shutil
import sys
import tempfile
from pathlib import Path

from tools.site.build import build_site
from tools.site.pyodide import ROOT, CannotBuildError, CannotDownloadError, run_command

SYSTEMS = {
    "windows": ("win_amd64",),
    "aarch64-apple-darwin": ("macosx_13_0_arm64",),
    "x86_64-unknown-linux-gnu": (
        "manylinux2014_x86_64",
        *(f"manylinux_2_{minor}_x86_64" for minor in range(5, 29)),
    ),
}
"""uv's names, and pip's tags.  macOS 13 stands for older ones, too; a version of glibc does not."""

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_PINS = ("-c", str(ROOT / "constraints.txt"))


def build_offline(folder: Path, cache: Path) -> None:
    """Put everything into a folder, which is emptied first.  Raises `CannotBuildError`."""
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "teaching.md", folder / "README.md")
    build_site(folder / "site", cache)
    wheelhouse(folder / "wheelhouse")


def wheelhouse(folder: Path) -> None:
    """The wheels of labkit and its dependencies, for this machine and for `SYSTEMS`, all for this
    version of Python.  Raises `CannotBuildError`.
    """
    _pip("wheel", *_PINS, "-w", str(folder), str(ROOT))
    for system, tags in SYSTEMS.items():
        with tempfile.TemporaryDirectory() as work:
            needed = str(Path(work) / "requirements.txt")
            _resolve(system, needed)
            # Packages without a wheel are pure Python, and `pip wheel` has just built them.
            found = ("--only-binary=:all:", "--find-links", str(folder), "--no-deps", "-r", needed)
            fits = [word for tag in tags for word in ("--platform", tag)]
            _pip("download", "--python-version", PYTHON, *fits, *found, "-d", str(folder))


def _resolve(system: str, needed: str) -> None:
    """Write what labkit needs on that system: not everywhere the same."""
    command = ("uv", "pip", "compile", "--quiet", "--system-certs", "--no-header", "--no-annotate")
    where = ("--python-platform", system, "--python-version", PYTHON)
    project = str(ROOT / "pyproject.toml")
    run_command(*command, *where, *_PINS, project, "-o", needed, failure=CannotDownloadError)


def _pip(verb: str, *words: str) -> None:
    pip = (sys.executable, "-m", "pip", verb, "--quiet", "--disable-pip-version-check")
    run_command(*pip, *words, failure=CannotDownloadError)


def main(arguments: list[str]) -> None:
    """Build into the given folder; exits with the error if it fails."""
    try:
        build_offline(Path(*arguments or ("build/offline",)), ROOT / "build" / "site")
    except CannotBuildError as error:
        sys.exit(f"labkit: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
