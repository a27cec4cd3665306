"""Mistakes of meaning, each a small change of the protocol's code that some quick test notices.

They are written by hand: what they change is a rule of the system, so each one says which rule its
tests prove.  `old` stands exactly once in its file.
"""

from typing import NamedTuple


class Mistake(NamedTuple):
    """A rule that is broken, where, by which change, and the test files that should notice."""

    rule: str
    file: str
    old: str
    new: str
    tests: str


MISTAKES = (
    Mistake(
        "the deduplication snapshot keeps what is stored, not what is pushed",
        "labkit/topic/deduplication.py",
        "self._stored_up_to, dict(self._persisted))",
        "self._stored_up_to, {**self._persisted, **self._pushed})",
        "tests/topic/test_deduplication.py",
    ),
    Mistake(
        "a message under way is neither new nor a duplicate",
        "labkit/topic/deduplication.py",
        "return Seen.UNSURE",
        "return Seen.DUPLICATE",
        "tests/topic/test_deduplication.py",
    ),
    Mistake(
        "chunks count when the last completes the message",
        "labkit/topic/deduplication.py",
        "        if completes:\n",
        "        if True:\n",
        "tests/topic/test_deduplication.py",
    ),
    Mistake(
        "the marks of a producer with a message under way stay",
        "labkit/topic/deduplication.py",
        "                continue  # Without",
        "                pass  # Without",
        "tests/topic/test_deduplication.py",
    ),
    Mistake(
        "a bundle taken in a lost session is not owned",
        "labkit/topic/ownership.py",
        "if session == self._sessions_lost:",
        "if True:",
        "tests/topic/test_ownership.py",
    ),
    Mistake(
        "a lost session takes all bundles",
        "labkit/topic/ownership.py",
        "lost, self._owned = self.owned, {}",
        "lost = self.owned",
        "tests/topic/test_ownership.py",
    ),
    Mistake(
        "a log goes when the later copies of its entries are synced",
        "labkit/storage/garbage.py",
        "                sync_again(self.entry_logger.disk_of(other), other)",
        "                pass",
        "tests/storage/test_garbage.py",
    ),
    Mistake(
        "the index names copies that are synced",
        "labkit/storage/garbage.py",
        "        self.entry_logger.sync()\n        for",
        "        for",
        "tests/storage/test_garbage.py",
    ),
    Mistake(
        "compaction copies only what the index points to",
        "labkit/storage/garbage.py",
        "            if location == old:",
        "            if ledger is not None:",
        "tests/storage/test_garbage.py",
    ),
    Mistake(
        "an entry counts as copied when all its targets have it",
        "labkit/autorecovery/replicator.py",
        "            if not self._unacked[entry_id]:\n                del self._unacked[entry_id]",
        "            if self._unacked.pop(entry_id, None) is not None:\n                pass",
        "tests/autorecovery/test_fragment_copy.py",
    ),
    Mistake(
        "a fenced bookie takes copies",
        "labkit/autorecovery/replicator.py",
        "add_header(make_master_key(metadata.password), Flag.RECOVERY_ADD)",
        "add_header(make_master_key(metadata.password))",
        "tests/autorecovery/test_worker.py",
    ),
    Mistake(
        "the metadata names a bookie that has its copies",
        "labkit/autorecovery/replicator.py",
        "            await self.copy(ledger, short, some)\n",
        "",
        "tests/autorecovery/test_worker.py",
    ),
    Mistake(
        "a long poll's LastAddConfirmed needs a digest",
        "labkit/client/lac_reads.py",
        "confirmed = await self._proven_by(ensemble[place])",
        "confirmed = answer.last_add_confirmed",
        "tests/client/test_lac_reads.py",
    ),
    Mistake(
        "a batch ends in front of an entry that cannot be read",
        "labkit/client/batch_read.py",
        "                break\n            if recorder.listening",
        "                continue\n            if recorder.listening",
        "tests/client/test_reads.py",
    ),
    Mistake(
        "recovery starts behind the last segment's beginning",
        "labkit/client/recovery.py",
        "return max(last_add_confirmed, self.metadata.segments[-1].first_entry_id - 1)",
        "return last_add_confirmed",
        "tests/client/test_recovery_bounds.py",
    ),
    Mistake(
        "each read of a recovery fences",
        "labkit/client/recovery.py",
        "            fence_key=self.fence_key_of_reads(),\n",
        "",
        "tests/client/test_recovery.py",
    ),
    Mistake(
        "recovery piggybacks what was confirmed before",
        "labkit/client/recovery.py",
        "return self._confirmed_before",
        "return self.last_add_confirmed",
        "tests/client/test_recovery_bounds.py",
    ),
    Mistake(
        "the acknowledgement of a replaced bookie counts no more",
        "labkit/client/ensemble_change.py",
        "        pending.acked &= ~(1 << place)\n",
        "",
        "tests/client/test_ensemble_change.py",
    ),
    Mistake(
        "the bookie that failed is blamed, not the one that replaces it",
        "labkit/client/ensemble_change.py",
        "self.failed[failed] = used.bookie",
        "self.failed[failed] = self.ledger.ensemble[failed]",
        "tests/client/test_delayed_ensemble_change.py",
    ),
    Mistake(
        "metadata are replaced only at the version that was read",
        "labkit/metadata/ledger_manager.py",
        "ledger_id), data, version)",
        "ledger_id), data, -1)",
        "tests/metadata/test_ledger_manager_in_memory.py",
    ),
    Mistake(
        "a ledger of another client is not taken for its own",
        "labkit/metadata/ledger_manager.py",
        "if found.c_token and found.c_token == metadata.c_token:",
        "if found.c_token == metadata.c_token:",
        "tests/metadata/test_ledger_manager_in_memory.py",
    ),
    Mistake(
        "answers wait for the records of the same group",
        "labkit/bookie/commit.py",
        "            self._report(ready)\n            _send(ready)",
        "            self._report(ready)\n            _send(ready + self._waiting)",
        "tests/bookie/test_group_commit.py",
    ),
    Mistake(
        "a sync covers one file",
        "labkit/bookie/commit.py",
        "must_sync = must_sync or group.ends_file",
        "pass",
        "tests/bookie/test_deferred_sync.py",
    ),
    Mistake(
        "a list of ledgers is that of a server that has caught up",
        "labkit/metadata/ledger_manager.py",
        "        await self.store.sync()\n",
        "",
        "tests/sim/test_lagging_metadata.py",
    ),
    Mistake(
        "an add that ends its writer is refused",
        "labkit/client/writer.py",
        "if self.ended_by is not None:\n            raise self.ended_by\n        if len",
        "if self.ended_by is not None and not self.ensemble_change.failed:\n"
        "            raise self.ended_by\n        if len",
        "tests/client/test_deferred_sync_in_memory.py",
    ),
    Mistake(
        "a location is written again where a later copy may not be synced",
        "labkit/storage/garbage.py",
        "                ledger.set_location(entry.entry_id, location)\n",
        "",
        "tests/storage/test_garbage.py",
    ),
)
