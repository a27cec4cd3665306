"""How often Python looks for cycles of objects, in a process with thousands of requests in flight.

The collector runs after a number of new objects, 700 by default, and walks over the live ones: with
1,000 adds in flight, each a handful of objects that are freed without it, a client spends a tenth
of its time on walks that find nothing.
"""

import gc

_NEW_OBJECTS = 20_000
_YOUNG_WALKS = 50


def look_for_cycles_rarely() -> None:
    """Call once, when all modules are loaded: the collector skips all objects that exist by now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, _YOUNG_WALKS, _YOUNG_WALKS)
