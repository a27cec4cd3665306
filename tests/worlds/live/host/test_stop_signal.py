"""Tests the signals that stop a process, using a child process."""

import subprocess
import sys

import pytest

from labkit.worlds.live.host.exit_codes import EXIT_OK
from tests.until import DEADLINE_S

STOPS = """
import asyncio, os, signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # The tests may run under nohup.
from labkit.worlds.live.host.stop_signal import on_stop_signal

async def main():
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    on_stop_signal(lambda: print("replaced"))
    on_stop_signal(lambda: (print("stops"), stopped.set()))
    {before}
    {kill}
    await stopped.wait()
    {after}

asyncio.run(main())
"""
FULL_PIPE = "for _ in range(100_000): loop.call_soon_threadsafe(lambda: None)"
SIGTERM = "os.kill(os.getpid(), signal.SIGTERM)"


def run(before: str = "pass", kill: str = SIGTERM, after: str = "pass") -> tuple[int, str]:
    """Run a process that receives a signal, and return its exit status and output."""
    code = STOPS.format(before=before, kill=kill, after=after)
    ended = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return ended.returncode, ended.stdout


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_stops_by_the_last_action(number: str) -> None:
    assert run(kill=f"os.kill(os.getpid(), signal.{number})") == (EXIT_OK, "stops\n")


def test_a_signal_stops_while_other_threads_calls_fill_the_pipe_that_wakes_the_loop() -> None:
    assert run(FULL_PIPE) == (EXIT_OK, "stops\n")


def test_a_signal_that_another_thread_receives_wakes_the_loop() -> None:
    in_thread = "lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)"
    before = f"import threading; threading.Timer(0.1, {in_thread}).start()"
    assert run(before, kill="pass") == (EXIT_OK, "stops\n")


def test_further_signals_do_not_interrupt_the_shutdown() -> None:
    again = "os.kill(os.getpid(), signal.SIGINT); await asyncio.sleep(0.1)"
    assert run(after=again) == (EXIT_OK, "stops\n")


def test_an_ignored_sighup_stays_ignored() -> None:
    before = "signal.signal(signal.SIGHUP, signal.SIG_IGN); on_stop_signal(stopped.set)"
    kill = f"os.kill(os.getpid(), signal.SIGHUP); loop.call_later(0.1, lambda: {SIGTERM})"
    assert run(before, kill) == (EXIT_OK, "")
