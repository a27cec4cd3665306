"""Every lesson runs with its own and with other parameters, and its checks stand as announced."""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from labkit.lessons.build import NOTEBOOKS, SOURCES, VERSIONS, notebook_name, parse
from tests.notebooks.running import check_with_nbval, run_with

pytestmark = [pytest.mark.java, pytest.mark.slow]

LESSONS = [notebook_name(source) for source in sorted(SOURCES.glob("[0-9][0-9]_*.py"))]
OPEN, PASSED, REFUSED = "○✔✘"
PARAMETERS: dict[str, list[dict[str, object]]] = {
    "01-entry.ipynb": [
        {"digest_type": "HMAC", "payload": "a longer payload, \u00fc and all"},
        {"digest_type": "DUMMY", "ledger_id": 70_000},
        {"digest_type": "CRC32", "ledger_id": 2**40, "payload": "!"},
    ],
    "02-journal.ipynb": [
        {"payload_size": 1, "group_size": 12},
        {"payload_size": 427, "group_size": 2},
        {"payload_size": 1500, "group_size": 5},
    ],
    "03-memtable-entry-log-index.ipynb": [
        {"ledger_count": 1, "entries_per_ledger": 2},
        {"ledger_count": 4, "entries_per_ledger": 20, "page_size": 1024},
        {"ledger_count": 3, "entries_per_ledger": 70},
    ],
    "04-last-log-mark.ipynb": [
        {"entry_count": 1, "inside_count": 2},
        {"entry_count": 4, "inside_count": 1, "payload_size": 600},
        {"entry_count": 3, "inside_count": 3, "payload_size": 1},
    ],
    "05-ensembles.ipynb": [
        {"ensemble_size": 3, "write_quorum": 2, "ack_quorum": 2, "entry_count": 5},
        {"ensemble_size": 4, "write_quorum": 4, "ack_quorum": 3, "entry_count": 2},
        {"ensemble_size": 7, "write_quorum": 3, "ack_quorum": 1, "entry_count": 12},
    ],
    "06-lac.ipynb": [
        {"entry_count": 3, "slow_ms": 5},
        {"entry_count": 12, "pause_ms": 20},
        {"entry_count": 7, "slow_ms": 100, "pause_ms": 2},
    ],
    "09-re-replication.ipynb": [
        {"lost": "b1"},
        {"delay_s": 20, "entry_count": 5},
        {"lost": "b1", "delay_s": 7, "entry_count": 30},
    ],
    "07-ensemble-change.ipynb": [
        {"entry_count": 4, "dies_after": 1},
        {"entry_count": 12, "dies_after": 7, "bookie_count": 4},
        {"entry_count": 20, "dies_after": 10, "bookie_count": 6},
    ],
    "08-fencing-recovery.ipynb": [
        {"entry_count": 12, "paused_after": 2},
        {"paused_ms": 60.0},
        {"entry_count": 6, "paused_after": 3, "paused_ms": 35.0},
    ],
    "10-garbage.ipynb": [
        {"living_percent": [0, 0, 5, 15, 80]},
        {"minor_threshold": 0.5, "major_threshold": 0.95},
        {"living_percent": [100, 45, 0], "major_threshold": 1.0},
    ],
    "11-topics.ipynb": [
        {"batch_size": 3, "chosen": 2},
        {"batch_size": 4, "entries_per_ledger": 5, "chosen": 20},
        {"batch_size": 8, "entries_per_ledger": 6, "chosen": 49},
    ],
    "12-messageid-streams.ipynb": [
        {"source": "live", "message_count": 6_000},
        {"message_count": 30_000, "swaps": 1, "redeliveries": 6, "lost_entries": 0},
        {"swaps": 12, "redeliveries": 0, "lost_entries": 9},
    ],
    "13-streaming.ipynb": [
        {"message_count": 300, "dies": "bookie-1"},
        {"rows_per_trigger": 1_000, "dies": "bookie-3"},
        {"message_count": 900, "rows_per_trigger": 47},
    ],
    "14-break-the-protocol.ipynb": [
        {"variant": "recovery without fencing", "seed_count": 20},
        {"variant": "recovery trusts one bookie", "fault_count": 3},
        {"variant": "fence not persisted", "seed_count": 15, "fault_count": 1},
    ],
}


def cards(notebook: NotebookNode) -> Iterator[tuple[str, str]]:
    """The tag of each cell that shows a card, and the card's sign."""
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        tag = next((t for t in tags if t in ("exercise", "refused")), "")
        for output in cell.get("outputs", []):
            shown = re.match(r"[○✔✘](?= \w+\.\w+: )", output.get("data", {}).get("text/plain", ""))
            if shown:
                yield tag, shown[0]


def check_cards(path: Path, version: str) -> None:
    """Exercises are open for the learner and passed in the solution; nothing else is red."""
    found = list(cards(nbformat.read(path, as_version=4)))
    expected = {"exercise": OPEN if version == "learner" else PASSED, "refused": REFUSED}
    assert [sign for _, sign in found] == [expected.get(tag, PASSED) for tag, _ in found]
    assert sum(tag == "exercise" for tag, _ in found) >= 2


def test_every_lesson_has_three_sets_of_parameters() -> None:
    assert {name: len(PARAMETERS.get(name, [])) for name in LESSONS} == dict.fromkeys(LESSONS, 3)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", LESSONS)
def test_the_committed_notebook_is_the_source_and_stands_as_announced(
    name: str, version: str
) -> None:
    source = next(s for s in SOURCES.glob("*.py") if notebook_name(s) == name)
    written = nbformat.read(VERSIONS[version] / name, as_version=4)
    parsed = parse(source.read_text(), f"lesson-{name[:2]}", version)
    assert [(c.id, c.source) for c in written.cells] == [(c.id, c.source) for c in parsed.cells]
    check_cards(VERSIONS[version] / name, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", LESSONS)
def test_what_a_lesson_shows_it_shows_again(name: str, version: str) -> None:
    check_with_nbval(str((VERSIONS[version] / name).relative_to(NOTEBOOKS)))


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name in LESSONS for number in range(3)]
)
def test_a_lesson_stands_as_announced_with_other_parameters(
    name: str, number: int, tmp_path: Path
) -> None:
    version = ("learner", "solution", "solution")[number]
    path = VERSIONS[version].relative_to(NOTEBOOKS) / name
    run_with(str(path), tmp_path / "run.ipynb", **PARAMETERS[name][number])
    check_cards(tmp_path / "run.ipynb", version)
