"""Finds the files that labkit ships besides its code, namely the notebooks and the recorded data.

In a checkout, these files are next to the package, where people look for them; in a wheel, they are
inside the package.
"""

import os
from pathlib import Path

SHIPPED = ("notebooks", "data")
"""Names of the directories that contain them."""

_PACKAGE = Path(__file__).parent


def shipped(name: str) -> Path:
    """Return the path of the installed directory `notebooks` or `data`."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def copy_notebooks(folder: Path) -> int:
    """Copy the notebooks that are missing from `folder`; return how many were copied.

    Existing files are never overwritten, because they may contain the user's work. Raises
    `OSError`.
    """
    source = shipped("notebooks")
    missing = [
        (notebook, target)
        for notebook in sorted(source.rglob("*.ipynb"))
        if not (target := folder / notebook.relative_to(source)).exists()
        and ".ipynb_checkpoints" not in notebook.parts
    ]
    for notebook, target in missing:
        put_whole(target, notebook.read_bytes())
    return len(missing)


def put_whole(target: Path, data: bytes) -> None:
    """Write a file atomically, creating its directory if needed. Raises `OSError`.

    A partial file must never remain, because it would be mistaken for the user's work. If the path
    is a symbolic link, the link is replaced, not followed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        unfinished.write_bytes(data)
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
