"""The replication worker, which repairs marked ledgers, one at a time.

    1. Lock a marked ledger.
    2. Check its copies, and repair each closed fragment with missing copies.
    3. If the last fragment of an open ledger needs a repair, keep the lock and give the writer 30 s
       (`openLedgerRereplicationGracePeriod`) to replace the bookies. If the writer does not do so,
       recover the ledger, which fences the writer and closes the ledger, and release the lock. The
       mark remains, so the next repair copies the last fragment.
    4. If nothing failed and no copies are missing, move copies to other racks (if configured and
       required by the rack policy), delete the mark, and release the lock.
    5. Otherwise, keep the lock for 9.4 s, then release it. This delay doubles after each
       unsuccessful repair, up to 300 s (`lockReleaseOfFailedLedgerGracePeriod`), but it ends as
       soon as a bookie registers.
    6. If the metadata or LastAddConfirmed cannot be read, release the lock immediately, because
       another worker may reach bookies that this one cannot. Then pause for 5 s
       (`rwRereplicateBackoffMs`).

In BookKeeper: `replication/ReplicationWorker.java`.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from typing import TypeVar

from labkit.system.autorecovery.checker import LedgerChecker
from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.fragment_copy import EntryUnreadableException
from labkit.system.autorecovery.fragments import UnderreplicatedFragment, fragments_of
from labkit.system.autorecovery.ledger_view import LedgerView, view_ledger
from labkit.system.autorecovery.metadata_silence import SettledBookies
from labkit.system.autorecovery.replicator import LedgerFragmentReplicator
from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.registered_bookies import registered_bookies
from labkit.system.metadata.watched_nodes import WatchedNodes
from labkit.system.model.errors import BKException, BKNoSuchLedgerExistsOnMetadataServerException

K = TypeVar("K")

Spawn = Callable[[Coroutine[None, None, None]], object]
"""Runs a coroutine alongside the worker; if either raises an error, the other is cancelled."""

_SHORTER_DELAYS = 5
"""How many shorter delays precede the longest one."""
_MAX_REMEMBERED = 2000
"""Limits how many failures a worker remembers; it may run for months."""


def lock_release_delay_ms(failures: int, grace_period_ms: int) -> int:
    """Return how long a ledger remains locked after `failures` (>= 1) unsuccessful repairs.

    The delay is 1/32 of `grace_period_ms` after the first failure. It doubles with each failure,
    and reaches the whole period at the sixth: 9.4 s, 18.8 s, ..., 300 s by default.
    """
    return grace_period_ms >> max(0, _SHORTER_DELAYS + 1 - failures)


class ReplicationWorker:
    """Repairs marked ledgers. While this worker waits for a writer or for a retry, the ledger
    remains locked, so that no other worker tries to repair it.

    The public members are for subclasses, such as the one in `labkit.course` that repairs in
    a different order.
    """

    def __init__(
        self,
        client: BookKeeper,
        manager: LedgerUnderreplicationManager,
        nodes: WatchedNodes,
        bookies: SettledBookies,
        checker: LedgerChecker,
        replicator: LedgerFragmentReplicator,
        config: AutoRecoveryConfig,
        spawn: Spawn,
    ) -> None:
        self.client = client
        self._recorder = client.recorder
        self._manager = manager
        self._nodes = nodes
        self._bookies = bookies
        self._registered: tuple[str, ...] = ()
        """The bookies that were registered when the current repair began."""
        self.checker = checker
        self.replicator = replicator
        self._config = config
        self.spawn = spawn
        self._unsuccessful: dict[int, int] = {}
        """For each ledger, the number of consecutive repairs that left copies missing."""
        self._unreadable: dict[tuple[int, int], int] = {}
        """An entry that could not be read, keyed by its fragment's ledger and first entry."""

    async def run(self) -> None:
        """Repair ledgers forever. Raises an error if it becomes unknown which locks this worker
        holds; the session must then end.
        """
        while True:
            ledger_id = await self._manager.lock_any()
            self._recorder.record("replication.started", ledger_id)
            try:
                self._registered = (await self._bookies.now()).alive
                await self.rereplicate(ledger_id)
            except BKNoSuchLedgerExistsOnMetadataServerException:
                self._recorder.record("ledger.deleted", ledger_id)
                await self.finish(ledger_id)
            except BKException as error:
                self._record_deferral(ledger_id, "failed", str(error))
                # Do not hold the lock during the pause.
                await self._manager.release(ledger_id)
                await asyncio.sleep(self._config.rw_rereplicate_backoff_ms / 1000)

    # Steps that a subclass may override

    async def rereplicate(self, ledger_id: int) -> None:
        """Repair a locked ledger. Then delete its mark and its lock, or schedule a retry."""
        ledger = await view_ledger(self.client, ledger_id)
        underreplicated = await self.checker.check(ledger)
        closed = [each for each in underreplicated if each.fragment.closed]
        problems = [*filter(None, [await self._repair(ledger, each) for each in closed])]
        if await self._needs_recovery(ledger, underreplicated):
            self.spawn(self._recover_later(ledger_id))
            return
        # Other clients may have changed the ledger during the repair.
        ledger = await view_ledger(self.client, ledger_id)
        still_underreplicated = await self.checker.check(ledger)
        if still_underreplicated:
            problems.append(f"copies are missing on {', '.join(still_underreplicated[0].bookies)}")
        # Most checks read only some of the copies. Even if they find nothing, a failed repair may
        # have left copies missing.
        if problems:
            self.spawn(self.release_later(ledger_id, problems[0]))
        elif problem := await self._move_to_other_racks(ledger):
            self.spawn(self.release_later(ledger_id, problem))
        else:
            await self.finish(ledger_id)

    async def finish(self, ledger_id: int) -> None:
        """Delete the mark of a repaired ledger, if unchanged, and release the lock."""
        self._unsuccessful.pop(ledger_id, None)
        if await self._manager.unmark_and_release(ledger_id):
            self._recorder.record("replication.done", ledger_id)
        else:
            self._record_deferral(ledger_id, "marked again", "it was marked again in the meantime")

    async def release_later(self, ledger_id: int, why: str) -> None:
        """Release the lock after a delay, or as soon as another bookie has registered."""
        failures = self._unsuccessful.pop(ledger_id, 0) + 1
        _remember(self._unsuccessful, ledger_id, failures)
        grace_ms = self._config.lock_release_of_failed_ledger_grace_period_ms
        delay_s = lock_release_delay_ms(failures, grace_ms) / 1000
        self._record_deferral(ledger_id, "short", f"{why}; retry in {delay_s:g} s")
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._wait_for_join(self._registered)
        await self._manager.release(ledger_id)

    # Implementation

    async def _wait_for_join(self, registered: Collection[str]) -> None:
        """Wait until a bookie that is not in `registered` registers, or until one of them leaves
        and re-registers.
        """
        present = set(registered)
        while True:
            seen = self._nodes.change_count
            alive = (await registered_bookies(self._nodes)).alive
            if not present.issuperset(alive):
                return
            present.intersection_update(alive)
            await self._nodes.changed(seen)

    async def _repair(self, ledger: LedgerView, underreplicated: UnderreplicatedFragment) -> str:
        """Repair a fragment. Return "" on success, or the reason for the failure."""
        key = ledger.ledger_id, underreplicated.fragment.first
        try:
            # Do not copy anything until the entry that stopped the last repair can be read.
            if key in self._unreadable:
                entry_id = self._unreadable[key]
                if not await self.replicator.can_read(ledger, underreplicated, entry_id):
                    return f"entry {entry_id} still cannot be read"
                del self._unreadable[key]
            await self.replicator.replicate(ledger, underreplicated)
        # `run` handles deleted ledgers.
        except BKNoSuchLedgerExistsOnMetadataServerException:
            raise
        except EntryUnreadableException as error:
            _remember(self._unreadable, key, error.entry_id)
            return str(error)
        except BKException as error:
            return str(error)
        return ""

    async def _move_to_other_racks(self, ledger: LedgerView) -> str:
        """Move copies of a closed ledger to other racks if the rack policy requires it.

        Return "", or the reason for the last failure if any copy could not be moved.
        """
        is_configured = self._config.repaired_placement_policy_not_adhering_bookie_enabled
        if not is_configured or not ledger.is_closed:
            return ""
        policy = await self.client.context.watcher.policy()
        writable = await self.client.writable_bookies()
        problem = ""
        for fragment in fragments_of(ledger.metadata, ledger.last_confirmed):
            targets = policy.replace_to_adhere(fragment.ensemble, writable, fragment.write_quorum)
            try:
                if targets:
                    await self.replicator.move(ledger, fragment, targets)
            except BKNoSuchLedgerExistsOnMetadataServerException:
                raise
            except BKException as error:
                problem = str(error)
        return problem

    async def _needs_recovery(
        self, ledger: LedgerView, underreplicated: list[UnderreplicatedFragment]
    ) -> bool:
        """Return whether the last fragment of an open ledger has missing copies or lists an
        unregistered bookie.

        Only the writer may replace these bookies, unless a recovery closes the ledger.
        """
        if ledger.is_closed:
            return False
        # The checker omits an empty last fragment, but its bookies may be unregistered, too.
        registered = (await self._bookies.now()).alive
        ensemble = ledger.metadata.segments[-1].ensemble
        lacks_copies = any(not each.fragment.closed for each in underreplicated)
        return lacks_copies or any(bookie not in registered for bookie in ensemble)

    async def _recover_later(self, ledger_id: int) -> None:
        """Recover the ledger, unless its writer replaces the bookies within the grace period."""
        grace_s = self._config.open_ledger_rereplication_grace_period_ms / 1000
        # A ledger that is being recovered also counts as open.
        why = f"it is open: its writer has {grace_s:g} s to replace the bookies"
        self._record_deferral(ledger_id, "open", why)
        await asyncio.sleep(grace_s)
        try:
            ledger = await view_ledger(self.client, ledger_id)
            underreplicated = await self.checker.check(ledger)
            is_needed = await self._needs_recovery(ledger, underreplicated)
            # Autorecovery may have been disabled during the grace period; then do not fence.
            if is_needed and await self._manager.is_enabled():
                await self.client.open_ledger(ledger_id, password=ledger.metadata.password)
        except BKException as error:
            self._record_deferral(ledger_id, "failed", str(error))
        await self._manager.release(ledger_id)

    def _record_deferral(self, ledger_id: int, detail: str, why: str) -> None:
        self._recorder.record("replication.deferred", ledger_id, detail=detail, explanation=why)


def _remember(memory: dict[K, int], key: K, value: int) -> None:
    memory[key] = value
    if len(memory) > _MAX_REMEMBERED:
        del memory[next(iter(memory))]
