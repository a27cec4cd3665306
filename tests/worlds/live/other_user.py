"""Run programs as another user of the machine, which is possible only as root."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NOBODY = 65534
ROOT = Path(__file__).parents[3]

BECOME = f"""
import json, os, pathlib, sys
import encodings.idna, kazoo.client, kazoo.exceptions, kazoo.security
import labkit.worlds.live.host.private
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
"""
"""Import what the programs need before switching users, as the other user may not be able to read
Python.
"""


def as_another_user(program: str, *arguments: object) -> Any:
    """Run a program as another user and return its JSON output; skip the test unless it runs as
    root.
    """
    if sys.platform == "win32" or os.geteuid() != 0:
        pytest.skip("only root can run programs as another user")
    command = [sys.executable, "-c", BECOME + program, *map(str, arguments)]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": "/"}
    done = subprocess.run(
        command, cwd="/", env=environment, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)
