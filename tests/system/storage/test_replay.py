import struct
from contextlib import suppress
from dataclasses import replace

import pytest

from labkit.system.model.entry import MAX_ENTRY_ID
from labkit.system.model.errors import (
    StorageDamagedException,
)
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.entry_log import log_ids, scan_entry_log
from labkit.system.storage.journal import (
    EXPLICIT_LAC,
    explicit_lac_record,
    fence_record,
    journal_ids,
    ledger_key_record,
)
from labkit.system.storage.log_mark import LogMark, write_last_mark
from labkit.system.storage.memtable import Memtable
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from labkit.worlds.sim.machine.disk import CrashError, DiskController, SimDisk, SimDiskError
from labkit.worlds.sim.machine.disk_operation import kept
from tests.system.storage.machine import Machine
from tests.system.storage.support import KEY, OTHER_KEY, SMALL, add, entry, present


def test_replay_goes_through_all_journals_in_order(machine: Machine) -> None:
    store = machine.open()
    for entry_id in range(8):
        add(store, 5, entry_id, payload=bytes(300_000))
    assert len(journal_ids(machine.journal)) == 2
    store = machine.open()
    for entry_id in range(8):
        assert store.read_entry(5, entry_id) == entry(5, entry_id, bytes(300_000))


def test_a_replay_that_does_not_fit_in_memory_is_flushed_on_the_way(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, *range(20))
    store = machine.open(StorageConfig(journal_pre_alloc_size_mb=1, skip_list_size_limit=100))
    assert [store.read_entry(5, i) for i in range(20)] == [entry(5, i) for i in range(20)]


def test_a_restart_reports_its_replay_even_without_records(machine: Machine) -> None:
    rows: list[Event] = []

    def open_store() -> LedgerStore:
        recorder = Recorder("bookie", lambda: 0)
        recorder.listen(rows.extend)
        return LedgerStore([machine.journal], [machine.ledgers], SMALL, recorder, 1)

    def replayed() -> list[int]:
        return [row.size for row in rows if row.kind == "journal.replayed"]

    store = open_store()
    assert replayed() == []  # no journal exists at the first start
    add(store, 5, *range(3))
    store = open_store()
    assert replayed() == [4]  # the ledger's key and three entries
    store.checkpoint()
    open_store()
    assert replayed() == [4, 0]


@pytest.mark.promise("Replay may be repeated and may crash")
def test_replaying_again_writes_nothing_twice(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, *range(5))
    store.checkpoint()
    machine.ledgers.remove("current/lastMark")
    machine.open()
    assert [len(list(scan_entry_log(machine.ledgers, i))) for i in log_ids(machine.ledgers)] == [
        *(5, 0)
    ]


def test_a_log_whose_entries_replay_trusts_is_synced_once(machine: Machine) -> None:
    for first in (0, 5):
        store = machine.open()
        add(store, 5, *range(first, first + 5))
        store.checkpoint()
    written = [
        log_id
        for log_id in log_ids(machine.ledgers)
        if list(scan_entry_log(machine.ledgers, log_id))
    ]
    assert len(written) == 2
    machine.ledgers.remove("current/lastMark")
    add(store, 5, *range(10, 20))
    before = len(machine.ledgers.controller.operations)
    machine.open(replace(SMALL, skip_list_size_limit=100))
    operations = machine.ledgers.controller.operations[before:]
    logs = [each.path for each in operations if each.kind == "sync" and each.path[-4:] == ".log"]
    for log_id in written:
        assert logs.count(f"current/{log_id:x}.log") == 1
    assert len(logs) > 3


def test_replay_fills_an_index_that_points_past_its_log(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 0)
    store.checkpoint()
    machine.ledgers.remove("current/lastMark")
    machine.ledgers.create("current/0.log")
    assert machine.open().read_entry(5, 0) == entry(5, 0)


def test_a_record_torn_over_zeros_does_not_replace_a_stored_entry(machine: Machine) -> None:
    store = machine.open()
    add(store, 0, 0)
    store.checkpoint()
    torn = struct.pack(">i", 41).ljust(4 + 41, b"\0")
    mark = store.journals[0].synced
    journal = machine.journal.open(f"current/{mark.file_name}")
    journal.write(mark.offset, torn)
    assert machine.open().read_entry(0, 0) == entry(0, 0)


def test_records_of_an_unknown_ledger_and_of_unknown_kind_are_skipped(machine: Machine) -> None:
    unknown_kind = struct.pack(">qq", 5, -77)
    key = ledger_key_record(5, KEY)
    machine.write_journal(1, entry(9, 0), fence_record(9), key, unknown_kind, entry(5, 0))
    store = machine.open()
    assert store.ledger_ids() == [5]
    assert store.read_entry(5, 0) == entry(5, 0)


def test_a_second_master_key_is_reported_with_file_and_offset(machine: Machine) -> None:
    machine.write_journal(
        0x1A, ledger_key_record(5, KEY), entry(5, 0), ledger_key_record(5, OTHER_KEY)
    )
    with pytest.raises(
        StorageDamagedException, match=r"1a\.txn, offset 601: a second, different master key"
    ):
        machine.open()


