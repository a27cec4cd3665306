"""Tests the steps of the bookie: the solution passes, and wrong parts are rejected with a case or a
run that shows why.
"""

from pathlib import Path

import pytest

from labkit.course.checking.refused import Refused
from labkit.course.runs.timeline import RunCounterexample
from labkit.course.runs.trial import CrashCounterexample
from labkit.course.workshop import check
from labkit.course.workshop.bookie.common_trials import crashes, orders, storms
from labkit.course.workshop.files import load
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.tracks import Trial, track
from tests.course.workshop.wrong import Answer, Changes, answers, refused, with_changes
from tests.repeat import repeated

WRONG = {each.title: each for each in answers("wrong_bookie")}
LOST = "After every crash, everything that was acknowledged is available"
LOSING = (
    *("a new file is written in place", "the mark moves first", "the mark is taken last"),
    *("the log is not synced", "the indexes are not flushed", "fences are skipped"),
    *("journals are removed before the mark moves", "the mark's offset counts in every file"),
    "only the newest journal is read",
)


def learner_with(folder: Path, number: int, changes: Changes) -> Learner:
    """Return a learner who has written the parts of all steps up to this one."""
    learner = load(with_changes(folder, "bookie", *changes), seeds=40)
    steps = track("bookie").steps[:number]
    learner.parts = tuple(part for step in steps for part in step.parts)
    return learner


@pytest.mark.sampled
@pytest.mark.parametrize("answer", [WRONG[title] for title in LOSING], ids=str)
def test_a_wrong_order_is_refused_with_the_crash_that_loses_an_entry(
    answer: Answer, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=LOST) as refusal:
        crashes(learner_with(tmp_path, answer.step, answer.changes))
    assert isinstance(refusal.value.counterexample, CrashCounterexample)


WORLDS: dict[str, tuple[Trial, type[CrashCounterexample] | type[RunCounterexample]]] = {
    "every crash": (crashes, CrashCounterexample),
    "every order": (orders, RunCounterexample),
    "storms": (storms, RunCounterexample),
}


@pytest.mark.parametrize("world", WORLDS)
def test_a_journal_that_is_not_synced_is_refused_in_every_world_with_a_run_that_shows_why(
    world: str, tmp_path: Path
) -> None:
    trial, shown = WORLDS[world]
    with pytest.raises(Refused) as refusal:
        trial(learner_with(tmp_path, 1, WRONG["write does not sync"].changes))
    counterexample = refusal.value.counterexample
    assert isinstance(counterexample, shown)
    assert counterexample.view() is not None


def test_a_case_with_two_groups_is_shown_with_each_call(tmp_path: Path) -> None:
    learner = learner_with(tmp_path, 1, WRONG["the padding takes no room"].changes)
    with pytest.raises(Refused) as refusal:
        track("bookie").step(1).trials[0](learner)
    assert "journal.write(*group_0)\n" in str(refusal.value.counterexample)


LOST_HEADER = {
    "the folder contains 10.txn": (
        'disk.create(f"current/{file_id:x}.txn")',
        'disk.create(f"current/{file_id}.txn")',
    ),
    "current/a.txn is gone: its name was not durable": (
        '        disk.sync_folder("current")\n        self.group_offset = 512',
        "        self.group_offset = 512",
    ),
    "at byte 4, 06 00 00 00 instead of 00 00 00 06": (
        'struct.pack(">i", 6)',
        'struct.pack("<i", 6)',
    ),
}


@pytest.mark.parametrize("reason", LOST_HEADER)
def test_a_refusal_says_why_the_header_is_missing(reason: str, tmp_path: Path) -> None:
    card = refused(tmp_path, "bookie", 1, LOST_HEADER[reason])
    assert reason in str(card.counterexample)


def test_a_mark_that_is_too_short_for_the_learners_code_is_shown_as_its_exception(
    tmp_path: Path,
) -> None:
    change = "    if len(data) != 16:\n        return 0, 0\n", ""
    card = refused(tmp_path, "bookie", 6, change)
    assert "struct.error: unpack requires a buffer of 16 bytes" in card.message


SEARCHES = (
    "return self.last.get(ledger_id, -1)",
    "return max(self.ledgers.get(ledger_id) or [-1])",
)
WRITES_ALL = (
    ("for entry_id in sorted(self.changed):", "for entry_id in sorted(self.known):"),
    ("self.changed[entry_id])\n", "self.known[entry_id])\n"),
)


@pytest.mark.parametrize(("number", "changes"), [(3, (SEARCHES,)), (5, WRITES_ALL)])
def test_a_wasteful_part_is_right_and_exceeds_the_cost_limit(
    number: int, changes: Changes, tmp_path: Path
) -> None:
    learner, step = learner_with(tmp_path, number, changes), track("bookie").step(number)
    cost = step.costs[0]
    assert cost.measure(learner) > cost.at_most * cost.measure(None)
    for trial in step.trials:
        assert trial(learner)


@pytest.mark.slow
def test_a_cost_above_the_limit_refuses_the_step(tmp_path: Path) -> None:
    card = refused(tmp_path, "bookie", 5, *WRITES_ALL)
    assert card.message.startswith("All promises hold, but the cost is too high.")


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, *repeated([7, 6, 5, 4, 3])])
def test_the_solution_passes_each_step(number: int) -> None:
    card = check("bookie", number, track("bookie").solution, seeds=20)
    assert card.passed, card
    has_storms = track("bookie").step(number).has_storms
    assert ("No promise broke in 20 storms" in card.message) is has_storms
    assert ("This check ran 20 seeds" in card.message) is has_storms


SORTED = """        import bisect

        at = bisect.bisect_left(self.ids, (ledger_id, entry_id))
        if at < len(self.ids) and self.ids[at] == (ledger_id, entry_id):
            return
        self.ids.insert(at, (ledger_id, entry_id))
        kept = self.ledgers.setdefault(ledger_id, {})
"""


@pytest.mark.slow
def test_a_memtable_with_one_sorted_list_is_right(tmp_path: Path) -> None:
    changes = (
        (
            "        kept = self.ledgers.setdefault(ledger_id, {})\n"
            "        if entry_id in kept:\n            return\n",
            SORTED,
        ),
        ("        self.size = 0\n", "        self.size = 0\n        self.ids = []\n"),
        (
            "            for ledger_id in sorted(self.ledgers)\n"
            "            for entry_id in sorted(self.ledgers[ledger_id])\n",
            "            for ledger_id, entry_id in self.ids\n",
        ),
    )
    card = check("bookie", 3, with_changes(tmp_path, "bookie", *changes), seeds=2)
    assert card.passed, card


@pytest.mark.slow
def test_parts_that_are_not_written_are_labkits(tmp_path: Path) -> None:
    skeleton = track("bookie").skeleton.read_text()
    solution = track("bookie").solution.read_text()
    begin, end = "# Step 3: the memtable", "# Step 4: the entry log"
    mine = tmp_path / "mybookie.py"
    memtable = solution[solution.index(begin) : solution.index(end)]
    mine.write_text(skeleton[: skeleton.index(begin)] + memtable)
    assert check("bookie", 3, mine, seeds=2).passed
