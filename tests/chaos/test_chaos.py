"""A short run of `python -m tests.chaos`, and tests of its components.

Set `LABKIT_CHAOS_SEED=7` to use another schedule.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from labkit.system.model.entry import Entry
from labkit.worlds.live.host.guard import guarded
from tests.chaos.book import Book, Page, payload
from tests.chaos.schedule import CUT, KILL, MOST_AT_ONCE, PAUSE, Fault, make_schedule

SEED = os.environ.get("LABKIT_CHAOS_SEED", "32")
"""The schedule of this seed contains a power cut of all five bookies."""
MINUTES = "0.4"
TIMEOUT_S = 300
BOOKIES = [f"b{number}" for number in range(5)]
LEDGER = 7


@pytest.mark.promise(
    "Bookies that are killed, paused, restarted and partitioned lose no acknowledged entry, "
    "and in the end every copy exists"
)
@pytest.mark.java
@pytest.mark.slow
def test_bookies_killed_paused_and_cut_off_lose_nothing() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--minutes", MINUTES, "--seed", SEED, "--show"]
    # The child reads end of file on its standard input when this process exits, and then stops.
    with subprocess.Popen(
        guarded(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        said = run.stdout.read()
        code = run.wait(TIMEOUT_S)
    assert code == 0, said
    assert "nothing lost, nothing wrong" in said


def schedules() -> list[list[Fault]]:
    return [make_schedule(seed, 300.0, BOOKIES, (KILL, PAUSE, CUT)) for seed in range(20)]


def test_a_seed_gives_the_same_schedule() -> None:
    assert schedules() == schedules()
    assert schedules()[0] != schedules()[1]


def test_a_schedule_has_every_kind_and_power_cuts() -> None:
    for schedule in schedules():
        assert {fault.kind for fault in schedule} == {KILL, PAUSE, CUT}
        assert any(len(fault.bookies) == len(BOOKIES) for fault in schedule)


def suffering(schedule: Sequence[Fault], at_s: float) -> list[str]:
    return [
        bookie
        for fault in schedule
        for bookie in fault.bookies
        if fault.at_s <= at_s < fault.at_s + fault.for_s
    ]


def test_a_bookie_suffers_one_fault_at_a_time_and_few_suffer_at_once() -> None:
    for schedule in schedules():
        for fault in schedule:
            names = suffering(schedule, fault.at_s)
            assert len(names) == len(set(names))
            assert len(names) <= max(MOST_AT_ONCE, len(fault.bookies))


def entry(entry_id: int, content: bytes) -> Entry:
    return Entry(LEDGER, entry_id, entry_id - 1, 0, content)


def whole(entry_id: int) -> Entry:
    return entry(entry_id, payload(LEDGER, entry_id))


@pytest.mark.parametrize(
    ("events", "broken"),
    [
        ([4, whole(4), "ends at 4", "ends at 4"], []),
        ([4, "ends at 3"], ["ledger 7 ends at 3, and 4 was confirmed"]),
        ([3, "ends at 3", 4], ["ledger 7 ends at 3, and 4 was confirmed"]),
        ([2, whole(3), "ends at 2"], ["ledger 7 ends at 2, and 3 was read"]),
        ([2, entry(2, payload(LEDGER, 1))], ["wrong bytes in entry 2 of ledger 7"]),
        ([2, "ends at 2", "ends at 3"], ["ledger 7 ended at 2, then at 3"]),
    ],
)
def test_the_book_finds_every_broken_promise(
    events: Sequence[int | Entry | str], broken: list[str]
) -> None:
    """A number is an entry that is confirmed to its writer, and an `Entry` is one that is read."""
    book = Book({LEDGER: Page()})
    for event in events:
        if isinstance(event, int):
            book.confirmed(LEDGER, event)
        elif isinstance(event, Entry):
            book.read(event)
        else:
            book.ends(LEDGER, int(event.removeprefix("ends at ")))
    assert book.broken == broken
