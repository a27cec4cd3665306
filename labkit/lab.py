"""JupyterLab on a notebook of this folder."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from labkit.own_python import own_command


def open_lab(notebook: str, no_browser: bool) -> int:
    """Run JupyterLab on a notebook, in place of this process where the system can do that."""
    address = f"/lab/tree/{quote(Path(notebook).as_posix())}"
    command = own_command("jupyterlab", f"--LabApp.default_url={address}")
    if no_browser:
        command.append("--no-browser")
    if sys.platform == "win32":
        return subprocess.call(command)  # execv there leaves two programs at one console.
    if os.geteuid() == 0:
        command.append("--allow-root")
    # In place of this process: Ctrl-C is Jupyter's alone, which asks back before it ends.
    return os.execv(sys.executable, command)