@pytest.mark.parametrize(
    ("ledger_id", "key", "record", "what"),
    [
        (
            5,
            KEY,
            struct.pack(">qqi", 5, EXPLICIT_LAC, 5) + bytes(5),
            "invalid explicit LAC of 5 bytes",
        ),
        (5, KEY, explicit_lac_record(5, bytes(1000)), "invalid explicit LAC of 1000 bytes"),
        (5, bytes(1005), entry(5, 0), "invalid master key of 1005 bytes"),
        (-5, KEY, fence_record(-5), "invalid master key of 20 bytes"),
        (5, KEY, struct.pack(">qqqq", 5, 2**40, -1, 0), "invalid entry id 1099511627776"),
    ],
)
def test_a_record_that_would_spoil_the_index_is_reported_with_file_and_offset(
    machine: Machine, ledger_id: int, key: bytes, record: bytes, what: str
) -> None:
    machine.write_journal(0x1A, ledger_key_record(ledger_id, key), record)
    where = rf"1a\.txn, offset {512 + 24 + len(key)}: {what} for ledger {ledger_id}"
    with pytest.raises(StorageDamagedException, match=where):
        machine.open()
    assert machine.ledgers.names("current") == []


def test_a_mark_inside_the_header_begins_at_the_first_record(machine: Machine) -> None:
    machine.write_journal(0x1A, ledger_key_record(5, KEY), entry(5, 0))
    write_last_mark(machine.ledgers, LogMark(0x1A, 3))
    assert machine.open().read_entry(5, 0) == entry(5, 0)


def test_a_key_that_no_record_follows_creates_no_ledger(machine: Machine) -> None:
    machine.write_journal(0x1A, ledger_key_record(5, OTHER_KEY))
    machine.write_journal(0x1B, ledger_key_record(5, KEY), entry(5, 0))
    store = machine.open()
    store.add_entry(5, 1, entry(5, 1), KEY)
    assert store.read_entry(5, 0) == entry(5, 0)


def test_a_missing_marked_journal_is_reported_with_the_remedy(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 0)
    store.checkpoint()
    machine.open()
    machine.journal.remove("current/1.txn")
    with pytest.raises(
        StorageDamagedException, match=r"journal 1\.txn is missing.*restore the file"
    ):
        machine.open()


@pytest.mark.parametrize("mark", [LogMark(0, 0), LogMark(1, 512)])
def test_a_journal_missing_between_two_others_is_reported(machine: Machine, mark: LogMark) -> None:
    machine.write_journal(1, ledger_key_record(5, KEY), entry(5, 0))
    machine.write_journal(2, entry(5, 1))
    machine.write_journal(4, entry(5, 3))
    write_last_mark(machine.ledgers, mark)
    with pytest.raises(
        StorageDamagedException,
        match=r"journal 3\.txn is missing.*4\.txn comes after it; restore the file",
    ):
        machine.open()


def test_a_journal_missing_before_the_mark_does_not_matter(machine: Machine) -> None:
    for entry_id in range(3):
        store = machine.open()
        add(store, 5, entry_id)
    store.checkpoint()
    machine.journal.remove("current/2.txn")
    assert machine.open().last_entry_id(5) == 2


def test_journals_named_after_the_time_as_by_old_bookies_may_have_gaps(machine: Machine) -> None:
    for file_id, entry_id in ((100, 0), (250, 1)):
        records = ledger_key_record(5, KEY), entry(5, entry_id)
        data = b"".join(struct.pack(">i", len(record)) + record for record in records)
        file = machine.journal.create(f"current/{file_id:x}.txn")
        file.write(0, struct.pack(">4si", b"BKLG", 4) + data)
    store = machine.open()
    assert [store.read_entry(5, i) for i in range(2)] == [entry(5, i) for i in range(2)]


def test_without_a_mark_replay_takes_what_journals_there_are(machine: Machine) -> None:
    for entry_id in range(3):
        add(machine.open(), 5, entry_id)
    machine.journal.remove("current/1.txn")
    machine.ledgers = SimDisk()
    assert machine.open().last_entry_id(5) == 2


def test_a_kill_during_the_replay_does_no_harm(machine: Machine) -> None:
    add(machine.open(), 5, *range(5))
    for stop_at in range(40):
        machine.ledgers.controller.stop_at = len(machine.ledgers.controller.operations) + stop_at
        with suppress(CrashError):
            machine.open()
        machine.ledgers = machine.ledgers.after_crash(kept, DiskController())
    store = machine.open()
    assert [store.read_entry(5, i) for i in range(5)] == [entry(5, i) for i in range(5)]


@pytest.mark.parametrize("operation", range(12))
def test_what_a_killed_process_did_not_sync_is_durable_before_the_mark_passes_it(
    machine: Machine, operation: int
) -> None:
    store = added_and_fenced(machine)
    controller = machine.ledgers.controller
    controller.stop_at = len(controller.operations) + operation
    with suppress(CrashError):
        store.checkpoint()
    controller.stop_at = -1
    assert_both_are_there_after_the_next_process(machine)


