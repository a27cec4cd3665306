"""Python's garbage collector, which is off while a world runs: it would end forgotten generators at
unpredictable moments.
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
    """Switch the collector off; of worlds in several threads the last to end switches it on."""
    global _world_count, _was_collecting  # noqa: PLW0603 - the collector is one for all
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
