"""JupyterLab on a notebook."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from labkit.worlds.live.host.own_python import own_command


def open_lab(notebook: str, no_browser: bool) -> int:
    """Run JupyterLab on a notebook, in place of this process where the system can do that.

    It displays the working folder, or the notebook's own if that is elsewhere.
    """
    path, folder = Path(os.path.abspath(notebook)), Path.cwd()
    options = []
    if not path.is_relative_to(folder):
        folder = path.parent
        options.append(f"--ServerApp.root_dir={folder}")
    address = f"/lab/tree/{quote(path.relative_to(folder).as_posix())}"
    command = own_command("jupyterlab", f"--LabApp.default_url={address}", *options)
    if no_browser:
        command.append("--no-browser")
    if sys.platform == "win32":
        return subprocess.call(command)  # execv there leaves two programs at one console.
    if os.geteuid() == 0:
        command.append("--allow-root")
    # In place of this process: Ctrl-C is Jupyter's alone, which asks back before it ends.
    return os.execv(sys.executable, command)
