"""Limit the processor time of tests that run in virtual time.

Code that polls without pausing does not advance virtual time, so the test would never reach its
deadline.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def processor_time(limit_s: float = 10.0) -> Iterator[None]:
    """Raise `SystemExit`, which ends even an event loop, if the block uses more than this much
    processor time.
    """
    is_here = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not is_here:
        yield
        return
    before = signal.signal(signal.SIGPROF, _over)
    signal.setitimer(signal.ITIMER_PROF, limit_s, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _over(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit("time stands still here: something asks again and again without a pause")
