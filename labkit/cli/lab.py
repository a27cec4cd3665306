"""Opens a notebook in JupyterLab."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from labkit.worlds.live.host.own_python import own_command

_CONFIG = Path(__file__).parent / "jupyter"
"""Configuration that turns off JupyterLab's prompt about news, and a replacement for an extension
that JupyterLab cannot load.
"""


def open_lab(notebook: str, no_browser: bool) -> int:
    """Open a notebook in JupyterLab; except on Windows, JupyterLab replaces this process.

    JupyterLab's root is the working directory or, if the notebook is outside the working directory,
    the notebook's directory.
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
    command.append(f"--LabApp.extra_labextensions_path={_CONFIG / 'labextensions'}")
    given = os.environ.get("JUPYTER_CONFIG_PATH")
    config_path = os.pathsep.join(filter(None, (given, str(_CONFIG))))
    environment = os.environ | {"JUPYTER_CONFIG_PATH": config_path}
    if sys.platform == "win32":
        # On Windows, execve would leave two programs attached to one console.
        return subprocess.call(command, env=environment)
    if os.geteuid() == 0:
        command.append("--allow-root")
    # Replace this process, so that Ctrl-C reaches only Jupyter, which asks for confirmation.
    return os.execve(sys.executable, command, environment)
