"""The X-ray names each byte of a file once, with what it says."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from labkit.model.layout import Span
from labkit.sim.disk import SimDisk
from labkit.storage.entry_log import location_of, log_ids
from labkit.storage.index import DATA_OFFSET, LedgerIndex, index_path
from labkit.storage.journal import journal_ids
from labkit.storage.xray import (
    entry_log_spans,
    first_nonzero,
    index_slots,
    index_spans,
    journal_spans,
)
from tests.storage.machine import Machine
from tests.storage.support import KEY, entry
from tests.storage.test_garbage import ROLLS_SOON

LEDGERS = 5, 6


@pytest.fixture(scope="module")
def lived() -> Machine:
    """A bookie with rolled logs, a fence and an explicit LAC."""
    machine = Machine()
    store = machine.open(ROLLS_SOON)
    for entry_id in range(9):
        for ledger_id in LEDGERS:
            store.add_entry(ledger_id, entry_id, entry(ledger_id, entry_id, bytes(900)), KEY)
        store.commit()
        store.checkpoint()
    store.fence(LEDGERS[0], KEY)
    store.set_explicit_lac(LEDGERS[1], bytes(36), KEY)
    store.add_entry(LEDGERS[0], 9, entry(LEDGERS[0], 9), KEY, recovery=True)
    store.commit()
    store.checkpoint()
    return machine


def files_of(machine: Machine) -> Iterator[tuple[str, int, list[Span]]]:
    """Each file's name, its size, and its spans."""
    for file_id in journal_ids(machine.journal):
        name = f"current/{file_id:x}.txn"
        yield name, machine.journal.open(name).size(), list(journal_spans(machine.journal, file_id))
    for log_id in log_ids(machine.ledgers)[:-1]:
        name = f"current/{log_id:x}.log"
        yield (
            name,
            machine.ledgers.open(name).size(),
            list(entry_log_spans(machine.ledgers, log_id)),
        )
    for ledger_id in LEDGERS:
        name = index_path(ledger_id)
        yield name, machine.ledgers.open(name).size(), list(index_spans(machine.ledgers, ledger_id))


def test_every_byte_of_a_file_has_one_name(lived: Machine) -> None:
    for name, size, spans in files_of(lived):
        assert spans[0].offset == 0, name
        for before, after in pairwise(spans):
            assert before.offset + before.size == after.offset, (name, before, after)
        assert spans[-1].offset + spans[-1].size == size, name


def test_a_ledgers_map_lists_each_ledger_and_its_bytes(lived: Machine) -> None:
    spans = list(entry_log_spans(lived.ledgers, 0))
    ledgers = [int(span.value) for span in spans if span.name == "ledger id"]
    assert set(ledgers[-2:]) == set(LEDGERS)


def test_padding_is_named_with_its_length_and_its_zeros(lived: Machine) -> None:
    spans = list(journal_spans(lived.journal, journal_ids(lived.journal)[0]))
    at = next(i for i, span in enumerate(spans) if span.value == "-256")
    count, zeros = spans[at + 1], spans[at + 2]
    assert (zeros.name, zeros.size) == ("zeros", int(count.value))
    assert (zeros.offset + zeros.size) % 512 == 0


def test_an_explicit_lac_is_named_only_where_there_is_one(lived: Machine) -> None:
    named = {
        ledger_id: [s.name for s in index_spans(lived.ledgers, ledger_id)] for ledger_id in LEDGERS
    }
    assert "explicit LAC" in named[LEDGERS[1]]
    assert "explicit LAC" not in named[LEDGERS[0]]


@pytest.mark.parametrize("entry_ids", [(0,), (1, 3, 4), (2, 700), (0, 1023), (1024, 2048)])
def test_slots_without_a_location_come_run_by_run(entry_ids: tuple[int, ...]) -> None:
    disk = SimDisk()
    index = LedgerIndex(5, KEY, disk, 8192)
    for entry_id in entry_ids:
        index.set_location(entry_id, location_of(7, 1028 + entry_id))
    index.flush()
    file = disk.open(index_path(5))
    slot_count = (file.size() - DATA_OFFSET) // 8
    expected, first = list[tuple[int, int, int]](), 0
    for entry_id in (*entry_ids, slot_count):
        if entry_id > first:
            expected.append((first, entry_id - first, 0))
        if entry_id < slot_count:
            expected.append((entry_id, 1, location_of(7, 1028 + entry_id)))
        first = entry_id + 1
    assert list(index_slots(file)) == expected
    names = [span.name for span in index_spans(disk, 5)]
    for first, count, location in expected:
        alone = location or count == 1
        name = f"entry {first}" if alone else f"entries {first}-{first + count - 1}"
        assert name in names


@pytest.mark.parametrize("at", [0, 7, 1 << 20, (1 << 20) + 3, (5 << 20) - 1])
def test_the_first_byte_that_is_not_zero_is_found_however_far_it_lies(at: int) -> None:
    file = SimDisk().create("zeros")
    file.write(0, bytes(5 << 20))
    assert first_nonzero(file, 0) is None
    file.write(at, b"x")
    assert first_nonzero(file, 0) == at
    assert first_nonzero(file, at + 1) is None
