"""Another user of the machine, as far as root can be one."""

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
"""What a program needs is imported first: Python itself may be closed to another user."""


def as_another_user(program: str, *arguments: object) -> Any:
    """What the program prints, as JSON.  Skips the test where root is not at hand."""
    if sys.platform == "win32" or os.geteuid() != 0:
        pytest.skip("only root can be another user")
    command = [sys.executable, "-c", BECOME + program, *map(str, arguments)]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": "/"}
    done = subprocess.run(
        command, cwd="/", env=environment, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)
