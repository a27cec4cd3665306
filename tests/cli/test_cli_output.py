"""Tests what `labkit` does if its output cannot be written."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pytest

from labkit.worlds.live.host.exit_codes import EXIT_FAILED
from tests.cli.test_cli import DEADLINE_S
from tests.views.shell.support import CLEAN

FULL = Path("/dev/full")
PLACE = {"PYTHONPATH": str(Path(__file__).parents[2])}


def labkit_in(
    folder: Path, verb: Sequence[str], environment: dict[str, str], output: IO[str] | int
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "labkit", *verb],
        cwd=folder,
        env={**environment, **PLACE},
        stdout=output,
        stderr=subprocess.PIPE,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.sampled
@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "verb",
    [
        ["search", "--seeds", "1", "--jobs", "1"],
        ["handout", "class", "05"],
        ["shell", "--journal", f"{CLEAN}/j", "--ledgers", f"{CLEAN}/l", "readlog", "0"],
    ],
)
def test_an_output_without_space_is_one_line(tmp_path: Path, verb: list[str]) -> None:
    # Unless PYTHONUNBUFFERED is set, Python keeps unwritten output and tries again at exit.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with FULL.open("w") as full:
        done = labkit_in(tmp_path, verb, environment, full)
    assert done.returncode == EXIT_FAILED
    [line] = [line for line in done.stderr.splitlines() if line and b"scenarios" not in line]
    assert line.startswith(b"labkit: cannot write the output: ")


@pytest.mark.slow
def test_a_sign_that_the_outputs_encoding_lacks_is_written_as_its_number(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    done = labkit_in(tmp_path, ["workshop", "bookie", "1"], environment, subprocess.PIPE)
    assert b"\\u25cb" in done.stdout
    assert done.stderr == b""
