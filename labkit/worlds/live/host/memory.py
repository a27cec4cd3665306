"""Keeps a server's memory small, and Python's garbage collector rare."""

import ctypes
import gc
import sys

_NEW_OBJECTS = 20_000
_OLD_THRESHOLD = 50


def release_freed_memory() -> None:
    """Return freed memory to the operating system, which takes about 1 ms per 100 MB.

    The GNU C library does not return freed blocks that are surrounded by blocks in use. After a
    burst of large buffers, a process would therefore stay at its peak size. Other C libraries
    return memory by themselves.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def collect_garbage_rarely() -> None:
    """Run the cyclic collector less often, and exclude all existing objects from collection.

    By default, the collector runs after every 700 new objects. With 1,000 adds in flight, each with
    a few objects that reference counting frees anyway, a client would spend a tenth of its time on
    collections that find nothing. Call this once, after all modules have been imported.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, _OLD_THRESHOLD, _OLD_THRESHOLD)
