"""Builds a folder for classes without internet access, which contains the site, all wheels, and a
page for teachers.

python -m tools.site.offline [FOLDER]      by default build/offline

The wheels cover all common operating systems, because the students may not use the same system as
the teacher.
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
"""uv's platform names, and pip's tags. The tag of macOS 13 also matches older wheels,
whereas each glibc version must be listed.
"""

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_PINS = ("-c", str(ROOT / "constraints.txt"))


def build_offline(folder: Path, cache: Path) -> None:
    """Write everything to a folder, which is emptied beforehand. Raises `CannotBuildError`."""
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "teaching.md", folder / "README.md")
    build_site(folder / "site", cache)
    wheelhouse(folder / "wheelhouse")


def wheelhouse(folder: Path) -> None:
    """Write the wheels of labkit and its dependencies for this machine and for `SYSTEMS`.

    All wheels are for the running version of Python. Raises `CannotBuildError`.
    """
    _pip("wheel", *_PINS, "-w", str(folder), str(ROOT))
    for system, tags in SYSTEMS.items():
        with tempfile.TemporaryDirectory() as work:
            needed = str(Path(work) / "requirements.txt")
            _resolve(system, needed)
            # Packages without published wheels are pure Python, and `pip wheel` has just built
            # their wheels.
            source = ("--only-binary=:all:", "--find-links", str(folder), "--no-deps", "-r", needed)
            platforms = [argument for tag in tags for argument in ("--platform", tag)]
            _pip("download", "--python-version", PYTHON, *platforms, *source, "-d", str(folder))


def _resolve(system: str, needed: str) -> None:
    """Write labkit's requirements for this system, which differ between systems, to a file."""
    command = ("uv", "pip", "compile", "--quiet", "--system-certs", "--no-header", "--no-annotate")
    target = ("--python-platform", system, "--python-version", PYTHON)
    project = str(ROOT / "pyproject.toml")
    run_command(*command, *target, *_PINS, project, "-o", needed, failure=CannotDownloadError)


def _pip(verb: str, *arguments: str) -> None:
    pip = (sys.executable, "-m", "pip", verb, "--quiet", "--disable-pip-version-check")
    run_command(*pip, *arguments, failure=CannotDownloadError)


def main(arguments: list[str]) -> None:
    try:
        build_offline(Path(*arguments or ("build/offline",)), ROOT / "build" / "site")
    except CannotBuildError as error:
        sys.exit(f"labkit: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
