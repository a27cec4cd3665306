"""Starts labkit in other processes with the same Python, from any working directory.

`python -m` looks for modules in the working directory first. In /tmp, it could therefore run
another user's `queue.py`, which could read ZooKeeper's secret from the environment.
"""

import os
import site
import sys
from pathlib import Path

import labkit

_PATH = "PYTHONPATH"


def folder_to_add_to_path() -> str:
    """Return the directory of the running labkit, or "" if it is installed.

    Python finds an installed labkit by itself, and adding its directory to the path would put
    site-packages before the standard library.
    """
    folder = str(Path(labkit.__file__).parents[1])
    is_installed = folder in (*site.getsitepackages(), site.getusersitepackages())
    return "" if is_installed else folder


def own_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module with this Python interpreter.

    The module is not looked up in the working directory.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def own_path() -> dict[str, str]:
    """Return the environment variables that `own_command` needs to find the running labkit.

    Empty entries of PYTHONPATH are dropped, because they mean the working directory.
    """
    folders = [folder for folder in os.environ.get(_PATH, "").split(os.pathsep) if folder]
    mine = folder_to_add_to_path()
    if mine and mine not in folders:
        folders.append(mine)
    return {_PATH: os.pathsep.join(folders)} if folders or _PATH in os.environ else {}
