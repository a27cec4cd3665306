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


def own_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module of this Python, never one of the working folder."""
    return [sys.executable, "-P", "-m", module, *arguments]


def own_path() -> dict[str, str]:
    """What the environment needs so that `own_command` finds the labkit that runs here.

    A checkout that is not installed is found by its path; installed packages are found anyway, and
    named here they would go before the standard library.
    """
    # An empty part would be the working folder.
    folders = [folder for folder in os.environ.get(_PATH, "").split(os.pathsep) if folder]
    mine = str(Path(labkit.__file__).parents[1])
    if mine not in (*folders, *site.getsitepackages(), site.getusersitepackages()):
        folders.append(mine)
    return {_PATH: os.pathsep.join(folders)} if folders or _PATH in os.environ else {}
