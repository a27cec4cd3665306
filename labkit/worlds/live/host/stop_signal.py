"""Handles the signals that stop a process: SIGTERM, SIGINT (Ctrl-C), SIGHUP (terminal closed)."""

import asyncio
import signal
from collections.abc import Callable
from types import FrameType


def on_stop_signal(action: Callable[[], object]) -> None:
    """Call `action` on the event loop at the next stop signal, replacing any action set before.

    Further signals are ignored, so a second Ctrl-C does not interrupt the shutdown. If SIGHUP was
    ignored when the process started (`nohup`), it stays ignored.
    """
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    is_first = True

    def act(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_first
        if is_first and not loop.is_closed():
            is_first = False
            loop.call_soon_threadsafe(action)

    for number in numbers:
        # asyncio passes signals to the loop as bytes in a pipe, and a byte is lost if calls from
        # other threads have filled the pipe. Python's own handler, however, runs for every signal.
        loop.add_signal_handler(number, lambda: None)
        signal.signal(number, act)
    # Suppress Python's warning about a full pipe, because the bytes that are already in the pipe
    # wake the loop anyway.
    signal.set_wakeup_fd(signal.set_wakeup_fd(-1), warn_on_full_buffer=False)


def cancel_on_stop_signal() -> None:
    """Cancel the calling task at the next stop signal. Use this only if nothing must be saved."""
    task = asyncio.current_task()
    assert task is not None
    on_stop_signal(task.cancel)
