"""A server's process is started, paused and stopped, and its failures are reported clearly."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.host.exit_codes import EXIT_DISK_FAILED
from labkit.worlds.live.processes.node_process import (
    NodeNotStartedError,
    NodeProcess,
    NodeStateError,
)
from tests.until import until

CLOSES_ITS_OUTPUT_FIRST = """
import os, sys, time
os.close(1)
time.sleep(0.2)
sys.stderr.write("labkit: b0: its disk is full\\n")
"""


ANNOUNCES = "import json; print(json.dumps({'port': 1, 'trace_port': 2}), flush=True)"
WAITS = "import time; time.sleep(600)"


def node(folder: Path) -> NodeProcess:
    return NodeProcess("bookie", "b0", folder, Recorder("b0", int))


async def running(folder: Path, script: str = WAITS) -> NodeProcess:
    """Return a server that announces its ports and then runs the script."""
    server = node(folder)
    await server.start([sys.executable, "-c", f"{ANNOUNCES}; {script}"])
    return server


def pid_of(server: NodeProcess) -> int:
    assert server.process is not None
    return server.process.pid


async def started(folder: Path, script: str) -> str:
    """Return the reason why a server that runs this script did not start."""
    with pytest.raises(NodeNotStartedError) as raised:
        await node(folder).start([sys.executable, "-c", script])
    return str(raised.value)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (CLOSES_ITS_OUTPUT_FIRST, "its disk is full"),
        ("raise SystemExit('a mistake of ours')", "a mistake of ours (its log is {})"),
        (
            f"raise SystemExit({EXIT_DISK_FAILED})",
            "it exited with code 5 (its disk or network failed) and printed nothing",
        ),
    ],
)
async def test_a_server_that_ends_is_heard_out(tmp_path: Path, script: str, reason: str) -> None:
    log = tmp_path / "bookie.log"
    assert await started(tmp_path, script) == f"b0 did not start: {reason.format(log)}"


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


@pytest.mark.parametrize("line", ["hello", "7", "[]", "{}"])
async def test_a_server_that_prints_anything_but_its_ports_is_killed(
    tmp_path: Path, line: str
) -> None:
    announced = f"{line}\n".encode()
    said = await started(tmp_path, f"import time; print('{line}', flush=True); time.sleep(600)")
    assert said == f"b0 did not start: it printed {announced!r} instead of its ports"


async def test_a_server_that_has_just_died_cannot_be_paused(tmp_path: Path) -> None:
    server = await running(tmp_path)
    os.kill(pid_of(server), signal.SIGKILL)
    with pytest.raises(NodeStateError, match="b0 is down and cannot be paused"):
        await server.pause()
    await server.stop()


async def test_a_paused_server_that_has_just_died_can_be_stopped(tmp_path: Path) -> None:
    server = await running(tmp_path)
    await server.pause()
    os.kill(pid_of(server), signal.SIGKILL)
    for _ in range(200):  # Do not let the event loop notice the end.
        if not psutil.pid_exists(pid_of(server)):
            break
        time.sleep(0.01)  # noqa: ASYNC251
    await server.stop()
    assert not server.is_up


async def test_a_server_may_print_any_number_of_lines_after_its_ports(tmp_path: Path) -> None:
    server = await running(tmp_path, "print('x' * 1_000_000, flush=True); raise SystemExit(7)")
    await until(lambda: not server.is_up)
    assert server.exit_code == 7
    await server.stop()


async def test_a_server_that_fails_to_start_again_has_its_new_exit_code(tmp_path: Path) -> None:
    server = await running(tmp_path)
    await server.stop()
    with pytest.raises(NodeNotStartedError):
        await server.start([sys.executable, "-c", "raise SystemExit(3)"])
    assert (server.is_up, server.exit_code) == (False, 3)


async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    server = node(tmp_path)
    starting = asyncio.create_task(server.start([sys.executable, "-c", WAITS]))
    await until(lambda: server.is_up)
    starting.cancel()
    await asyncio.wait((starting,))
    assert starting.cancelled()
    assert not server.is_up
