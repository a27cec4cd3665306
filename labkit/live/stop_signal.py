"""Signals that stop a labkit process: SIGTERM, or SIGINT from the keyboard."""

import asyncio
import signal
from collections.abc import Callable


def on_stop_signal(action: Callable[[], object]) -> None:
    """Call `action` on the event loop at the next SIGTERM or SIGINT; it replaces any earlier
    action.

    Further signals are ignored: a second Ctrl-C does not interrupt the shutdown.
    """
    loop = asyncio.get_running_loop()

    def handle(call: Callable[[], object]) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, call)

    def act_once() -> None:
        handle(lambda: None)
        action()

    handle(act_once)


def cancel_on_stop_signal() -> None:
    """Cancel the calling task at SIGTERM or SIGINT; for a task that has nothing to save yet."""
    task = asyncio.current_task()
    assert task is not None
    on_stop_signal(task.cancel)
