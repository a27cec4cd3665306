"""Shows, below the cell, how long a check has been running, starting after one second.

The line is shown only if the notebook is open in Jupyter. If a notebook is executed
non-interactively, for example in a build or by nbval, the line would make the outputs depend on the
machine's speed.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from secrets import token_hex

from IPython.display import display

AFTER_S = 1.0
READER = "JPY_SESSION_NAME"
"""Jupyter sets this environment variable for the kernel of an open notebook."""


@contextmanager
def progress_line(name: str) -> Iterator[None]:
    """Show the line while the block runs, starting after one second, and clear it afterwards."""
    if READER not in os.environ:
        yield
        return
    ended, display_id = threading.Event(), token_hex(8)

    def show() -> None:
        seconds = 0
        while not ended.wait(AFTER_S):
            seconds += 1
            line = f"Checking {name}: {seconds} s"
            _display(line, display_id, update=seconds > 1)
        if seconds:
            _display("", display_id, update=True)

    # The copied context tells IPython which cell the line belongs to.
    thread = threading.Thread(target=copy_context().run, args=(show,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _display(line: str, display_id: str, update: bool) -> None:
    display(  # type: ignore[no-untyped-call]
        {"text/plain": line}, raw=True, display_id=display_id, update=update
    )
