"""Step 5: the index."""

from labkit.course.checking.refused import Refused
from labkit.course.workshop.bookie.common_trials import LOSSES, crashes, orders, storms
from labkit.course.workshop.bookie.steps import index_contract as contract
from labkit.course.workshop.bookie.steps.index_trials import (
    LEDGER,
    PAGE,
    PATH,
    disk_errors_are_raised,
    every_header_is_complete,
    labkit_reads_it,
    truncated_slots_and_invalid_headers,
)
from labkit.course.workshop.bookie.store import LearnersIndex, bound
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.tracks import ContractLine, Cost, FirstTest, Step
from labkit.system.storage.index.ledger_index import IndexHeader, LedgerIndex
from labkit.worlds.sim.machine.disk import SimDisk
from labkit.worlds.sim.settings.bookie_script import MASTER_KEY

_FLUSHES, _ENTRIES, _ENTRIES_AFTER_LOAD = 20, 50, 400


def _first_test(learner: Learner) -> None:
    yours = learner.make("Index", SimDisk(), PATH, MASTER_KEY)
    yours.call("set_location", object, 3, 1028)
    if (found := yours.call("location", int, 3)) != 1028:
        raise Refused(f"{contract.FOUND} Expected 1028, which was set; yours returned {found}.")


def _bytes_written(learner: Learner | None) -> float:
    disk = SimDisk()
    _flush_entries(_kind(learner)(LEDGER, IndexHeader(MASTER_KEY), disk, PAGE))
    return _written(disk) / (_FLUSHES * _ENTRIES)


def _bytes_written_after_load(learner: Learner | None) -> float:
    disk = SimDisk()
    _flush_entries(_kind(learner)(LEDGER, IndexHeader(MASTER_KEY), disk, PAGE))
    before = _written(disk)
    index = _kind(learner).load(LEDGER, disk, PAGE)
    index.set_locations(range(_ENTRIES_AFTER_LOAD), [2056] * _ENTRIES_AFTER_LOAD)
    index.flush()
    return (_written(disk) - before) / _ENTRIES_AFTER_LOAD


def _kind(learner: Learner | None) -> type[LedgerIndex]:
    return LedgerIndex if learner is None else bound(LearnersIndex, learner)


def _flush_entries(index: LedgerIndex) -> None:
    for flush in range(_FLUSHES):
        for entry_id in range(flush * _ENTRIES, (flush + 1) * _ENTRIES):
            index.set_locations([entry_id], [1028])
        index.flush()


def _written(disk: SimDisk) -> int:
    return sum(operation.size for operation in disk.controller.operations)


STEP = Step(
    number=5,
    name="the index",
    parts=("Index",),
    contract=(
        ContractLine(contract.WHOLE, broken_by=("refused",)),
        ContractLine(contract.DURABLE),
        ContractLine(contract.SAME, broken_by=(*LOSSES, "invented")),
        ContractLine(contract.LOADED),
        ContractLine(contract.FOUND),
        ContractLine(contract.PAGES),
        ContractLine(contract.MEMORY),
        ContractLine(contract.NOTHING),
        ContractLine(contract.SYNCS_AFTER_LOAD),
        ContractLine(contract.CUT),
        ContractLine(contract.INVALID),
    ),
    write=(
        "the class Index in about 60 lines: the header, slots of 8 bytes, and a first file that is"
        " complete before it gets its name."
    ),
    hints=(
        "Keep two dictionaries: all known locations, and those that have changed since the last"
        " flush. Keep the header as it was last written, too, to know whether it has changed.",
        'Write the first file as path + ".new", sync it, rename it, and then sync its folder and'
        ' every folder above it: for "current/0/5/5.idx" these are "current/0/5", "current/0" and'
        ' "current".',
        "`load` sets a flag that makes the next flush sync the file and all of its folders even if"
        " nothing has changed. That flush clears the flag.",
    ),
    first_test=FirstTest(
        "    index = Index(disk, path, key)\n"
        "    index.set_location(3, 1028)\n"
        "    assert index.location(3) == 1028\n",
        _first_test,
    ),
    trials=(
        *(labkit_reads_it, truncated_slots_and_invalid_headers),
        *(every_header_is_complete, disk_errors_are_raised),
    ),
    slow_trials=(crashes, orders, storms),
    costs=(
        Cost("bytes written to the index per entry", 1.5, _bytes_written),
        Cost("bytes written to the index per entry after `load`", 1.5, _bytes_written_after_load),
    ),
    challenges=(
        "A client may add only entry 2**40 - 1, whose index then has a hole of 8 TiB. Read only"
        " what was written (`file.next_data`), and keep only changed pages in memory.",
        "With thousands of ledgers, a flush syncs thousands of files. What does labkit do instead?",
    ),
)
