"""Tests steps 3 to 7 of the bookie: plausible wrong parts are rejected, each for its own reason."""

from pathlib import Path

import pytest

from labkit.course.checking.refused import Refused
from labkit.course.runs.trial import CrashCounterexample
from labkit.course.workshop import check
from labkit.course.workshop.bookie.common_trials import crashes
from labkit.course.workshop.files import load
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.tracks import track
from tests.course.workshop.wrong import refused, with_changes
from tests.repeat import repeated

Changes = tuple[tuple[str, str], ...]
FIGURE = "the cost is too high"
LOST = "After every crash, everything that was acknowledged is available"

WRONG: dict[tuple[int, str], tuple[str, Changes]] = {
    (3, "the last id is searched for"): (
        FIGURE,
        (
            (
                "return self.last.get(ledger_id, -1)",
                "return max(self.ledgers.get(ledger_id) or [-1])",
            ),
        ),
    ),
    (4, "a place is that of the length"): (
        "`append` returns the offset of the entry's bytes",
        (("return self.size() - len(entry)", "return self.size() - len(entry) - 4"),),
    ),
    (4, "the length is trusted"): (
        "For an incomplete entry or another entry",
        ((" or offset + length > file.size()", ""),),
    ),
    (4, "each entry is written by itself"): (
        "Only `sync` writes to the disk",
        (
            (
                "        return self.size() - len(entry)",
                "        self.file.write(self.written, bytes(self.buffer))\n"
                "        self.written += len(self.buffer)\n"
                "        self.buffer.clear()\n"
                "        return self.size() - len(entry)",
            ),
        ),
    ),
    (5, "slots begin at 0"): (
        "After `flush`, the file contains the key, the fence",
        (("1024 + 8 * first", "8 * first"),),
    ),
    (5, "all is written each time"): (
        FIGURE,
        (
            ("for entry_id in sorted(self.changed):", "for entry_id in sorted(self.known):"),
            ("self.changed[entry_id])\n", "self.known[entry_id])\n"),
        ),
    ),
    (5, "a new file is written in its place"): (
        LOST,
        (
            ('self.disk.create(self.path + ".new")', "self.disk.create(self.path)"),
            ('self.disk.rename(self.path + ".new", self.path)', "pass"),
        ),
    ),
    (5, "any version counts"): (
        "`load` raises ValueError for an invalid header",
        ((" or version != 1", ""),),
    ),
    (5, "any magic counts"): (
        "`load` raises ValueError for an invalid header",
        (('magic != b"BKLE" or ', ""),),
    ),
    (5, "a negative key size counts"): (
        "`load` raises ValueError for an invalid header",
        (("not 0 <= key_size <= 1004", "key_size > 1004"),),
    ),
    (6, "a checkpoint without entries leaves the mark"): (
        "A checkpoint ends with the mark where the journal was durable",
        (
            (
                "        places = [\n",
                "        if not self.entries:\n            return\n        places = [\n",
            ),
        ),
    ),
    (6, "a checkpoint without entries leaves a fence in memory"): (
        "LastLogMark never passes a record whose entry is not in the entry log and the index",
        (
            (
                "        bookie.flush_indexes()\n",
                "        if places:\n            bookie.flush_indexes()\n",
            ),
        ),
    ),
    (6, "a mark of 15 bytes counts"): (
        "Your code raised struct.error: unpack requires a buffer of 16 bytes",
        (("    if len(data) != 16:\n        return 0, 0\n", ""),),
    ),
    (6, "the mark moves first"): (
        LOST,
        (
            ("        places = [\n", "        bookie.move_mark(*self.mark)\n        places = [\n"),
            (
                "        bookie.move_mark(*self.mark)\n        bookie.remove",
                "        bookie.remove",
            ),
        ),
    ),
    (6, "the mark is taken last"): (
        LOST,
        (
            ("self.mark = bookie.synced()\n", "pass\n"),
            (
                "        bookie.move_mark(*self.mark)\n",
                "        self.mark = bookie.synced()\n        bookie.move_mark(*self.mark)\n",
            ),
        ),
    ),
    (6, "the log is not synced"): (LOST, (("        bookie.sync_entry_log()\n", ""),)),
    (6, "the indexes are not flushed"): (LOST, (("        bookie.flush_indexes()\n", ""),)),
    (6, "journals go before the mark moves"): (
        LOST,
        (
            ("        bookie.move_mark(*self.mark)\n", ""),
            (
                "        bookie.remove_journals(self.mark[0])\n",
                "        bookie.remove_journals(self.mark[0])\n"
                "        bookie.move_mark(*self.mark)\n",
            ),
        ),
    ),
    (2, "a torn tail counts"): (
        "A torn tail, or a length of 0, ends the file",
        ((" or at + 4 + length > len(data)", ""),),
    ),
    (7, "the mark's offset counts in every file"): (
        LOST,
        (("offset if each == file_id else 0", "offset"),),
    ),
    (7, "only the newest journal is read"): (
        LOST,
        (("    for each in needed:\n", "    for each in needed[-1:]:\n"),),
    ),
    (7, "fences are passed over"): (LOST, (("        bookie.fence(ledger_id)", "        pass"),)),
    (7, "later journals replace a missing one"): (
        "If the journal file of LastLogMark is missing",
        (("if file_id and file_id not in needed:", "if file_id and not needed:"),),
    ),
    (7, "the mark is ignored"): (
        "Records before LastLogMark are not applied",
        (("max(512, offset if each == file_id else 0)", "512"),),
    ),
}


