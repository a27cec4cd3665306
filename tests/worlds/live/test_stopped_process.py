"""`stop_process` returns only after the process has stopped running."""

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from labkit.worlds.live.host.posix import continue_process, stop_process


@pytest.fixture
def busy() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen((sys.executable, "-c", "while True: pass")) as process:
        yield process
        process.kill()


async def test_it_stands_still_and_goes_on_at_sigcont(busy: "subprocess.Popen[bytes]") -> None:
    await stop_process(busy.pid)
    process = psutil.Process(busy.pid)
    assert process.status() == psutil.STATUS_STOPPED
    continue_process(busy.pid)
    assert process.status() != psutil.STATUS_STOPPED


async def test_one_that_has_ended_is_reported(busy: "subprocess.Popen[bytes]") -> None:
    busy.kill()
    busy.wait()
    with pytest.raises(ProcessLookupError):
        await stop_process(busy.pid)
