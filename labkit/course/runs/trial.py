"""Code shared by storage trials, which crash the learner's code at every possible point."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from labkit.course.checking.refused import Refused
from labkit.system.storage.store import LedgerStore
from labkit.views.widgets.crash_map import CrashMapView
from labkit.worlds.sim.crash_map.crash_map import Counterexample, CrashMap, crash_map
from labkit.worlds.sim.settings.bookie_script import ScriptStep, StoreFactory


@dataclass(frozen=True, slots=True)
class CrashCounterexample:
    """The smallest crash that breaks a promise, shown on the crash map on which it was found."""

    smallest: Counterexample
    crashes: CrashMap

    def __str__(self) -> str:
        return str(self.smallest)

    def link(self, code: str = "") -> str:
        at = self.smallest.row * len(self.crashes.variants) + self.smallest.column
        return self.crashes.link(at, code)

    def view(self) -> CrashMapView:
        return CrashMapView(self.crashes)


def must_survive(
    rule: str,
    script: Sequence[ScriptStep],
    store_factory: StoreFactory = LedgerStore,
) -> CrashMap:
    """Run the script with the learner's code and a crash at every point, and return the crash map.

    If acknowledged data is lost, reject the answer with `rule` and the smallest counterexample.
    """
    # Even labkit's own store calls the learner's functions here.
    crashes = replace(crash_map(script, store_factory=store_factory), defect=None)
    smallest = crashes.smallest()
    if smallest is not None:
        raise Refused(rule, CrashCounterexample(smallest, crashes))
    return crashes
