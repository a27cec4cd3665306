"""Tests step 1 of the bookie: the solution passes, and plausible wrong journals are rejected."""

from pathlib import Path

import pytest

from labkit.course.checking.refused import Refused
from labkit.course.runs.timeline import RunCounterexample
from labkit.course.runs.trial import CrashCounterexample
from labkit.course.workshop import check
from labkit.course.workshop.bookie.common_trials import crashes, orders, storms
from labkit.course.workshop.files import load
from labkit.course.workshop.tracks import Trial, track
from tests.course.workshop.wrong import refused, with_changes

WRONG = {
    "answers before the sync": (
        "        self.file.write(offset, data)\n        self.file.sync()",
        "        self.file.write(offset, data)",
        "in one write, and makes it durable with one sync",
    ),
    "syncs before it writes": (
        "        self.file.write(offset, data)\n        self.file.sync()",
        "        self.file.sync()\n        self.file.write(offset, data)",
        "in one write, and makes it durable with one sync",
    ),
    "leaves the name to chance": (
        '        disk.sync_folder("current")\n        self.group_offset = 512',
        "        self.group_offset = 512",
        "The file's header and its name are durable",
    ),
    "counts the padding's head among its zeros": (
        "zeros = left - 8 if left >= 8 else left - 8 + 512",
        "zeros = left",
        "A group consists of its records",
    ),
    "never spills into the next block": (
        "zeros = left - 8 if left >= 8 else left - 8 + 512",
        "zeros = max(0, left - 8)",
        "A group consists of its records",
    ),
    "forgets the group where it writes": (
        "        self.group = bytearray()\n        return sealed",
        "        return sealed",
        "A group consists of its records",
    ),
    "forgets that the padding takes room": (
        "        self.group_offset += len(self.group)\n",
        "        self.group_offset += len(self.group.rstrip(bytes(1)))\n",
        "`append` returns the offset of the record",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_journal_is_refused_with_the_smallest_case(name: str, tmp_path: Path) -> None:
    old, new, reason = WRONG[name]
    card = refused(tmp_path, "bookie", 1, (old, new))
    assert reason in card.message
    assert "journal = Journal(disk, 10)" in str(card.counterexample)


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


@pytest.mark.slow
def test_the_solution_passes_all_seeds_within_the_cost_limit() -> None:
    card = check("bookie", 1, track("bookie").solution, seeds=20)
    assert card.passed, card
    assert "No promise broke in 20 storms" in card.message


WORLDS: dict[str, tuple[Trial, type[CrashCounterexample] | type[RunCounterexample]]] = {
    "every crash": (crashes, CrashCounterexample),
    "every order": (orders, RunCounterexample),
    "storms": (storms, RunCounterexample),
}


@pytest.mark.parametrize("world", WORLDS)
def test_a_journal_that_is_not_synced_is_refused_in_every_world_with_a_run_that_shows_why(
    world: str, tmp_path: Path
) -> None:
    old, new, _ = WRONG["answers before the sync"]
    learner = load(with_changes(tmp_path, "bookie", (old, new)), seeds=40)
    learner.parts = ("Journal",)
    trial, shown = WORLDS[world]
    with pytest.raises(Refused) as refusal:
        trial(learner)
    counterexample = refusal.value.counterexample
    assert isinstance(counterexample, shown)
    assert counterexample.view() is not None
