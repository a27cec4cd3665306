"""A server process that fails to start is reported clearly."""

import sys
from pathlib import Path

import pytest

from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.host.exit_codes import EXIT_DISK_FAILED
from labkit.worlds.live.processes.node_process import NodeNotStartedError, NodeProcess

CLOSES_ITS_OUTPUT_FIRST = """
import os, sys, time
os.close(1)
time.sleep(0.2)
sys.stderr.write("labkit: b0: its disk is full\\n")
"""


def node(folder: Path) -> NodeProcess:
    return NodeProcess("bookie", "b0", folder, Recorder("b0", int))


async def started(folder: Path, script: str) -> str:
    """Return the reason why a server that runs this script did not start."""
    with pytest.raises(NodeNotStartedError) as raised:
        await node(folder).start([sys.executable, "-c", script])
    return str(raised.value)


async def test_a_server_that_ends_is_heard_out(tmp_path: Path) -> None:
    said = await started(tmp_path, CLOSES_ITS_OUTPUT_FIRST)
    assert said == "b0 did not start: its disk is full"


async def test_the_path_of_its_log_follows_words_without_labkits_prefix(tmp_path: Path) -> None:
    said = await started(tmp_path, "raise SystemExit('a mistake of ours')")
    assert said == f"b0 did not start: a mistake of ours (its log is {tmp_path / 'bookie.log'})"


async def test_a_log_that_is_removed_with_its_folder_is_not_named(tmp_path: Path) -> None:
    temporary = node(tmp_path)
    temporary.is_temporary = True
    with pytest.raises(NodeNotStartedError) as raised:
        await temporary.start([sys.executable, "-c", "raise SystemExit('a mistake of ours')"])
    assert str(raised.value) == (
        "b0 did not start: a mistake of ours (its log is deleted with its temporary"
        " folder; choose a folder to keep it)"
    )


async def test_a_server_that_says_nothing_in_time_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.worlds.live.processes.node_process._START_TIMEOUT_S", 0.5)
    (tmp_path / "bookie.log").write_text("labkit: b0: what an earlier start said\n")
    said = await started(tmp_path, "import time; time.sleep(600)")
    assert said == "b0 did not start: it printed nothing"


async def test_the_exit_code_stands_for_the_words_of_a_server_whose_log_cannot_be_written(
    tmp_path: Path,
) -> None:
    said = await started(tmp_path, f"raise SystemExit({EXIT_DISK_FAILED})")
    assert said == (
        "b0 did not start: it exited with code 5 (its disk or network failed) and printed nothing"
    )


@pytest.mark.parametrize("line", ["hello", "7", "[]", "{}"])
async def test_a_server_that_prints_anything_but_its_ports_is_killed(
    tmp_path: Path, line: str
) -> None:
    announced = f"{line}\n".encode()
    said = await started(tmp_path, f"import time; print('{line}', flush=True); time.sleep(600)")
    assert said == f"b0 did not start: it printed {announced!r} instead of its ports"
