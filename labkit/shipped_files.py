"""The files of labkit that are not code: its notebooks and the recorded data.

In a checkout they are beside the package, where people look for them; in a wheel they are in it.
"""

import os
from pathlib import Path

SHIPPED = ("notebooks", "data")
"""The names of their folders."""

_PACKAGE = Path(__file__).parent


def shipped(name: str) -> Path:
    """The folder `notebooks` or `data` that came with this labkit."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def copy_notebooks(folder: Path) -> int:
    """Copy the notebooks into `folder`, those that are not there yet; returns how many.

    An existing file is never touched: it may be a person's work.  Raises `OSError`.
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
    """Write a new file, and its folder if there is none, as a whole or not at all: half a file
    would pass for a person's work.  Raises `OSError`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        unfinished.write_bytes(data)
        os.rename(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
