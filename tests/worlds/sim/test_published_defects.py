"""The two defects that the public TLA+ specification found in BookKeeper 4.13, reproduced as runs.

With the old rule, a promise is broken; with the current rule, the same faults do no harm.
"""

from dataclasses import replace

import pytest

from labkit.system.check import Outcome, Verdict, check_all
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.recovery import LedgerRecovery, RecoveryEnsembleChange, RecoveryWriter
from labkit.system.model.ledger import LedgerMetadata
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Delay
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.variants.variants import VARIANTS, Variant
from labkit.worlds.sim.workload.steps import Recover, Write
from tests.worlds.sim.runs import run_safely

FENCE_MISSES_ONE = Scenario(
    Cluster(3),
    (
        Write(entries=2, every_ms=20, close=False),
        Recover(client="x", when=On("journal.synced", entry=1)),
    ),
    (
        Delay("w", "b0", extra_ms=30, when=On("lac.advanced")),
        Delay("w", "b2", extra_ms=20, when=On("lac.advanced")),
        Delay("b1", "x", extra_ms=5, when=On("recovery.covered")),
    ),
    decisions={"lose x>b2 1": 1},
)
"""Only b1 has entry 1. The fence reaches b0 and b1, which is enough; the fence to b2 is lost. Then
b0 and b2 deny having the entry, and the add in flight arrives at b2 on a connection that was opened
before the recovery began.
"""

LAST_FRAGMENT_IS_FRESH = Scenario(
    Cluster(6),
    (
        Write(entries=5, every_ms=10, close=False),
        Recover(client="x", when=At(200)),
    ),
    (
        Crash("b0", down_ms=50, when=On("lac.advanced", nth=2)),
        Crash("b1", down_ms=50, when=On("lac.advanced", nth=2)),
        Crash("w", when=On("ensemble.set", entry=2)),
        Delay("b2", "x", extra_ms=5, when=On("recovery.started")),
        Crash("b3", when=On("lac.advanced", node="x", entry=0)),
    ),
)
"""b0 and b1 fail and are replaced by b3 and b4 from entry 2 on, after which the writer crashes.
None of the fenced bookies has any entries, and one of them fails when the first entry is written
back.
"""


def _cut(metadata: LedgerMetadata, first_entry_id: int) -> LedgerMetadata:
    segments = tuple(s for s in metadata.segments if s.first_entry_id < first_entry_id)
    return replace(metadata, segments=segments)


class _BeginsBeforeTheLastFragment(LedgerRecovery):
    """Recovery that starts reading after its LastAddConfirmed, even before the last fragment."""

    class Writer(RecoveryWriter):
        """A writer that starts a segment where a bookie fails and drops all later segments."""

        class Change(RecoveryEnsembleChange):
            async def store_ensemble(self, first_entry_id: int, ensemble: tuple[str, ...]) -> bool:
                self.writer.metadata = _cut(self.writer.metadata, first_entry_id)
                return await super().store_ensemble(first_entry_id, ensemble)

        ensemble_change_class = Change

        async def close(self) -> None:
            change = self.ensemble_change
            for first_entry_id in change.new_ensembles:
                change.stored = _cut(change.stored, first_entry_id)
            await super().close()

    writer_class = Writer

    def safe_lower_bound(self, last_add_confirmed: int) -> int:
        return last_add_confirmed


BEFORE_THE_LAST_FRAGMENT = Variant(
    "recovery begins before the last fragment",
    "a fragment begins where another one is already",
    "OnlyValidFragments",
    client=type("Client", (BookKeeper,), {"recovery_class": _BeginsBeforeTheLastFragment}),
)


def verdicts(scenario: Scenario) -> dict[str, Verdict]:
    return {verdict.name: verdict for verdict in check_all(run(scenario))}


def test_recovery_that_only_fences_first_loses_an_acknowledged_entry() -> None:
    """See BookKeeper #2614."""
    found = verdicts(replace(FENCE_MISSES_ONE, variant="no fencing on recovery reads"))
    assert found["AcknowledgedIsDurable"].outcome is Outcome.INVALID
    assert found["NoDivergenceBetweenClientAndMetaData"].outcome is Outcome.INVALID


@pytest.mark.promise(
    "Recovery reads also fence, and recovery starts after the start of the last segment: two "
    "defects that the specification published"
)
def test_recovery_reads_that_fence_keep_that_entry_from_being_acknowledged() -> None:
    trace = run_safely(FENCE_MISSES_ONE)
    assert "message.lost" in {event.kind for event in trace.events}
    [end] = [event for event in trace.events if event.kind == "recovery.ended"]
    assert end.entry == 0
    [ended] = [e for e in trace.events if e.kind == "step.ended" and e.node == "w"]
    assert ended.error == "BKLedgerFencedException"


def test_recovery_that_goes_back_behind_the_last_fragment_makes_an_invalid_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(VARIANTS, BEFORE_THE_LAST_FRAGMENT.name, BEFORE_THE_LAST_FRAGMENT)
    found = verdicts(replace(LAST_FRAGMENT_IS_FRESH, variant=BEFORE_THE_LAST_FRAGMENT.name))
    assert found["OnlyValidFragments"].outcome is Outcome.INVALID


def test_recovery_begins_behind_the_start_of_the_last_fragment() -> None:
    trace = run_safely(LAST_FRAGMENT_IS_FRESH)
    [covered] = [e for e in trace.events if e.kind == "recovery.covered" and e.node == "x"]
    [end] = [e for e in trace.events if e.kind == "recovery.ended" and e.node == "x"]
    assert (covered.entry, end.entry) == (1, 1)
