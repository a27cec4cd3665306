"""Each planted bug is found for the expected reason, and the same scripts are safe without it."""

import pytest

from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.settings.bookie_script import ScriptStep
from labkit.worlds.sim.variants.storage_variants import DEFECTS, IndexFirst
from tests.worlds.sim.scripts import (
    ADD_INSIDE_FLUSH,
    COMPACTION,
    EVERYTHING,
    FENCE_ALONE,
    FULL_JOURNAL,
    NEXT_JOURNAL,
    ONE_CHECKPOINT,
    TWO_LEDGERS,
)

FOUND = [
    ("mark persisted before the flush", ONE_CHECKPOINT, "lost: entry 0 of ledger 5"),
    ("mark taken after the flush", ADD_INSIDE_FLUSH, "lost: entry 1 of ledger 5"),
    ("journals removed before the mark", NEXT_JOURNAL, "1.txn is missing"),
    ("ack before sync", ONE_CHECKPOINT, "lost: entry 0 of ledger 5"),
    ("wrong file synced at a roll", FULL_JOURNAL, "lost: entry 0 of ledger 5"),
    ("index before log, trusted", ONE_CHECKPOINT, "lost: entry 0 of ledger 5"),
    ("fence not flushed", FENCE_ALONE, "lost: the fence of ledger 5"),
    ("log removed before its copies are synced", COMPACTION, "lost: entry 0 of ledger 5"),
]
ELSEWHERE = {"mark of one directory", "replay keeps the mark"}


@pytest.mark.promise("Every planted storage bug is found")
def test_every_defect_is_tried_here() -> None:
    assert {name for name, _, _ in FOUND} | ELSEWHERE == set(DEFECTS)


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "script", "reason"), FOUND)
def test_a_defect_is_found_by_its_script(
    name: str, script: tuple[ScriptStep, ...], reason: str
) -> None:
    assert crash_map(script).is_safe
    smallest = crash_map(script, store_factory=DEFECTS[name].store_factory).smallest()
    assert smallest is not None
    assert reason in str(smallest)


def test_a_mark_taken_late_is_harmless_unless_an_add_lands_inside_the_flush() -> None:
    late = DEFECTS["mark taken after the flush"].store_factory
    assert crash_map(ONE_CHECKPOINT, store_factory=late).is_safe


def test_a_mark_of_one_directory_loses_what_another_has_not_flushed() -> None:
    one_sided = DEFECTS["mark of one directory"].store_factory
    assert crash_map(TWO_LEDGERS, ledger_dir_count=2).is_safe
    smallest = crash_map(TWO_LEDGERS, store_factory=one_sided, ledger_dir_count=2).smallest()
    assert smallest is not None
    assert str(smallest.cell) == "acknowledged but lost: entry 0 of ledger 5"
    assert crash_map(TWO_LEDGERS, store_factory=one_sided, ledger_dir_count=1).is_safe


def test_an_ack_before_its_sync_survives_the_end_of_the_process_but_no_power_cut() -> None:
    early = DEFECTS["ack before sync"].store_factory
    failed = {c.variant.name for c in crash_map(ONE_CHECKPOINT, store_factory=early).failures()}
    assert "lost" in failed
    assert "kept" not in failed


def test_the_index_may_come_first_when_replay_looks_into_the_log() -> None:
    assert crash_map(EVERYTHING, store_factory=IndexFirst).is_safe


def test_a_replay_that_keeps_the_mark_loses_nothing_and_never_gets_shorter() -> None:
    script = (*NEXT_JOURNAL[:2],)
    right = crash_map(script).cells[-1][0]
    wrong = crash_map(script, store_factory=DEFECTS["replay keeps the mark"].store_factory)
    assert wrong.is_safe
    assert right.replayed == (2, 0)
    assert wrong.cells[-1][0].replayed == (2, 2)
