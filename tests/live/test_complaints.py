"""A server's line that a full disk refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
TWICE = "from labkit.live.complaints import {0}\n{0}('one')\n{0}('two')"


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(("write", "stream"), [("announce", "stdout"), ("complain", "stderr")])
def test_lines_that_cannot_be_written_do_not_change_the_exit_code(write: str, stream: str) -> None:
    # Python keeps what it could not write, and tries again at the exit; not with this variable.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with (
        FULL.open("w") as full,
        subprocess.Popen(
            [sys.executable, "-c", TWICE.format(write)], env=environment, **{stream: full}
        ) as process,
    ):
        assert process.wait(60) == 0
