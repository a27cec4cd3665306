"""A server keeps running when a full disk makes printing impossible."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
TWICE = "from labkit.worlds.live.host.safe_output import {0}\n{0}('one')\n{0}('two')"


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(("write", "stream"), [("print_line", "stdout"), ("print_error", "stderr")])
def test_lines_that_cannot_be_written_do_not_change_the_exit_code(write: str, stream: str) -> None:
    # Without this variable, Python buffers unwritten output and tries to write it again at exit.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", TWICE.format(write)]
    with FULL.open("w") as full:
        stdout, stderr = (full, None) if stream == "stdout" else (None, full)
        process = subprocess.Popen(command, env=environment, stdout=stdout, stderr=stderr)
    with process:
        assert process.wait(60) == 0
