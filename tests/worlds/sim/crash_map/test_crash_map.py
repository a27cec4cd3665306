"""The crash map is complete, correct and deterministic."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.system.model.errors import NoEntryException, NoLedgerException
from labkit.system.storage.disk import Disk
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.crash_map.crash_map import (
    LOST,
    REFUSED,
    VARIANTS,
    CrashMap,
    CrashVariant,
    crash_map,
)
from labkit.worlds.sim.machine.disk import DiskController
from labkit.worlds.sim.machine.disk_operation import Operation, at_random, lost
from labkit.worlds.sim.settings.bookie_script import (
    CONFIG,
    Add,
    Checkpoint,
    Collect,
    Commit,
    Fence,
    Promise,
    Restart,
    ScriptedBookie,
    ScriptStep,
    SetExplicitLac,
    StoreFactory,
    new_machine,
)
from labkit.worlds.sim.variants.storage_variants import DEFECTS
from tests.worlds.sim.scripts import COMPACTION, EVERYTHING, FULL_JOURNAL, ONE_CHECKPOINT

AT_RANDOM = tuple(
    CrashVariant(f"random {seed}", "kept, lost or torn", at_random(seed)) for seed in range(2, 6)
)
ONE_PAGE = replace(CONFIG, page_limit=1, page_size=8)
SMALL_MEMTABLE = replace(CONFIG, skip_list_size_limit=400)


def verdicts(found: CrashMap, variant: str) -> str:
    """Return a column as text: `.` for safe, otherwise the first letter of the verdict."""
    column = [v.name for v in found.variants].index(variant)
    letters = (row[column].verdict[0].replace("s", ".") for row in found.cells)
    return "".join(letters)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("script", "options"),
    [
        pytest.param(ONE_CHECKPOINT, {}, id="one checkpoint"),
        pytest.param(EVERYTHING, {}, id="every kind of step"),
        pytest.param(FULL_JOURNAL, {}, id="a journal roll"),
        pytest.param(COMPACTION, {}, id="compaction"),
        pytest.param(EVERYTHING, {"journal_count": 2, "ledger_dir_count": 2}, id="directories"),
        pytest.param(EVERYTHING, {"config": ONE_PAGE}, id="index pages over the limit"),
        pytest.param(EVERYTHING, {"config": SMALL_MEMTABLE}, id="replay larger than the memtable"),
    ],
)
def test_the_store_keeps_every_promise_at_every_crash(
    script: Sequence[ScriptStep], options: dict[str, Any]
) -> None:
    found = crash_map(script, VARIANTS + AT_RANDOM, **options)
    assert found.is_safe, found


@pytest.mark.slow
def test_a_hundred_operations_are_crashed_at_every_point() -> None:
    script: list[ScriptStep] = []
    for i in range(45):
        script += [Add(5 + i % 3, i), Commit()]
        if i % 9 == 8:
            script += [Checkpoint((Add(9, i), Commit()))]
        if i % 20 == 19:
            script += [Fence(100 + i), Commit(), Restart()]
    assert len(script) > 100
    found = crash_map(script)
    assert len(found.points) > 150
    assert found.is_safe, found


def test_there_is_a_row_for_every_operation_of_every_disk_and_one_for_the_end() -> None:
    controller = DiskController()
    ScriptedBookie(new_machine(controller), LedgerStore, CONFIG).run(EVERYTHING)
    found = crash_map(EVERYTHING)
    assert [point.operation for point in found.points] == [*controller.operations, None]
    assert all(len(row) == len(VARIANTS) for row in found.cells)


def test_the_same_script_gives_the_same_map() -> None:
    assert crash_map(EVERYTHING) == crash_map(EVERYTHING)


def test_an_entry_is_promised_once_its_commit_has_returned() -> None:
    found = crash_map([Add(5, 0), Commit(), Add(5, 1)])
    syncs = [p for p in found.points if str(p.operation) == "sync current/1.txn"]
    assert syncs[-1].step == "commit 5/0"
    assert syncs[-1].promised == ()
    assert [str(promise) for promise in found.points[-1].promised] == ["entry 0 of ledger 5"]


class ForgetsAll(LedgerStore):
    """A store that ignores the journal and starts with an empty memtable."""

    def replay_records(self, *_: object) -> None:
        pass


def test_every_kind_of_promise_is_looked_up() -> None:
    script: list[ScriptStep] = [Add(5, 0), Fence(5), SetExplicitLac(6, 0), Commit()]
    found = crash_map(script, store_factory=ForgetsAll)
    cell = found.cells[-1][0]
    assert cell.verdict == LOST
    assert str(cell) == (
        "acknowledged but lost: entry 0 of ledger 5, the fence of ledger 5, LAC 0 of ledger 6"
    )


class Stumbles(LedgerStore):
    """A store whose replay raises an exception."""

    def replay_records(self, *_: object) -> None:
        raise RuntimeError("a mistake in the code")


class Invents(LedgerStore):
    """A store that returns an entry that was never added."""

    def replay(self, *arguments: Any, **options: Any) -> Any:
        self.ledgers.create(77, b"key")
        return super().replay(*arguments, **options)


def test_what_was_never_added_is_found() -> None:
    found = crash_map([Add(5, 0), Commit()], store_factory=Invents)
    assert "found but never added" in str(found.smallest())


def test_an_error_other_than_damage_is_raised() -> None:
    with pytest.raises(RuntimeError, match="a mistake in the code"):
        crash_map([Add(5, 0), Commit()], store_factory=Stumbles)


class LosesJournals(LedgerStore):
    """A store that removes its journals after every commit."""

    def __init__(self, journal_disks: Sequence[Disk], *rest: Any) -> None:
        self.all_journal_disks = journal_disks
        super().__init__(journal_disks, *rest)

    def commit(self) -> None:
        super().commit()
        self.checkpoint()
        self.all_journal_disks[0].remove("current/1.txn")


def test_a_store_that_does_not_start_has_a_separate_cell() -> None:
    found = crash_map([Add(5, 0), Commit(), Restart()], store_factory=LosesJournals)
    assert verdicts(found, "kept").endswith("r")
    cell = found.cells[-1][1]
    assert cell.verdict == REFUSED
    assert "1.txn is missing" in str(cell)
    assert found.points[-1].step == "refused"


def test_a_cell_tells_what_survived_what_lay_on_disk_and_what_was_replayed() -> None:
    found = crash_map(ONE_CHECKPOINT)
    row = next(
        i for i, p in enumerate(found.points) if p.step == "checkpoint" and p.operation is not None
    )
    cell = found.cells[row][0]
    assert cell.replayed == (2, 0)
    journal = next(file for file in cell.files if file.path == "1.txn")
    assert journal.description == "5/key at 512, 5/0 at 556"
    assert journal.excerpt.startswith(b"\0\0\0\x28" + bytes(7) + b"\5")
    last = found.cells[-1][0]
    words = {file.path: file.description for file in last.files}
    assert words["0.log"] == "5/0 at 1028"
    assert words["0/5/5.idx"] == "5/0 in 0.log at 1028"
    assert words["lastMark"] == "replay starts in 1.txn at 1024"
    assert any(share == 0 for row in found.cells for _, share in row[0].fates)


def test_the_map_says_in_one_line_how_it_went() -> None:
    found = crash_map([Add(5, 0), Commit()], VARIANTS[:2])
    point_count = len(found.points)
    assert repr(found) == f"CrashMap: {point_count} crash points, {2 * point_count} cells, all safe"


def test_entries_of_a_deleted_ledger_are_no_longer_promised() -> None:
    found = crash_map([Add(5, 0), Add(6, 0), Commit(), Checkpoint(), Restart(), Collect((6,))])
    assert found.is_safe, found
    assert all(promise.ledger_id == 5 for promise in found.points[-1].promised)


class CountsStarts:
    """A store factory that counts how often the store is started."""

    def __init__(self) -> None:
        self.starts = 0

    def __call__(self, journals: Sequence[Disk], *rest: Any) -> LedgerStore:
        self.starts += 1
        return LedgerStore(journals, *rest)


def test_crashes_that_leave_the_same_disks_are_started_once() -> None:
    counter = CountsStarts()
    found = crash_map(EVERYTHING, store_factory=counter)
    assert counter.starts < len(found.points) * len(VARIANTS)


def lost_after_a_kill(store_factory: StoreFactory) -> list[Promise]:
    """Kill the process before each operation, restart it, and cut the power; return the entries
    that are lost then.
    """
    controller = DiskController()
    machine = new_machine(controller)
    bookie = ScriptedBookie(machine, store_factory, CONFIG)
    found: dict[Promise, None] = {}

    def kill(_: Operation) -> None:
        killed = machine.after_kill(DiskController())
        killed.open(store_factory, CONFIG)
        store = killed.after_crash(lost).open(store_factory, CONFIG)
        for promise in bookie.promised:
            if promise.kind != "entry":
                continue
            try:
                store.read_entry(promise.ledger_id, promise.number)
            except (NoLedgerException, NoEntryException):
                found[promise] = None

    controller.watch = kill
    bookie.run(EVERYTHING)
    return list(found)


def test_the_store_keeps_every_entry_if_the_power_fails_after_a_kill_and_a_restart() -> None:
    assert lost_after_a_kill(LedgerStore) == []
    assert lost_after_a_kill(DEFECTS["fence not flushed"].store_factory) != []


# Generated scripts


LEDGERS = st.integers(1, 3)


@st.composite
def scripts(draw: st.DrawFn) -> list[ScriptStep]:
    """Draw valid steps: no adds to fenced or deleted ledgers, and no reuse of ledger ids."""
    next_entry = dict.fromkeys((1, 2, 3), 0)
    closed: set[int] = set()
    deleted: set[int] = set()

    def told() -> ScriptStep:
        ledger_id = draw(LEDGERS)
        kind = draw(st.sampled_from(("add", "add", "add", "fence", "lac")))
        if ledger_id in deleted or (kind == "add" and ledger_id in closed):
            return Commit()
        if kind == "fence":
            closed.add(ledger_id)
            return Fence(ledger_id)
        if kind == "lac":
            return SetExplicitLac(ledger_id, next_entry[ledger_id])
        next_entry[ledger_id] += 1
        size = draw(st.sampled_from((1, 40, 427, 700, 1500)))
        return Add(ledger_id, next_entry[ledger_id] - 1, size)

    script: list[ScriptStep] = []
    for _ in range(draw(st.integers(2, 7))):
        script += [*(told() for _ in range(draw(st.integers(1, 3)))), Commit()]
        match draw(st.sampled_from(("", "", "flush", "flush inside", "restart", "collect"))):
            case "flush":
                script.append(Checkpoint())
            case "flush inside":
                script.append(Checkpoint(during=(told(), Commit(), told())))
            case "restart":
                script.append(Restart())
            case "collect":
                gone = draw(st.sampled_from(((), (1,), (2,))))
                deleted.update(gone)
                script += [Checkpoint(), Collect(gone)]
    return script


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.too_slow])
@given(scripts(), st.integers(1, 2), st.integers(1, 2))
def test_no_crash_breaks_a_promise(
    script: list[ScriptStep], journal_count: int, ledger_dir_count: int
) -> None:
    found = crash_map(
        script,
        VARIANTS + AT_RANDOM[:2],
        journal_count=journal_count,
        ledger_dir_count=ledger_dir_count,
    )
    assert found.is_safe, found


def test_a_padding_record_torn_in_the_middle_of_its_mask_ends_the_journal() -> None:
    found = crash_map([Fence(1), Commit(), Add(2, 0, 427), Commit()])
    assert found.is_safe, found


def test_a_key_record_torn_in_the_middle_of_its_key_creates_no_ledger() -> None:
    found = crash_map([Add(1, 0, 400), Add(2, 0), Commit()])
    assert found.is_safe, found
