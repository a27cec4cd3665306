"""Keeps the results of a build, so that the next build rebuilds only what has changed."""

import filecmp
import shutil
from collections.abc import Callable, Iterable
from hashlib import blake2b
from importlib.metadata import distributions
from pathlib import Path

from tools.site.pyodide import ROOT


def digest_of(*sources: Path | str) -> str:
    """Return a digest of texts, files, and folders with all their files."""
    found = blake2b(digest_size=12)
    for source in sources:
        if isinstance(source, str):
            found.update(source.encode())
            continue
        for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()


def builder() -> str:
    """Return a digest of the code that builds the site, and of all installed packages."""
    packages = sorted(f"{each.name} {each.version}" for each in distributions())
    return digest_of(ROOT / "tools" / "site", "\n".join(packages))


def keep(folder: Path, digest: str, make: Callable[[], None]) -> None:
    """Call `make`, which writes the folder, unless the existing folder was made with the same
    digest.
    """
    stamp = folder.with_name(f"{folder.name}.digest")
    if folder.exists() and stamp.exists() and stamp.read_text() == digest:
        return
    stamp.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    make()
    stamp.write_text(digest)


def mirror(new: Path, kept: Path) -> None:
    """Make the folder `kept` identical to `new`, without touching files that have not changed."""
    for path in list(_files(kept)):
        if not (new / path).exists():
            (kept / path).unlink()
    for path in _files(new):
        if not (kept / path).exists() or not filecmp.cmp(new / path, kept / path, shallow=False):
            (kept / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(new / path, kept / path)


def _files(folder: Path) -> Iterable[Path]:
    return (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
