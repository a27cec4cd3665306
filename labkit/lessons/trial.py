"""What trials share: the learner's code under every crash."""

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.lessons.exercise import Refused
from labkit.sim.crash import Counterexample, CrashMap, crash_map
from labkit.sim.script import CONFIG, Step, StoreFactory
from labkit.storage.config import StorageConfig
from labkit.storage.store import LedgerStore
from labkit.widgets.crash_map import CrashMapView


@dataclass(frozen=True, slots=True)
class CrashFound:
    """The smallest crash that breaks a promise, and the crash map that it was found on, which is
    its picture.
    """

    smallest: Counterexample
    crashes: CrashMap

    def __str__(self) -> str:
        return str(self.smallest)

    def view(self) -> CrashMapView:
        """The crash map, opened at the first cell that is not safe."""
        return CrashMapView(self.crashes)


def must_survive(
    rule: str,
    script: Sequence[Step],
    store_factory: StoreFactory = LedgerStore,
    config: StorageConfig = CONFIG,
    journal_count: int = 1,
    ledger_dir_count: int = 1,
) -> CrashMap:
    """Run the script, crash it everywhere, and refuse the answer with `rule` and the smallest
    counterexample when anything acknowledged is lost.
    """
    crashes = crash_map(
        script,
        store_factory=store_factory,
        config=config,
        journal_count=journal_count,
        ledger_dir_count=ledger_dir_count,
    )
    smallest = crashes.smallest()
    if smallest is not None:
        raise Refused(rule, CrashFound(smallest, crashes))
    return crashes
