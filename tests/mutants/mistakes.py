"""Handwritten bugs, which are small changes to the protocol's code. Each bug is caught by a quick
test.

Each bug breaks a rule of the system and names this rule, which its tests verify. `old` must occur
exactly once in the file.
"""

from typing import NamedTuple


class Mistake(NamedTuple):
    """A planted bug, with the rule that it breaks, the change to a file, and the tests that should
    fail.
    """

    rule: str
    file: str
    old: str
    new: str
    tests: str


MISTAKES = (
    Mistake(
        "the deduplication snapshot keeps what is stored, not what is pushed",
        "labkit/system/topic/producing/deduplication.py",
        "self._stored_up_to, dict(self._persisted))",
        "self._stored_up_to, {**self._persisted, **self._pushed})",
        "tests/system/topic/producing/test_deduplication.py",
    ),
    Mistake(
        "a message under way is neither new nor a duplicate",
        "labkit/system/topic/producing/deduplication.py",
        "return MessageDupStatus.UNSURE",
        "return MessageDupStatus.DUPLICATE",
        "tests/system/topic/producing/test_deduplication.py",
    ),
    Mistake(
        "chunks count when the last completes the message",
        "labkit/system/topic/producing/deduplication.py",
        "        if completes:\n",
        "        if True:\n",
        "tests/system/topic/producing/test_deduplication.py",
    ),
    Mistake(
        "the marks of a producer with a message under way stay",
        "labkit/system/topic/producing/deduplication.py",
        "                continue  # Without",
        "                pass  # Without",
        "tests/system/topic/producing/test_deduplication.py",
    ),
    Mistake(
        "a bundle taken in a lost session is not owned",
        "labkit/system/broker/ownership.py",
        "if session == self._sessions_lost:",
        "if True:",
        "tests/system/broker/test_ownership.py",
    ),
    Mistake(
        "a lost session takes all bundles",
        "labkit/system/broker/ownership.py",
        "lost, self._owned = self.owned, {}",
        "lost = self.owned",
        "tests/system/broker/test_ownership.py",
    ),
    Mistake(
        "a log goes when the later copies of its entries are synced",
        "labkit/system/storage/garbage.py",
        "                sync_file(self.entry_logger.disk_of(other), log_name(other))",
        "                pass",
        "tests/system/storage/test_garbage.py",
    ),
    Mistake(
        "the index names copies that are synced",
        "labkit/system/storage/garbage.py",
        "        self.entry_logger.sync()\n        for",
        "        for",
        "tests/system/storage/test_garbage.py",
    ),
    Mistake(
        "compaction copies only what the index points to",
        "labkit/system/storage/garbage.py",
        "            if location == old:",
        "            if ledger is not None:",
        "tests/system/storage/test_garbage.py",
    ),
    Mistake(
        "an entry counts as copied when all its targets have it",
        "labkit/system/autorecovery/fragment_copy.py",
        "        if not self._unacked[entry_id]:\n            del self._unacked[entry_id]",
        "        if self._unacked.pop(entry_id, None) is not None:\n            pass",
        "tests/system/autorecovery/test_fragment_repair.py",
    ),
    Mistake(
        "a fenced bookie takes copies",
        "labkit/system/autorecovery/fragment_copy.py",
        "add_header(make_master_key(metadata.password), Flag.RECOVERY_ADD)",
        "add_header(make_master_key(metadata.password))",
        "tests/system/autorecovery/test_scripts.py",
    ),
    Mistake(
        "the metadata names a bookie that has its copies",
        "labkit/system/autorecovery/replicator.py",
        "            await self.copy(ledger, underreplicated, some)\n",
        "",
        "tests/system/autorecovery/test_scripts.py",
    ),
    Mistake(
        "a long poll's LastAddConfirmed needs a digest",
        "labkit/system/client/lac_reads.py",
        "lac = await self._verified_lac(ensemble[index])",
        "lac = reply.last_add_confirmed",
        "tests/system/client/test_lac_reads.py",
    ),
    Mistake(
        "a batch ends in front of an entry that cannot be read",
        "labkit/system/client/batch_read.py",
        "                break\n            if recorder.listening",
        "                continue\n            if recorder.listening",
        "tests/system/client/test_batch_read.py",
    ),
    Mistake(
        "recovery starts behind the last segment's beginning",
        "labkit/system/client/recovery.py",
        "return max(reported_lac, self.metadata.segments[-1].first_entry_id - 1)",
        "return reported_lac",
        "tests/system/client/test_recovery.py",
    ),
    Mistake(
        "each read of a recovery fences",
        "labkit/system/client/recovery.py",
        "            fence_key=self.fence_key_of_reads(),\n",
        "",
        "tests/system/client/test_recovery.py",
    ),
    Mistake(
        "recovery piggybacks what was confirmed before",
        "labkit/system/client/recovery.py",
        "return self._lac_before_recovery",
        "return self.last_add_confirmed",
        "tests/system/client/test_recovery.py",
    ),
    Mistake(
        "the acknowledgement of a replaced bookie counts no more",
        "labkit/system/client/ensemble_change.py",
        "                    pending.acked &= ~(1 << index)\n",
        "",
        "tests/system/client/test_scripts.py",
    ),
    Mistake(
        "the bookie that failed is blamed, not the one that replaces it",
        "labkit/system/client/ensemble_change.py",
        "self.failed[other_index] = channel.bookie_id",
        "self.failed[other_index] = self.writer.ensemble[other_index]",
        "tests/system/client/test_scripts.py",
    ),
    Mistake(
        "metadata are replaced only at the version that was read",
        "labkit/system/metadata/ledger_manager.py",
        "ledger_id), data, version)",
        "ledger_id), data, -1)",
        "tests/system/metadata/test_ledger_manager.py",
    ),
    Mistake(
        "a ledger of another client is not taken for its own",
        "labkit/system/metadata/ledger_manager.py",
        "if found.c_token and found.c_token == metadata.c_token:",
        "if found.c_token == metadata.c_token:",
        "tests/system/metadata/test_ledger_manager.py",
    ),
    Mistake(
        "answers wait for the records of the same group",
        "labkit/system/bookie/commit.py",
        "            self._report(ready)\n            _send(ready)",
        "            self._report(ready)\n            _send(ready + self._waiting)",
        "tests/system/bookie/test_group_commit.py",
    ),
    Mistake(
        "an entry that a flush has removed from the memtable can be added again",
        "labkit/system/storage/memtable.py",
        "if kept.get(entry_id) is None:",
        "if entry_id not in kept:",
        "tests/system/storage/test_dropped_ledgers.py",
    ),
    Mistake(
        "a read-only bookie rejects recovery adds once its memtable is full",
        "labkit/system/bookie/node.py",
        "(not high_priority or self._store.is_overfull)",
        "not high_priority",
        "tests/system/bookie/test_failing_disk.py",
    ),
    Mistake(
        "a sync covers one file",
        "labkit/system/bookie/commit.py",
        "must_sync = must_sync or group.ends_file",
        "pass",
        "tests/system/bookie/test_deferred_sync.py",
    ),
    Mistake(
        "a list of ledgers is that of a server that has caught up",
        "labkit/system/metadata/ledger_manager.py",
        "        await self.store.sync()\n",
        "",
        "tests/worlds/sim/scenario/test_metadata_faults.py",
    ),
    Mistake(
        "a writer knows only from the metadata store that its ledger is open",
        "labkit/system/client/fence_check.py",
        "self._open_at = -inf",
        "self._open_at = self._loop.time()",
        "tests/system/client/test_fence_check.py",
    ),
    Mistake(
        "a force that was cancelled has forced nothing",
        "labkit/system/client/deferred_sync.py",
        "except (BKException, asyncio.CancelledError):",
        "except BKException:",
        "tests/system/client/test_deferred_sync_in_memory.py",
    ),
    Mistake(
        "an add that ends its writer is refused",
        "labkit/system/client/writer.py",
        "if self.ended_by is not None:\n            raise self.ended_by\n        if len",
        "if self.ended_by is not None and not self.ensemble_change.failed:\n"
        "            raise self.ended_by\n        if len",
        "tests/system/client/test_deferred_sync_in_memory.py",
    ),
    Mistake(
        "a location is written again where a later copy may not be synced",
        "labkit/system/storage/garbage.py",
        "                ledger.index.set_locations([entry.entry_id], [location])\n",
        "",
        "tests/system/storage/test_garbage.py",
    ),
)
