"""Step 6: replay."""

from functools import partial

from labkit.course.checking.exercise import Refused
from labkit.course.exercises.journal import RECORD_CASES
from labkit.course.workshop.bookie.inside import crashes, orders, storms
from labkit.course.workshop.bookie.store import Replaying, store_of
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.step import Figure, RedTest, Step
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Row
from labkit.worlds.sim.machine.disk import Fuse, SimDisk
from labkit.worlds.sim.settings.bookie_script import CONFIG, MASTER_KEY, entry_bytes, new_machine

_FLUSHED, _LATER = 40, 8


def _red(learner: Learner) -> None:
    data = bytes(512) + b"\0\0\0\5hello" + bytes(8)
    found = learner.call("records", list[tuple[int, bytes]], data, 512)
    if found != [(512, b"hello")]:
        raise Refused(f"One record lies at 512, then zeros; yours found {found}.")


def every_whole_record_is_found(learner: Learner) -> str:
    """Replay gets every whole record; zeros and a torn tail end the file."""
    records = partial(learner.call, "records", list[tuple[int, bytes]])
    wrong = RECORD_CASES.wrong(records, "records")
    if wrong is not None:
        raise Refused(*wrong)
    return f"Right for {RECORD_CASES.count} drawn journals, many of them torn."


def a_missing_journal_stops_the_start(learner: Learner) -> str:
    """Without the journal that the mark names, acknowledged entries are gone."""
    machine = new_machine(Fuse())
    bookie = Replaying(machine.open(LedgerStore, CONFIG))
    try:
        learner.call("replay", tuple, bookie, SimDisk(), 7, 512)
    except StorageDamagedException:
        return "A missing journal stops the start."
    raise Refused(
        "If the journal of the mark is missing the bookie does not start: it would deny what it"
        " has acknowledged.",
        "replay(bookie, disk, 7, 512) must raise StorageDamagedException: 7.txn does not exist",
    )


def _replayed(learner: Learner | None) -> float:
    """Records that a start does again, for each entry that is in the journal alone."""
    machine = new_machine(Fuse())
    kind = LedgerStore if learner is None else store_of(learner)
    store = machine.open(LedgerStore, CONFIG)
    for entry_id in range(_FLUSHED + _LATER):
        store.add_entry(5, entry_id, entry_bytes(5, entry_id, 10), MASTER_KEY)
        store.commit()
        if entry_id == _FLUSHED - 1:
            store.checkpoint()
    rows: list[Row] = []
    machine.open(kind, CONFIG, rows.extend)
    return sum(row.size for row in rows if row.kind == "journal.replayed") / _LATER


STEP = Step(
    number=6,
    name="replay",
    parts=("records", "replay"),
    invariants=(
        "After a start everything that was ever acknowledged is there: entries, fences, LACs.",
        "Applying a record twice changes nothing: a start that a crash interrupts begins again.",
        "A torn tail ends a file without an error; no acknowledged record lies behind it.",
        "What was never added is not there after a start either.",
    ),
    write="the functions records and replay, about 50 lines together.",
    red=RedTest(
        '    data = bytes(512) + b"\\0\\0\\0\\5hello" + bytes(8)\n'
        '    assert records(data, 512) == [(512, b"hello")]\n',
        _red,
    ),
    trials=(every_whole_record_is_found, a_missing_journal_stops_the_start),
    worlds=(crashes, orders, storms),
    figures=(Figure("records done again for each that is not flushed", 1.0, _replayed),),
    challenges=(
        "A journal may have 2 GiB. Read it piece by piece.",
        "Flush while you replay, as soon as the memtable is full: a start needs no more memory than"
        " a day's work.",
        "A record that no writer leaves (a length of 3, say) is damage. Stop the start there, with"
        " file and offset, and tell it from a torn tail.",
    ),
)
