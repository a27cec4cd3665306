"""Signals that stop a labkit process: SIGTERM, SIGINT from the keyboard, SIGHUP when its terminal
closes.
"""

import asyncio
import signal
from collections.abc import Callable
from types import FrameType


def on_stop_signal(action: Callable[[], object]) -> None:
    """Call `action` on the event loop at the next of these signals; it replaces any earlier action.

    Further signals are ignored: a second Ctrl-C does not interrupt the shutdown.  A SIGHUP that is
    ignored stays so: `nohup` started the process.
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
        # asyncio's handler wakes the loop with a byte in a pipe, and the loop learns the signal
        # from that byte, which is lost while other threads' calls fill the pipe.  Python's own
        # handler runs at each signal.
        loop.add_signal_handler(number, lambda: None)
        signal.signal(number, act)
    # Without this Python warns of a full pipe, in which the loop finds other bytes to wake it.
    signal.set_wakeup_fd(signal.set_wakeup_fd(-1), warn_on_full_buffer=False)


def cancel_on_stop_signal() -> None:
    """Cancel the calling task at the next of these signals, while it has nothing to save yet."""
    task = asyncio.current_task()
    assert task is not None
    on_stop_signal(task.cancel)