def keys(*reasons: str) -> list[tuple[int, str]]:
    return [key for key, (reason, _) in WRONG.items() if reason in reasons]


def wrong(folder: Path, key: tuple[int, str]) -> Learner:
    """Return a learner whose code for all steps up to this one is written; this step's code is
    wrong.
    """
    learner = load(with_changes(folder, "bookie", *WRONG[key][1]), seeds=0)
    steps = [step for step in track("bookie").steps if step.number <= key[0]]
    learner.parts = tuple(part for step in steps for part in step.parts)
    return learner


@pytest.mark.sampled
@pytest.mark.parametrize("key", [k for k in WRONG if k not in keys(LOST, FIGURE)], ids=str)
def test_a_wrong_part_is_refused_for_its_own_reason(key: tuple[int, str], tmp_path: Path) -> None:
    reason, changes = WRONG[key]
    assert reason in refused(tmp_path, "bookie", key[0], *changes).message


@pytest.mark.sampled
@pytest.mark.parametrize("key", keys(LOST), ids=str)
def test_a_wrong_order_is_refused_with_the_crash_that_loses_an_entry(
    key: tuple[int, str], tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=LOST) as refusal:
        crashes(wrong(tmp_path, key))
    assert isinstance(refusal.value.counterexample, CrashCounterexample)


@pytest.mark.parametrize("key", keys(FIGURE), ids=str)
def test_a_wasteful_part_is_right_and_does_not_reach_the_figure(
    key: tuple[int, str], tmp_path: Path
) -> None:
    learner = wrong(tmp_path, key)
    cost = track("bookie").step(key[0]).costs[0]
    assert cost.measure(learner) > cost.at_most * cost.measure(None)
    for trial in track("bookie").step(key[0]).trials:
        assert trial(learner)


@pytest.mark.slow
def test_a_figure_that_is_not_reached_refuses_the_step(tmp_path: Path) -> None:
    key = (5, "all is written each time")
    card = refused(tmp_path, "bookie", key[0], *WRONG[key][1])
    assert card.message.startswith("All promises hold, but the cost is too high.")


@pytest.mark.slow
@pytest.mark.parametrize("number", repeated([7, 6, 5, 4, 3]))
def test_the_solution_passes_each_step(number: int) -> None:
    card = check("bookie", number, track("bookie").solution, seeds=20)
    assert card.passed, card
    assert "No promise broke in 20 storms" in card.message


@pytest.mark.slow
def test_the_solution_reads_the_journal_of_a_bookie_that_crashes() -> None:
    card = check("bookie", 2, track("bookie").solution, seeds=20)
    assert card.passed, card
    assert "lost nothing in crashes" in card.message
    assert "seeds" not in card.message


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
