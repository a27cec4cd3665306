"""Prepares a snapshot of Pyodide in which labkit and its dependencies are already imported, so that
tabs open quickly.

Pyodide can save its memory, and can later start from the saved memory. The builder starts Pyodide
once under Node.js, unpacks all wheels, imports the modules that the lessons import, and saves the
memory and the files in one archive. A tab then does not have to initialise Python, unpack wheels or
compile modules. Pyodide's options for this, `_makeSnapshot` and `_loadSnapshot`, are undocumented:
before you change `RELEASE`, run `tests/worlds/sim/test_pyodide.py`.

    start/save.mjs      imports the modules and saves the memory
    start/start.mjs     loads the memory in the tab, in place of Pyodide's own script
"""

import ast
import gzip
import json
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.site.pyodide import RELEASE, Wheel, pyodide, run_command, wheels

START = Path(__file__).with_name("start")
ARCHIVE = "python.tar.gz"

_CORE = (
    "package.json",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
)
_NOT_UNPACKED = (
    # Type stubs of third-party packages for completion: 4,800 files
    "jedi/third_party/django-stubs/",
    "jedi/third_party/typeshed/stubs/",
)


def distribution(
    folder: Path, cache: Path, imports: Iterable[str], given: Iterable[Path] = ()
) -> list[str]:
    """Write Pyodide, labkit and labkit's dependencies to the folder; return the names of the
    packages.

    Downloads are kept in `cache`. `imports` are the import statements to run before the memory is
    saved, and `given` are wheels that replace the pinned ones. Raises `CannotBuildError`.
    """
    core, found = pyodide(cache), wheels(cache, given)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in _CORE:
        shutil.copy(core / name, folder)
    # JupyterLite loads `pyodide.mjs`, so replace that file with the script that starts the prepared
    # Python.
    shutil.copy(core / "pyodide.mjs", folder / "core.mjs")
    shutil.copy(START / "start.mjs", folder / "pyodide.mjs")
    # Do not list the packages, because they are in the archive, and importing a package must not
    # load its wheel.
    info = json.loads((core / "pyodide-lock.json").read_text(encoding="utf-8"))["info"]
    lock = {"info": {**info, "version": RELEASE}, "packages": {}}
    (folder / "pyodide-lock.json").write_text(json.dumps(lock), encoding="utf-8")
    with tempfile.TemporaryDirectory() as work:
        _save(folder, Path(work), found, imports)
    return sorted(wheel.name for wheel in found)


def imports_of(notebooks: Iterable[Path]) -> list[str]:
    return sorted({each for path in notebooks for each in _imports(path)})


def _imports(path: Path) -> Iterator[str]:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            code: ast.Module = compile("".join(cell["source"]), path.name, "exec", flags)
            for statement in code.body:
                if isinstance(statement, (ast.Import, ast.ImportFrom)):
                    yield ast.unparse(statement)


def _save(folder: Path, work: Path, found: Iterable[Wheel], imports: Iterable[str]) -> None:
    packages, script, memory = work / "packages", work / "imports.py", work / "memory"
    for wheel in found:
        _unpack(wheel.path, packages)
    script.write_text("\n".join(imports), encoding="utf-8")
    command = (START / "save.mjs", folder, packages, script, memory)
    run_command("node", *map(str, command))
    with (
        gzip.GzipFile(folder / ARCHIVE, "wb", 6, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w|", format=tarfile.USTAR_FORMAT) as archive,
    ):
        _add(archive, "memory", memory)
        for path in sorted(packages.rglob("*")):
            if path.is_file():
                _add(archive, path.relative_to(packages).as_posix(), path)


def _unpack(wheel: Path, packages: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if ".data/" not in name and not name.startswith(_NOT_UNPACKED):
                archive.extract(name, packages)


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    """Add a file without its owner, time and mode, so that the archive is reproducible."""
    entry = tarfile.TarInfo(name)
    entry.size = path.stat().st_size
    with path.open("rb") as file:
        archive.addfile(entry, file)
