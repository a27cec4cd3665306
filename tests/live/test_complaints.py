"""A line about a full disk that the full disk refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
TWICE = "from labkit.live.complaints import complain\ncomplain('one')\ncomplain('two')"


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_lines_that_cannot_be_written_do_not_change_the_exit_code() -> None:
    # Python keeps what it could not write, and tries again at the exit; not with this variable.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", TWICE], env=environment, stderr=full, timeout=60, check=False
        )
    assert done.returncode == 0