@pytest.mark.promise(
    "What a failed sync skipped is written again, not just synced again, before anything "
    "relies on it"
)
@pytest.mark.parametrize("good_syncs", range(6))
def test_what_a_failed_sync_passed_over_is_written_again_before_the_mark_passes_it(
    machine: Machine, good_syncs: int
) -> None:
    store = added_and_fenced(machine)
    with machine.syncs_that_fail(after=good_syncs), suppress(SimDiskError):
        store.checkpoint()
    assert_both_are_there_after_the_next_process(machine)


def added_and_fenced(machine: Machine) -> LedgerStore:
    """Return a store whose last checkpoint precedes an entry and a fence."""
    store = machine.open()
    add(store, 5, 0)
    store.checkpoint()
    add(store, 5, 1)
    store.fence(5, KEY)
    store.commit()
    return store


def assert_both_are_there_after_the_next_process(machine: Machine) -> None:
    """Check that the entry and the fence survive a power cut after the next process, which reads
    unsynced data, has replayed them.
    """
    machine.open()
    machine.cut_power()
    store = machine.open()
    assert store.read_entry(5, 1) == entry(5, 1)
    assert present(store.ledger(5)).fenced


def test_entries_of_several_ledgers_come_back_and_those_of_an_unknown_one_do_not(
    machine: Machine,
) -> None:
    """The entries are adjacent in the journal, so they are replayed together."""
    machine.write_journal(
        *(1, ledger_key_record(5, KEY), ledger_key_record(0, OTHER_KEY)),
        *(entry(9, 0), entry(5, 0), entry(0, 0), entry(5, 1), entry(0, 7)),
    )
    store = machine.open()
    assert store.ledger_ids() == [0, 5]
    found = [(5, 0), (5, 1), (0, 0), (0, 7)]
    assert [store.read_entry(*ids) for ids in found] == [entry(*ids) for ids in found]
    first = present(store.ledger(0))
    assert first.master_key == OTHER_KEY


def test_a_last_entry_that_is_stored_is_not_written_again(machine: Machine) -> None:
    for entry_ids in ((0,), (1, 2)):
        add(machine.open(), 5, *entry_ids)
        machine.open()
    machine.ledgers.remove("current/lastMark")
    machine.open()
    found = [
        (each.ledger_id, each.entry_id)
        for log_id in log_ids(machine.ledgers)
        for each in scan_entry_log(machine.ledgers, log_id)
    ]
    assert found == [(5, 0), (5, 1), (5, 2)]


def test_of_entries_in_a_row_those_that_are_stored_stay_and_the_others_come_back(
    machine: Machine,
) -> None:
    store = machine.open()
    add(store, 5, 0, 2, payload=b"stored")
    store.checkpoint()
    machine.ledgers.remove("current/lastMark")
    machine.journal = SimDisk()
    key = ledger_key_record(5, KEY)
    machine.write_journal(1, key, *(entry(5, entry_id, b"replay") for entry_id in range(4)))
    store = machine.open()
    payloads = [store.read_entry(5, entry_id)[-6:] for entry_id in range(4)]
    assert payloads == [b"stored", b"replay", b"stored", b"replay"]


def test_the_same_fence_and_explicit_lac_come_back_from_the_journal_alone(
    machine: Machine,
) -> None:
    lac = bytes(range(20))
    key = ledger_key_record(5, KEY)
    machine.write_journal(1, key, fence_record(5), explicit_lac_record(5, lac))
    ledger = present(machine.open().ledger(5))
    assert (ledger.fenced, ledger.explicit_lac, ledger.master_key) == (True, lac, KEY)


def test_what_replay_remembered_is_forgotten_when_the_store_is_open(machine: Machine) -> None:
    add(machine.open(), 5, 0)
    store = machine.open()
    assert (store.record_applier.keys, store.logs_to_sync) == ({}, {})
    assert store.memtable.entry_count == 0
    assert store.memtable.entry_ids(5) == []


def test_replay_begins_at_the_mark_in_its_journal_and_at_the_first_record_of_later_ones(
    machine: Machine,
) -> None:
    key = ledger_key_record(5, KEY)
    machine.write_journal(0x19, key, entry(5, 7))
    machine.write_journal(0x1A, key, entry(5, 0), key, entry(5, 1))
    machine.write_journal(0x1B, entry(5, 2))
    write_last_mark(machine.ledgers, LogMark(0x1A, 512 + 2 * 4 + len(key) + len(entry(5, 0))))
    assert machine.open().entry_ids(5) == [1, 2]


def test_the_highest_entry_that_a_client_may_add_is_replayed(machine: Machine) -> None:
    machine.write_journal(1, ledger_key_record(5, KEY), entry(5, MAX_ENTRY_ID))
    written: list[tuple[int, int, bytes]] = []

    class WithoutIndex(LedgerStore):
        """Records the entries instead of writing them, because their index would be a file of 8
        TiB.
        """

        def flush_entries(self, memtable: Memtable) -> None:
            written.extend(memtable)

    WithoutIndex([machine.journal], [machine.ledgers], SMALL, Recorder("b", lambda: 0), 1)
    assert written == [(5, MAX_ENTRY_ID, entry(5, MAX_ENTRY_ID))]
