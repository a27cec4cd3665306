"""Signals that stop a labkit process: SIGTERM, SIGINT from the keyboard, SIGHUP when its terminal
closes.
"""

import asyncio
import signal
from collections.abc import Callable


def on_stop_signal(action: Callable[[], object]) -> None:
    """Call `action` on the event loop at the next of these signals; it replaces any earlier action.

    Further signals are ignored: a second Ctrl-C does not interrupt the shutdown.  A SIGHUP that is
    ignored stays so: `nohup` started the process.
    """
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def handle(call: Callable[[], object]) -> None:
        for number in numbers:
            loop.add_signal_handler(number, call)

    def act_once() -> None:
        handle(lambda: None)
        action()

    handle(act_once)


def cancel_on_stop_signal() -> None:
    """Cancel the calling task at the next of these signals, while it has nothing to save yet."""
    task = asyncio.current_task()
    assert task is not None
    on_stop_signal(task.cancel)
