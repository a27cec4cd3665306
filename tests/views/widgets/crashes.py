"""Crash maps of stores with bugs, for the tests of the crash map view."""

from functools import cache

from labkit.views.widgets.crash_map import CrashMapView
from labkit.worlds.sim.crash_map.crash_map import CrashMap, crash_map
from labkit.worlds.sim.variants.storage_variants import DEFECTS
from tests.worlds.sim.scripts import ADD_INSIDE_FLUSH, EVERYTHING, NEXT_JOURNAL


@cache
def broken(name: str = "mark taken after the flush") -> CrashMap:
    """Return the map of a script that reveals this bug."""
    script = NEXT_JOURNAL if name.startswith("journals") else ADD_INSIDE_FLUSH
    return crash_map(script, store_factory=DEFECTS[name].store_factory)


@cache
def long() -> CrashMapView:
    """Return a safe map of more than a hundred operations. Tests share this map and must not alter
    it.
    """
    return CrashMapView(crash_map(EVERYTHING), at=(60, 4))
