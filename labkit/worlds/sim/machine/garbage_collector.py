"""Disables garbage collection during a run, because the collector could close abandoned generators
at any time.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_world_count = 0
_was_collecting = True


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector. If several worlds run at the same time, the last world to
    finish re-enables it.
    """
    global _world_count, _was_collecting  # noqa: PLW0603 - there is one collector per process #
    with _lock:
        if _world_count == 0:
            _was_collecting = gc.isenabled()
            gc.disable()
        _world_count += 1
    try:
        yield
    finally:
        with _lock:
            _world_count -= 1
            if _world_count == 0 and _was_collecting:
                gc.enable()
