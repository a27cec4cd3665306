"""A model-based test that compares a store with a dictionary for random sequences of operations."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from labkit.system.model.entry import encode_explicit_lac
from labkit.system.model.errors import (
    LedgerFencedException,
    NoEntryException,
    NoLedgerException,
    UnauthorizedAccessException,
)
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.garbage import logs_to_compact
from labkit.system.storage.store import Checkpoint, LedgerStore
from tests.system.storage.support import CRC32C, KEY, OTHER_KEY, entry, kill, open_store, present

CONFIG = StorageConfig(
    journal_max_size_mb=1,
    journal_pre_alloc_size_mb=1,
    journal_max_backups=0,
    skip_list_size_limit=2000,
    log_size_limit=2048,
    page_size=64,
)
ALL_LEDGERS = 0, 5, 6, 0x1234
LEDGERS = st.sampled_from(ALL_LEDGERS)
ENTRIES = st.integers(0, 12)


@pytest.mark.promise("A store behaves like a dictionary, for any operations in any order")
class StoreModel(RuleBasedStateMachine):
    """Committed entries survive a kill; uncommitted ones may or may not."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.entries: dict[tuple[int, int], bytes] = {}
        self.fenced: set[int] = set()
        self.known: set[int] = set()
        self.uncommitted: set[tuple[int, int]] = set()
        self.uncommitted_fences: set[int] = set()
        self.lacs = {ledger_id: [b""] for ledger_id in ALL_LEDGERS}
        """The committed explicit LAC of each ledger, followed by the LACs that have been
        set since.
        """
        self.deleted: set[int] = set()
        self.checkpoint: Checkpoint | None = None

    @initialize()
    def open(self) -> None:
        self.store: LedgerStore = open_store(self.root, CONFIG)

    @rule(ledger_id=LEDGERS, entry_id=ENTRIES, size=st.integers(0, 900), recovery=st.booleans())
    def add(self, ledger_id: int, entry_id: int, size: int, recovery: bool) -> None:
        if ledger_id in self.deleted:
            return
        data = entry(ledger_id, entry_id, bytes([entry_id]) * size)
        data = self.entries.get((ledger_id, entry_id), data)
        if ledger_id in self.fenced and not recovery:
            with pytest.raises(LedgerFencedException):
                self.store.add_entry(ledger_id, entry_id, data, KEY)
            return
        self.store.add_entry(ledger_id, entry_id, data, KEY, recovery=recovery)
        self.known.add(ledger_id)
        if (ledger_id, entry_id) not in self.entries:
            self.entries[ledger_id, entry_id] = data
            self.uncommitted.add((ledger_id, entry_id))

    @rule(ledger_id=LEDGERS)
    def fence(self, ledger_id: int) -> None:
        if ledger_id in self.deleted:
            return
        self.store.fence(ledger_id, KEY)
        self.known.add(ledger_id)
        if ledger_id not in self.fenced:
            self.fenced.add(ledger_id)
            self.uncommitted_fences.add(ledger_id)

    @rule(ledger_id=LEDGERS, last_add_confirmed=st.integers(0, 99))
    def set_explicit_lac(self, ledger_id: int, last_add_confirmed: int) -> None:
        if ledger_id in self.deleted:
            return
        body = encode_explicit_lac(ledger_id, last_add_confirmed, CRC32C)
        self.store.set_explicit_lac(ledger_id, body, KEY)
        self.known.add(ledger_id)
        self.lacs[ledger_id].append(body)

    @rule(ledger_id=LEDGERS)
    def delete(self, ledger_id: int) -> None:
        self.deleted.add(ledger_id)
        self.known.discard(ledger_id)
        self.fenced.discard(ledger_id)
        self.uncommitted_fences.discard(ledger_id)
        self.entries = {ids: data for ids, data in self.entries.items() if ids[0] != ledger_id}
        self.uncommitted &= self.entries.keys()

    @rule(threshold=st.sampled_from([0.2, 0.8, 1.0]))
    def collect_and_compact(self, threshold: float) -> None:
        self.collect()
        garbage = self.store.garbage
        for log_id in logs_to_compact(garbage.logs, threshold):
            list(garbage.compact(log_id, batch_entries=3))
            garbage.remove_log(log_id)

    def collect(self) -> None:
        gone = sorted(self.deleted.intersection(self.store.ledger_ids()))
        for log_id in self.store.garbage.collect(gone):
            self.store.garbage.remove_log(log_id)

    @rule(ledger_id=LEDGERS)
    def use_the_wrong_key(self, ledger_id: int) -> None:
        if ledger_id in self.known:
            with pytest.raises(UnauthorizedAccessException):
                self.store.fence(ledger_id, OTHER_KEY)

    @rule()
    def commit(self) -> None:
        self.store.commit()
        self.lacs = {ledger_id: bodies[-1:] for ledger_id, bodies in self.lacs.items()}
        self.uncommitted.clear()
        self.uncommitted_fences.clear()

    @rule()
    def begin_or_end_checkpoint(self) -> None:
        if self.checkpoint is None:
            self.checkpoint = self.store.begin_checkpoint()
        else:
            self.store.flush(self.checkpoint)
            self.store.end_checkpoint()
            self.checkpoint = None

    @rule()
    def close_and_open(self) -> None:
        self.commit()
        self.store.close()
        self.checkpoint = None
        self.open()

    @rule(times=st.integers(1, 2))
    def kill_and_open(self, times: int) -> None:
        for _ in range(times):
            kill(self.store)
            self.open()
        self.checkpoint = None
        for ids in self.uncommitted:
            try:
                assert self.store.read_entry(*ids) == self.entries[ids]
            except (NoLedgerException, NoEntryException):
                del self.entries[ids]
        for ledger_id in self.uncommitted_fences:
            ledger = self.store.ledger(ledger_id)
            if ledger is None or not ledger.fenced:
                self.fenced.discard(ledger_id)
        for ledger_id in ALL_LEDGERS:
            ledger = self.store.ledger(ledger_id)
            found = ledger.explicit_lac if ledger else b""
            assert found in self.lacs[ledger_id] or ledger_id in self.deleted
            self.lacs[ledger_id] = [found]
        self.known = set(self.store.ledger_ids()) - self.deleted
        self.uncommitted.clear()
        self.uncommitted_fences.clear()

    @invariant()
    def everything_is_there_and_nothing_else(self) -> None:
        for ids, data in self.entries.items():
            assert self.store.read_entry(*ids) == data
        assert set(self.store.ledger_ids()) - self.deleted == self.known
        for ledger_id in self.known:
            known = present(self.store.ledger(ledger_id))
            assert known.explicit_lac == self.lacs[ledger_id][-1]
        for ledger_id in set(ALL_LEDGERS) - self.deleted:
            mine = [entry_id for ledger, entry_id in self.entries if ledger == ledger_id]
            assert self.store.last_entry_id(ledger_id) == max(mine, default=-1)
            ledger = self.store.ledger(ledger_id)
            assert (ledger is not None and ledger.fenced) == (ledger_id in self.fenced)
            absent = NoEntryException if ledger_id in self.known else NoLedgerException
            with pytest.raises(absent):
                self.store.read_entry(ledger_id, 13)

    def teardown(self) -> None:
        kill(self.store)
        shutil.rmtree(self.root)


TestStoreModel = StoreModel.TestCase
TestStoreModel.settings = settings(max_examples=20, stateful_step_count=40, deadline=None)
