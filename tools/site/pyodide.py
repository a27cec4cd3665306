"""Downloads Pyodide, which is a Python for browsers, and the wheels that labkit needs in a browser.

The wheels are labkit's dependencies for `sys_platform == 'emscripten'`, in the versions pinned in
`constraints.txt`.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from labkit.system.model.errors import LabkitError

ROOT = Path(__file__).parents[2]
RELEASE = "314.0.7"
"""Pyodide's version; its first number is the Python version, 3.14."""

_PYTHON = {
    "python_version": "3.14",
    "python_full_version": "3.14.2",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "os_name": "posix",
    "sys_platform": "emscripten",
    "platform_system": "Emscripten",
    "platform_machine": "wasm32",
    "extra": "",
}
_ROOTS = ("labkit", "micropip", "comm", "packaging", "jedi")
_NOT_IN_A_TAB = (
    "labkit/notebooks/",
    "labkit/data/",
    "tools/site/",
    "labkit/worlds/live/",
    "labkit/views/spark/",
)


class CannotBuildError(LabkitError):
    """Raised if the site cannot be built on this machine."""


class CannotDownloadError(CannotBuildError):
    """Raised if a package registry does not respond or does not have the package."""


@dataclass(frozen=True, slots=True)
class Wheel:
    path: Path
    name: str
    version: str
    needs: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> "Wheel":
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
            headers = HeaderParser().parsestr(archive.read(metadata).decode())
        needs = (Requirement(line) for line in headers.get_all("Requires-Dist", []))
        return cls(
            path,
            canonicalize_name(headers["Name"]),
            headers["Version"],
            tuple(canonicalize_name(each.name) for each in needs if _applies(each)),
        )


def wheels(cache: Path, given: Iterable[Path] = ()) -> list[Wheel]:
    """Return the wheels of labkit and of everything that labkit needs in a tab.

    Downloads are kept in `cache`; `given` are wheels that replace the pinned ones. Raises
    `CannotBuildError`.
    """
    found = {wheel.name: wheel for wheel in map(Wheel.read, (labkit_wheel(cache), *given))}
    _add_dependencies(found, cache)
    return [found[name] for name in sorted(found)]


def pyodide(cache: Path) -> Path:
    """Return the folder of Pyodide's npm package, downloading it if needed.

    Raises `CannotBuildError`.
    """
    home = cache / f"pyodide-{RELEASE}"
    folder = home / "node_modules" / "pyodide"
    if not (folder / "package.json").exists():
        npm = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(home))
        run_command(*npm, f"pyodide@{RELEASE}", failure=CannotDownloadError)
    return folder


def labkit_wheel(cache: Path) -> Path:
    """Build a wheel from this checkout, leaving out the parts that are useless in a tab."""
    built, small = cache / "built", cache / "labkit"
    for folder in (built, small):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    run_command(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built))
    (whole,) = built.glob("*.whl")
    with (
        zipfile.ZipFile(whole) as source,
        zipfile.ZipFile(small / whole.name, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            if not name.startswith(_NOT_IN_A_TAB):
                target.writestr(name, source.read(name))
    return small / whole.name


def _add_dependencies(found: dict[str, Wheel], cache: Path) -> None:
    folder = cache / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    pins = dict(_pins())
    while missing := {
        name
        for name in (*_ROOTS, *(need for wheel in found.values() for need in wheel.needs))
        if name not in found
    }:
        if unknown := missing - pins.keys():
            raise CannotBuildError(f"constraints.txt does not pin {', '.join(sorted(unknown))}")
        for wheel in _downloaded({name: pins[name] for name in missing}, folder):
            found[wheel.name] = wheel


def _downloaded(pins: dict[str, str], folder: Path) -> Iterator[Wheel]:
    absent = [
        f"{name}=={version}" for name, version in pins.items() if not _kept(folder, name, version)
    ]
    if absent:
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet")
        pure = ("--no-deps", "--only-binary=:all:", "--platform=any", "--implementation=py")
        run_command(
            *pip,
            *pure,
            "--abi=none",
            "--python-version=3.14",
            "-d",
            str(folder),
            *absent,
            failure=CannotDownloadError,
        )
    for name, version in pins.items():
        wheel = _kept(folder, name, version)
        if wheel is None:
            raise CannotBuildError(f"{name} {version} has no pure Python wheel")
        yield wheel


def _kept(folder: Path, name: str, version: str) -> Wheel | None:
    paths = folder.glob(f"*-{version}-*.whl")
    return next(
        (Wheel.read(p) for p in paths if canonicalize_name(p.name.split("-")[0]) == name), None
    )


def _pins() -> Iterator[tuple[str, str]]:
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        pin = Requirement(line)
        if _applies(pin):
            yield canonicalize_name(pin.name), str(pin.specifier).removeprefix("==")


def _applies(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(dict(_PYTHON))


def run_command(
    *command: str, folder: Path = ROOT, failure: type[CannotBuildError] = CannotBuildError
) -> None:
    """Run a command from this environment or from the PATH. Raises `failure` if it fails."""
    program = shutil.which(command[0], path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        raise CannotBuildError(f"the site cannot be built without {command[0]}: install it first")
    done = subprocess.run(
        (program, *command[1:]), cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise failure(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
