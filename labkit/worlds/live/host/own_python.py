"""Starts labkit in other processes of this Python, from any working folder.

`python -m` looks for each module in the working folder first: a file `queue.py` that another user
has left in /tmp would run there, with ZooKeeper's secret in its environment.
"""

import os
import site
import sys
from pathlib import Path

import labkit

_PATH = "PYTHONPATH"


def folder_to_add_to_path() -> str:
    """The folder with the labkit that runs here, if another Python would not find it there.

    Empty for an installed one: every Python finds it, and its folder on the path would go before
    the standard library.
    """
    folder = str(Path(labkit.__file__).parents[1])
    is_installed = folder in (*site.getsitepackages(), site.getusersitepackages())
    return "" if is_installed else folder


def own_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module of this Python, never one of the working folder."""
    return [sys.executable, "-P", "-m", module, *arguments]


def own_path() -> dict[str, str]:
    """What the environment needs so that `own_command` finds the labkit that runs here.

    An empty part of the path is left out: it would be the working folder.
    """
    folders = [folder for folder in os.environ.get(_PATH, "").split(os.pathsep) if folder]
    mine = folder_to_add_to_path()
    if mine and mine not in folders:
        folders.append(mine)
    return {_PATH: os.pathsep.join(folders)} if folders or _PATH in os.environ else {}
