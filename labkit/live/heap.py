"""Memory that was freed goes back to the operating system.

The C library keeps freed blocks that lie between others in its heap: after a burst of large buffers
a process would stay as large as it was at its worst.
"""

import ctypes
import sys


def give_back_freed_memory() -> None:
    """Takes about a millisecond for each 100 MB that go back; nothing on other systems than Linux,
    and with other C libraries than GNU's, which do it by themselves.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
