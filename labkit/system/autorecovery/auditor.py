"""The auditor: marks the ledgers that miss copies.  There is one in a cluster.

    a bookie goes         after the lost-bookie delay, mark all its ledgers
    once a day            compare all ensembles with the registered bookies
    once a week           test the copies of all ledgers
    if asked for          compare the ensembles of closed ledgers with the rule about racks
    the delay is written  audit at once, if it was set to 0 or to what it was

Everything is done in turn.  While a lost bookie is waited for, the periodic checks wait too: they
would mark its ledgers.

A metadata store that fell silent may have ended sessions of bookies that run.  So every silence
begins a grace period (`metadata_silence`): absences count from the silence's end on, no bookie is
lost before the period is over, and what was decided before the silence is decided again.

In BookKeeper: `replication/Auditor.java`, `AuditorBookieCheckTask.java`,
`AuditorCheckAllLedgersTask.java`, `AuditorPlacementPolicyCheckTask.java`.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from math import inf

from labkit.system.autorecovery.checker import LedgerChecker
from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.formats import decode_delay
from labkit.system.autorecovery.ledger_view import view_ledger
from labkit.system.autorecovery.lost_bookies import bookies_missed, ledgers_of_bookies
from labkit.system.autorecovery.metadata_silence import MetadataSilence
from labkit.system.autorecovery.missing_bookies import MissingBookies
from labkit.system.autorecovery.periodic_check import PeriodicCheck
from labkit.system.autorecovery.replicas_check import ReplicasCheck
from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.autorecovery.watched_nodes import WatchedNodes
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.bookie_watch import BookieWatch
from labkit.system.metadata.registration import all_bookies
from labkit.system.metadata.store import NoNodeError
from labkit.system.model.errors import (
    BKException,
    BKMetadataSerializationException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState

WhenToAudit = Callable[[Mapping[str, float], float, float], float | None]
_AT_ONCE = 100
"""Ledgers whose metadata are read together: one by one takes minutes, all at once much memory."""


class Auditor:
    """Watches over the bookies and the ledgers.

    Invariant: a ledger is marked only for what was certainly read, while the metadata store
    answered without a break; no answer from the store ever counts as a loss.
    """

    def __init__(
        self,
        client: BookKeeper,
        config: AutoRecoveryConfig,
        *,
        manager: LedgerUnderreplicationManager,
        bookies: BookieWatch,
        silence: MetadataSilence,
        checker: LedgerChecker,
        when_to_audit: WhenToAudit,
        own_bookie: str,
    ) -> None:
        """`manager` and `bookies` must be this auditor's own.

        `own_bookie` runs in the same process, so it is there whatever the metadata store says; ""
        if there is none.
        """
        self._client = client
        self._recorder = client.recorder
        self._config = config
        self._manager = manager
        self._bookies = bookies
        self._silence = silence
        self._checker = checker
        self._replicas_check = ReplicasCheck(client)
        self._when_to_audit = when_to_audit
        self._own_bookie = own_bookie
        self._nodes = WatchedNodes(client.store)
        self._missing = MissingBookies(silence)
        self._delay_s = self._delay_version = -1
        """The lost-bookie delay, and its node's version; -1 before it was read."""
        self._is_requested = False
        """Whether an audit was requested and is still to be done."""
        self._audit_at = inf
        self._bookie_check = PeriodicCheck(
            config.auditor_periodic_bookie_check_interval_s, self._audit
        )
        nodes = manager.nodes
        self._checks = [
            self._bookie_check,
            PeriodicCheck(
                config.auditor_periodic_check_interval_s,
                self._check_all_ledgers,
                partial(manager.checked_ms, nodes.ledgers_checked),
            ),
            PeriodicCheck(
                config.auditor_replicas_check_interval_s,
                self._check_replicas,
                partial(manager.checked_ms, nodes.replicas_checked),
            ),
        ]
        """In the order in which they are made if several are due."""
        if config.auditor_periodic_placement_policy_check_interval_s:
            self._checks.append(
                PeriodicCheck(
                    config.auditor_periodic_placement_policy_check_interval_s,
                    self._check_placement,
                    partial(manager.checked_ms, nodes.placement_checked),
                )
            )

    async def run(self, *, had_another: bool) -> None:
        """Audit forever; `had_another` if the cluster had an auditor before this one.

        Raises `MetadataUnavailableError`.
        """
        # From the cookies: a bookie that is away now must be missed, too.
        expected = await all_bookies(self._client.store)
        now = self._now()
        self._missing.begin(expected, await self._alive(), now, had_another=had_another)
        for check in self._checks:
            await check.begin(self._now, self._client.wall_clock_ms)
        while True:
            await self._manager.wait_until_enabled()
            await self._audit_if_due()
            await self._check_periodically()
            await self._wait_for_changes()

    # Lost bookies

    async def _audit_if_due(self) -> None:
        """Read which bookies are registered, and audit if it is time to."""
        # Before the reads: a change during them must wake the auditor again.
        self._nodes.changed.clear()
        alive = await self._alive()
        now = self._now()
        missing = self._missing
        missing.update(alive, now)
        self._is_requested |= await self._read_delay()
        due: float | None = now
        if not self._is_requested:
            due = self._when_to_audit(missing.since, self._delay_s, now)
        self._audit_at = inf if due is None else max(due, missing.settled_at)
        if self._audit_at <= now and await self._audit():
            self._bookie_check.done(self._now())

    async def _alive(self) -> dict[str, None]:
        """The bookies that are registered, and the one of this process."""
        own = [self._own_bookie] if self._own_bookie else []
        return dict.fromkeys([*(await self._bookies.now()).alive, *own])

    async def _read_delay(self) -> bool:
        """Read the lost-bookie delay; returns whether its change asks for an audit."""
        try:
            data, version = await self._nodes.data(self._manager.nodes.lost_bookie_recovery_delay)
        except NoNodeError:
            delay_s = self._config.lost_bookie_recovery_delay_s
            await self._manager.init_lost_bookie_recovery_delay(delay_s)
            data, version = await self._nodes.data(self._manager.nodes.lost_bookie_recovery_delay)
        before_s, before = self._delay_s, self._delay_version
        self._delay_s, self._delay_version = decode_delay(data), version
        if version != before:
            self._recorder.record("auditor.delay", note=f"{self._delay_s} s")
        return before not in (-1, version) and self._delay_s in (0, before_s)

    async def _audit(self) -> bool:
        """Mark every ledger that has a bookie in its ensembles which is not registered."""
        # Read before the list of bookies, as it takes long: the list must be recent.
        index = ledgers_of_bookies(await self._all_metadata())
        if not await self._manager.is_enabled():
            return False
        # A bookie that left after this was decided still gets the full delay.
        missing = self._missing
        were_there = [bookie for bookie in missing.known if bookie not in missing.since]
        registered = await self._alive()
        if not missing.is_up_to_date:
            return False  # The absences behind this audit no longer count.
        alive = {*registered, *were_there}
        for bookie in sorted(index):
            if bookie not in alive:
                self._recorder.record("bookie.lost", peer=bookie)
        for ledger_id, missed in bookies_missed(index, alive).items():
            await self._mark(ledger_id, missed)
        self._is_requested = False
        # Nothing else reports bookies that left meanwhile: look as soon as their delay is over.
        self._audit_at = self._now()
        missing.audited((b for b in were_there if b not in registered), self._audit_at)
        return True

    async def _all_metadata(self) -> list[tuple[int, LedgerMetadata]]:
        ledger_ids = await self._client.list_ledgers()
        found: list[tuple[int, LedgerMetadata]] = []
        for at in range(0, len(ledger_ids), _AT_ONCE):
            some = ledger_ids[at : at + _AT_ONCE]
            metadata = await asyncio.gather(*map(self._metadata, some))
            found += [(n, one) for n, one in zip(some, metadata, strict=True) if one is not None]
        return found

    async def _metadata(self, ledger_id: int) -> LedgerMetadata | None:
        """The ledger's metadata; None if it is deleted or could not be read."""
        try:
            return await self._client.ledger_metadata(ledger_id)
        except BKNoSuchLedgerExistsOnMetadataServerException:
            return None
        except BKMetadataSerializationException as error:
            self._recorder.record("ledger.unchecked", ledger_id, note=str(error))
            return None

    async def _mark(self, ledger_id: int, missed: list[str]) -> None:
        if await self._manager.mark(ledger_id, missed):
            self._recorder.record("ledger.underreplicated", ledger_id, note=",".join(missed))

    # Periodic checks

    async def _check_periodically(self) -> None:
        if not self._silence.is_settled:
            return
        for check in self._checks:
            # Asked for each: a check takes long, and a bookie may have gone meanwhile.
            if check.due_at <= self._now() and not self._missing.since and await check.run():
                check.done(self._now())

    async def _check_all_ledgers(self) -> bool:
        """Test copies of every ledger."""
        for ledger_id in await self._client.list_ledgers():
            # This may take hours: react to bookies that leave meanwhile.
            await self._audit_if_due()
            if self._missing.since or not await self._manager.is_enabled():
                return False
            await self._check_ledger(ledger_id)
        await self._manager.set_checked(self._manager.nodes.ledgers_checked)
        return True

    async def _check_ledger(self, ledger_id: int) -> None:
        try:
            short = await self._checker.check(await view_ledger(self._client, ledger_id))
        except BKNoSuchLedgerExistsOnMetadataServerException:
            return
        except BKException as error:
            self._recorder.record("ledger.unchecked", ledger_id, note=str(error))
            return
        missed = sorted({bookie for one in short for bookie in one.bookies})
        if missed:
            await self._mark(ledger_id, missed)

    async def _check_replicas(self) -> bool:
        """Count the copies of every entry."""
        for ledger_id in await self._client.list_ledgers():
            await self._audit_if_due()
            if self._missing.since or not await self._manager.is_enabled():
                return False
            try:
                await self._replicas_check.check(ledger_id)
            except BKException as error:
                self._recorder.record("ledger.unchecked", ledger_id, note=str(error))
        await self._manager.set_checked(self._manager.nodes.replicas_checked)
        return True

    async def _check_placement(self) -> bool:
        """Report the closed ledgers that break the rule about racks.  If the configuration allows
        moving copies, mark those for which there are bookies that keep the rule.
        """
        writable = await self._client.writable_bookies()
        try:
            policy = await self._client.context.watcher.policy()
        except BKMetadataSerializationException as error:
            self._recorder.record("placement.unmet", note=str(error))
            return True  # Without a readable policy nothing can be judged.
        for ledger_id, metadata in await self._all_metadata():
            if metadata.state is not LedgerState.CLOSED:
                continue
            quorum = metadata.write_quorum
            bad = [s for s in metadata.segments if not policy.is_adhering(s.ensemble, quorum)]
            if bad:
                note = " ".join(f"{s.first_entry_id}:{','.join(s.ensemble)}" for s in bad)
                self._recorder.record("placement.unmet", ledger_id, note=note)
            if self._config.repaired_placement_policy_not_adhering_bookie_enabled and any(
                policy.better(each.ensemble, writable, quorum) for each in bad
            ):
                await self._mark(ledger_id, [])
        await self._manager.set_checked(self._manager.nodes.placement_checked)
        return True

    # Time

    async def _wait_for_changes(self) -> None:
        """Return when the bookies or the delay have changed, or something is due."""
        checks_at = min(check.due_at for check in self._checks)
        is_waiting = self._missing.since or self._is_requested
        due = self._audit_at if is_waiting else max(checks_at, self._silence.settled_at)
        changes = [
            asyncio.ensure_future(self._bookies.changed()),
            asyncio.ensure_future(self._nodes.changed.wait()),
        ]
        timeout_s = None if due == inf else max(0.0, due - self._now())
        try:
            await asyncio.wait(changes, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in changes:
                wait.cancel()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
