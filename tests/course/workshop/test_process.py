"""Tests step 8: the learner's bookie as a process of a live cluster."""

from pathlib import Path

import pytest

from labkit.cli.main import main
from labkit.course.checking.refused import Refused
from labkit.course.workshop.bookie.live_trial import serves_a_cluster
from labkit.course.workshop.bookie.steps.process_step import SURVIVES
from labkit.course.workshop.files import load
from labkit.course.workshop.step_check import check
from labkit.course.workshop.tracks import track
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from tests.course.workshop.wrong import with_changes


@pytest.mark.java
@pytest.mark.slow
def test_what_the_solution_acknowledged_is_there_after_sigkill() -> None:
    card = check("bookie", 8, track("bookie").solution)
    assert card.passed, card
    assert "survived SIGKILL" in card.message


WRONG = {
    "replay finds nothing": ("    for each in needed:\n", "    for each in needed[:0]:\n"),
    "replay stops after 100 records": (
        "in records(data, start):\n            end",
        "in records(data, start)[:100]:\n            end",
    ),
    "the journal is not written": ("        self.file.write(offset, data)\n", ""),
    "the journal is written only at first": (
        "        self.file.write(offset, data)\n",
        "        if offset < 4096:\n            self.file.write(offset, data)\n",
    ),
    "the entry log is not written": (
        "            self.file.write(self.written, bytes(self.buffer))\n",
        "",
    ),
    "the memtable drops old entries": (
        "        kept[entry_id] = data\n",
        "        if len(kept) > 50:\n            kept.pop(next(iter(kept)))\n"
        "        kept[entry_id] = data\n",
    ),
}


@pytest.mark.java
@pytest.mark.slow
async def test_a_wrong_bookie_is_refused_by_a_real_client(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    reasons = {}
    for number, (name, change) in enumerate(WRONG.items()):
        learner = load(with_changes(tmp_path, "bookie", change), seeds=0)
        with pytest.raises(Refused) as refusal:
            serves_a_cluster(learner, f"{zookeeper.address}/wrong-bookie-{number}")
        assert refusal.value.counterexample
        reasons[name] = refusal.value.message
    assert [name for name, reason in reasons.items() if SURVIVES not in reason] == []


def test_a_store_that_lacks_a_part_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mybookie.py"
    mine.write_text("class Journal:\n    pass\n")
    options = ["--id", "b0", "--data", str(tmp_path / "data"), "--zookeeper", "127.0.0.1:1"]
    assert main(["bookie", *options, "--store", str(mine)]) == 1
    assert "it lacks records, Memtable, EntryLog" in capsys.readouterr().err
