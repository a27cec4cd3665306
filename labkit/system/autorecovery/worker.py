"""The replication worker: takes one marked ledger after the other and gives it its copies back.

    lock a marked ledger
    test its copies; repair each closed fragment that misses some
    still open, and a bookie of its writer is gone?  keep the lock for a grace period; if that is
        still so, recover the ledger, which closes it; release the lock: the next repair does it
    nothing is missing any more?  move copies to other racks, if that is asked for and helps; remove
        the mark, release the lock
    else keep the lock for a while, longer after each failure, and release it

In BookKeeper: `replication/ReplicationWorker.java`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from labkit.system.autorecovery.checker import LedgerChecker
from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.fragment_copy import EntryUnreadableException
from labkit.system.autorecovery.fragments import Underreplicated, fragments_of
from labkit.system.autorecovery.ledger_view import LedgerView, view_ledger
from labkit.system.autorecovery.metadata_silence import SettledBookies
from labkit.system.autorecovery.replicator import LedgerFragmentReplicator
from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import BKException, BKNoSuchLedgerExistsOnMetadataServerException

K = TypeVar("K")
V = TypeVar("V")

Spawn = Callable[[Coroutine[None, None, None]], object]
"""Runs something beside the worker; when either of them dies, so does the other."""

_RETRIALS = 5
"""Shorter waits before the whole grace period: copies may be missing only for a moment."""
_REMEMBERED = 2000
"""Ledgers with failures; a worker runs for months and must not remember all."""


def lock_release_delay_ms(failures: int, grace_period_ms: int) -> int:
    """How long a ledger stays locked after `failures` repairs (from 1) left copies missing.

    Doubles with each, up to the whole grace period at the sixth.
    """
    return grace_period_ms >> max(0, _RETRIALS + 1 - failures)


class ReplicationWorker:
    """Repairs ledgers, one at a time.

    A ledger that has to wait stays locked, so that no other worker takes it up meanwhile.
    """

    def __init__(
        self,
        client: BookKeeper,
        manager: LedgerUnderreplicationManager,
        bookies: SettledBookies,
        checker: LedgerChecker,
        replicator: LedgerFragmentReplicator,
        config: AutoRecoveryConfig,
        spawn: Spawn,
    ) -> None:
        """`manager` must be this worker's own."""
        self.client = client
        self._recorder = client.recorder
        self._manager = manager
        self._bookies = bookies
        self.checker = checker
        self.replicator = replicator
        self._config = config
        self.spawn = spawn
        self._failures: dict[int, int] = {}
        self._unreadable: dict[tuple[int, int], int] = {}
        """By ledger and fragment: an entry that could not be read, so nothing could be copied."""

    async def run(self) -> None:
        """Work forever.  Raises `MetadataUnavailableError`: which locks it holds is in doubt then,
        and the session must end.
        """
        while True:
            ledger_id = await self._manager.acquire()
            self._recorder.record("replication.started", ledger_id)
            try:
                await self.rereplicate(ledger_id)
            except BKNoSuchLedgerExistsOnMetadataServerException:
                # Nothing is missing any more.
                self._recorder.record("ledger.deleted", ledger_id)
                await self.mark_replicated(ledger_id)
            except BKException as error:
                self._defer(ledger_id, str(error))
                # Released before the wait: another worker may reach what this one cannot.
                await self._manager.release(ledger_id)
                await asyncio.sleep(self._config.rw_rereplicate_backoff_ms / 1000)

    # Rules, which a subclass may change

    async def rereplicate(self, ledger_id: int) -> None:
        """Repair a locked ledger; its mark and its lock go, or it is tried again later."""
        ledger = await view_ledger(self.client, ledger_id)
        short = await self.checker.check(ledger)
        problems = [await self._repair(ledger, one) for one in short if one.fragment.closed]
        if await self._waits_for_its_writer(ledger, short):
            self.spawn(self._recover_later(ledger_id))
            return
        ledger = await view_ledger(self.client, ledger_id)
        # Tested again, metadata included: others may have changed the ledger during the repair.
        still_short = await self.checker.check(ledger)
        if still_short:
            why = next(filter(None, problems), f"{', '.join(still_short[0].bookies)} miss copies")
            self.spawn(self.release_later(ledger_id, why))
        elif problem := await self._move_to_other_racks(ledger):
            self.spawn(self.release_later(ledger_id, problem))
        else:
            await self.mark_replicated(ledger_id)

    async def mark_replicated(self, ledger_id: int) -> None:
        """Nothing is missing: remove the mark, if it is unchanged, and the lock."""
        self._failures.pop(ledger_id, None)
        if await self._manager.mark_replicated(ledger_id):
            self._recorder.record("replication.done", ledger_id)
        else:
            self._defer(ledger_id, "it was marked again meanwhile")

    async def release_later(self, ledger_id: int, why: str) -> None:
        """Release the lock after a pause: copies are still missing, and a retry now would hardly
        help.
        """
        failures = self._failures.pop(ledger_id, 0) + 1
        _remember(self._failures, ledger_id, failures)
        grace_ms = self._config.lock_release_of_failed_ledger_grace_period_ms
        delay_s = lock_release_delay_ms(failures, grace_ms) / 1000
        self._defer(ledger_id, f"{why}; again in {delay_s:g} s")
        await asyncio.sleep(delay_s)
        await self._manager.release(ledger_id)

    # The steps

    async def _repair(self, ledger: LedgerView, short: Underreplicated) -> str:
        """Repair a fragment; returns what went wrong, or "": the next fragment may do better."""
        key = ledger.ledger_id, short.fragment.first
        try:
            # One read instead of many copies: while this entry is unreadable, a repair cannot
            # succeed.
            if key in self._unreadable:
                entry_id = self._unreadable[key]
                if not await self.replicator.can_read(ledger, short, entry_id):
                    return f"entry {entry_id} can still not be read"
                del self._unreadable[key]
            await self.replicator.replicate(ledger, short)
        # Not this fragment's problem: `run` ends the work on a deleted ledger.
        except BKNoSuchLedgerExistsOnMetadataServerException:
            raise
        except EntryUnreadableException as error:
            _remember(self._unreadable, key, error.entry_id)
            return str(error)
        except BKException as error:
            return str(error)
        return ""

    async def _move_to_other_racks(self, ledger: LedgerView) -> str:
        """Let each fragment of a closed ledger keep the rule about racks, as far as there are
        bookies for that; returns what went wrong, or "".
        """
        is_wanted = self._config.repaired_placement_policy_not_adhering_bookie_enabled
        if not is_wanted or not ledger.is_closed:
            return ""
        policy = await self.client.context.watcher.policy()
        writable = await self.client.writable_bookies()
        problem = ""
        for fragment in fragments_of(ledger.metadata, ledger.last_confirmed):
            targets = policy.better(fragment.ensemble, writable, fragment.write_quorum)
            try:
                if targets:
                    await self.replicator.move(ledger, fragment, targets)
            except BKNoSuchLedgerExistsOnMetadataServerException:
                raise
            except BKException as error:
                problem = str(error)
        return problem

    async def _waits_for_its_writer(self, ledger: LedgerView, short: list[Underreplicated]) -> bool:
        """Whether copies are missing that only the writer can still provide, or recovery."""
        if ledger.is_closed:
            return False
        registered = (await self._bookies.now()).alive
        ensemble = ledger.metadata.segments[-1].ensemble
        is_open_short = any(not one.fragment.closed for one in short)
        return is_open_short or any(bookie not in registered for bookie in ensemble)

    async def _recover_later(self, ledger_id: int) -> None:
        """The writer has a grace period to replace the bookies by itself; then it is fenced."""
        grace_s = self._config.open_ledger_rereplication_grace_period_ms / 1000
        self._defer(ledger_id, f"it is open: its writer has {grace_s:g} s to replace the bookies")
        await asyncio.sleep(grace_s)
        try:
            ledger = await view_ledger(self.client, ledger_id)
            short = await self.checker.check(ledger)
            # Asked after the wait: if autorecovery was disabled meanwhile, no writer is fenced.
            if await self._waits_for_its_writer(ledger, short) and await self._manager.is_enabled():
                await self.client.open_ledger(ledger_id, password=ledger.metadata.password)
        except BKException as error:
            self._defer(ledger_id, str(error))
        await self._manager.release(ledger_id)

    def _defer(self, ledger_id: int, why: str) -> None:
        self._recorder.record("replication.deferred", ledger_id, note=why)


def _remember(memory: dict[K, V], key: K, value: V) -> None:
    """Keep it as the newest; the oldest goes when there are too many."""
    memory[key] = value
    if len(memory) > _REMEMBERED:
        del memory[next(iter(memory))]
