"""A limit of processor time, for tests in virtual time.

Code that asks again and again without a pause lets no virtual time go by, so no deadline of the
test is ever reached.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def processor_time(limit_s: float = 10.0) -> Iterator[None]:
    """Fail what uses more processor time: `SystemExit`, the one error that ends an event loop."""
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
