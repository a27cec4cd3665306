"""The interval of Python's cyclic garbage collector in a process with thousands of requests in
flight.

The collector runs after a number of new objects, 700 by default, and walks over the live ones.
With 1,000 adds in flight, each a handful of objects that are freed without the collector, a client
would spend a tenth of its time on walks that find nothing.
"""

import gc

_NEW_OBJECTS = 20_000
_YOUNG_WALKS = 50


def collect_garbage_rarely() -> None:
    """Call this once, after all modules are loaded: the collector then skips all existing
    objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, _YOUNG_WALKS, _YOUNG_WALKS)
