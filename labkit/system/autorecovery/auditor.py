"""The auditor, which marks ledgers with missing copies. Each cluster has one auditor.

    a bookie leaves       mark its ledgers after the lost-bookie delay (0 by default), or at once if
                          another bookie is also missing
    once a day            compare all ensembles with the registered bookies
    once a week           check the copies of all ledgers
    if configured         count the copies of every entry, and report missing ones
    if configured         compare the ensembles of closed ledgers with the rack policy
    the delay is written  audit now if the delay was set to 0 or to its current value

The intervals are the defaults of `config`. While a bookie is missing, all periodic checks wait,
because they would mark the bookie's ledgers before it counts as lost.

If the metadata store stops responding for a while, sessions of running bookies may expire. After
such a silence, the auditor discards the audit in progress, and no bookie counts as lost until
a grace period has ended (`metadata_silence`).

In BookKeeper: `replication/Auditor.java`, `AuditorBookieCheckTask.java`,
`AuditorCheckAllLedgersTask.java`, `AuditorPlacementPolicyCheckTask.java`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf

from labkit.system.autorecovery.audit_rules import lost_bookies_by_ledger
from labkit.system.autorecovery.checker import LedgerChecker
from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.formats import decode_delay
from labkit.system.autorecovery.ledger_view import view_ledger
from labkit.system.autorecovery.metadata_silence import MetadataSilence
from labkit.system.autorecovery.missing_bookies import MissingBookies
from labkit.system.autorecovery.periodic_check import PeriodicCheck
from labkit.system.autorecovery.replicas_check import check_replicas
from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.registered_bookies import registered_bookies
from labkit.system.metadata.registration import all_bookies
from labkit.system.metadata.store import NoNodeError
from labkit.system.metadata.watched_nodes import WatchedNodes
from labkit.system.model.errors import (
    BKException,
    BKMetadataSerializationException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState

WhenToAudit = Callable[[Mapping[str, float], float, float], float | None]
_LEDGERS_AT_ONCE = 100
"""Reading the metadata of one ledger at a time takes minutes, and reading all of it at once takes
too much memory.
"""


class Auditor:
    """Invariant: the auditor bases its marks only on data that it read while the metadata store was
    responding. If the store does not respond, no bookie counts as lost.
    """

    def __init__(
        self,
        client: BookKeeper,
        config: AutoRecoveryConfig,
        *,
        manager: LedgerUnderreplicationManager,
        nodes: WatchedNodes,
        silence: MetadataSilence,
        checker: LedgerChecker,
        when_to_audit: WhenToAudit,
        own_bookie: str,
    ) -> None:
        """`own_bookie` is the bookie in this process, which always counts as registered ("" if
        there is none).
        """
        self._client = client
        self._recorder = client.recorder
        self._config = config
        self._manager = manager
        self._silence = silence
        self._checker = checker
        self._when_to_audit = when_to_audit
        self._own_bookie = own_bookie
        self._nodes = nodes
        self._seen = 0
        """The `change_count` of the nodes when the auditor last looked for missing bookies."""
        self._missing = MissingBookies(silence)
        self._delay_s = self._delay_version = -1
        """The lost-bookie delay, and the version of its node; -1 until they are read."""
        self._is_requested = False
        """Whether a requested audit is pending."""
        self._audit_at = inf
        """When the next audit for missing bookies is due."""
        self._bookie_check = PeriodicCheck(
            config.auditor_periodic_bookie_check_interval_s, self._audit_bookies
        )
        self._checks = [self._bookie_check]
        """The checks. If several are due, they run in this order."""
        paths = manager.paths
        self._add_check(
            config.auditor_periodic_check_interval_s,
            paths.ledgers_checked,
            partial(self._check_each_ledger, self._check_ledger),
        )
        self._add_check(
            config.auditor_replicas_check_interval_s,
            paths.replicas_checked,
            partial(self._check_each_ledger, partial(check_replicas, client)),
        )
        if interval_s := config.auditor_periodic_placement_policy_check_interval_s:
            self._add_check(interval_s, paths.placement_checked, self._check_placement)

    def _add_check(
        self, interval_s: int, path: str, check: Callable[[str], Awaitable[bool]]
    ) -> None:
        """Add a check whose last completion is recorded at `path`."""
        last_ms = partial(self._manager.last_check_ms, path)
        self._checks.append(PeriodicCheck(interval_s, partial(check, path), last_ms))

    async def run(self, *, had_another: bool) -> None:
        """Audit forever. `had_another` is whether the cluster has already had another auditor.

        Raises `MetadataUnavailableError`.
        """
        # From now on, bookies that have a cookie but are not registered count as missing.
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
        # Get the count first, so that a change during the reads wakes the auditor again.
        self._seen = self._nodes.change_count
        alive = await self._alive()
        now = self._now()
        missing = self._missing
        missing.update(alive, now)
        self._is_requested |= await self._read_delay()
        due: float | None = now
        if not self._is_requested:
            due = self._when_to_audit(missing.since, self._delay_s, now)
        # Even a requested audit waits for grace periods to end.
        self._audit_at = inf if due is None else max(due, missing.settled_at)
        if self._audit_at <= now and await self._audit_bookies():
            self._bookie_check.reschedule(self._now())

    async def _alive(self) -> dict[str, None]:
        own = [self._own_bookie] if self._own_bookie else []
        return dict.fromkeys([*(await registered_bookies(self._nodes)).alive, *own])

    async def _read_delay(self) -> bool:
        """Return whether someone has requested an audit by writing the lost-bookie delay."""
        path = self._manager.paths.lost_bookie_recovery_delay
        delay_s = self._config.lost_bookie_recovery_delay_s
        try:
            data, version = await self._nodes.data(path)
        except NoNodeError:
            await self._manager.init_lost_bookie_recovery_delay(delay_s)
            data, version = await self._nodes.data(path)
        explanation = ""
        try:
            delay_s = decode_delay(data)
        except BKMetadataSerializationException as error:
            explanation = f"{error}; this is the delay in the auditor's own configuration"
        is_first_read = self._delay_version == -1
        was_written = version != self._delay_version
        is_zero_or_same = delay_s in (0, self._delay_s)
        self._delay_s, self._delay_version = delay_s, version
        if was_written:
            self._recorder.record("auditor.delay", seconds=float(delay_s), explanation=explanation)
        return was_written and is_zero_or_same and not is_first_read and not explanation

    async def _audit_bookies(self) -> bool:
        """Mark every ledger that lists an unregistered bookie in any of its ensembles, even if this
        auditor has never seen the bookie.

        Return False if autorecovery was disabled or the metadata store was silent in the meantime.
        """
        # Read the metadata before the list of bookies. Reading the metadata takes a long time, and
        # the list must be recent.
        ledgers = await self._all_metadata()
        if not await self._manager.is_enabled():
            return False
        # Bookies that leave after this point get the full delay.
        missing = self._missing
        were_alive = [bookie for bookie in missing.tracked if bookie not in missing.since]
        registered = await self._alive()
        if missing.was_silent:
            return False  # The bookies may only seem to be missing, because of the silence.
        lost_by_ledger = lost_bookies_by_ledger(ledgers, {*registered, *were_alive})
        for bookie in sorted(set().union(*lost_by_ledger.values())):
            self._recorder.record("bookie.lost", peer=bookie)
        for ledger_id, lost in lost_by_ledger.items():
            await self._mark(ledger_id, lost)
        self._is_requested = False
        missing.forget_lost(registered, self._now())
        return True

    async def _all_metadata(self) -> list[tuple[int, LedgerMetadata]]:
        ledger_ids = await self._client.list_ledgers()
        found: list[tuple[int, LedgerMetadata]] = []
        for at in range(0, len(ledger_ids), _LEDGERS_AT_ONCE):
            some = ledger_ids[at : at + _LEDGERS_AT_ONCE]
            metadata = await asyncio.gather(*map(self._metadata, some))
            found += [(n, one) for n, one in zip(some, metadata, strict=True) if one is not None]
        return found

    async def _metadata(self, ledger_id: int) -> LedgerMetadata | None:
        """Return None if the ledger was deleted or its metadata is malformed."""
        try:
            return await self._client.ledger_metadata(ledger_id)
        except BKNoSuchLedgerExistsOnMetadataServerException:
            return None
        except BKMetadataSerializationException as error:
            self._recorder.record("ledger.unchecked", ledger_id, explanation=str(error))
            return None

    async def _mark(self, ledger_id: int, bookies: Sequence[str]) -> None:
        if await self._manager.mark(ledger_id, bookies):
            self._recorder.record("ledger.underreplicated", ledger_id, bookies=(*bookies,))

    # Periodic checks

    async def _check_periodically(self) -> None:
        if not self._silence.is_settled:
            return
        for check in self._checks:
            # A bookie may have left during the previous check.
            if check.due_at <= self._now() and not self._missing.since and await check.run():
                check.reschedule(self._now())

    async def _check_each_ledger(
        self, check: Callable[[int], Awaitable[None]], recorded_at: str
    ) -> bool:
        for ledger_id in await self._client.list_ledgers():
            # Checking all ledgers may take hours, during which bookies may leave.
            await self._audit_if_due()
            if self._missing.since or not await self._manager.is_enabled():
                return False
            try:
                await check(ledger_id)
            except BKNoSuchLedgerExistsOnMetadataServerException:
                continue  # The ledger was deleted in the meantime.
            except BKException as error:
                self._recorder.record("ledger.unchecked", ledger_id, explanation=str(error))
        await self._manager.record_check(recorded_at)
        return True

    async def _check_ledger(self, ledger_id: int) -> None:
        found = await self._checker.check(await view_ledger(self._client, ledger_id))
        if bookies := sorted({bookie for fragment in found for bookie in fragment.bookies}):
            await self._mark(ledger_id, bookies)

    async def _check_placement(self, recorded_at: str) -> bool:
        """Report closed ledgers that violate the rack policy. Mark a ledger if its copies can be
        moved.
        """
        writable = await self._client.writable_bookies()
        try:
            policy = await self._client.context.watcher.policy()
        except BKMetadataSerializationException as error:
            self._recorder.record("placement.unmet", explanation=str(error))
            return True  # Without a policy, there is nothing to check.
        for ledger_id, metadata in await self._all_metadata():
            if metadata.state is not LedgerState.CLOSED:
                continue
            quorum = metadata.write_quorum
            violating = [s for s in metadata.segments if not policy.is_adhering(s.ensemble, quorum)]
            if violating:
                segments = tuple((s.first_entry_id, s.ensemble) for s in violating)
                self._recorder.record("placement.unmet", ledger_id, segments=segments)
            if self._config.repaired_placement_policy_not_adhering_bookie_enabled and any(
                policy.replace_to_adhere(s.ensemble, writable, quorum) for s in violating
            ):
                await self._mark(ledger_id, [])
        await self._manager.record_check(recorded_at)
        return True

    # Time

    async def _wait_for_changes(self) -> None:
        due = self._next_due()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(None if due == inf else due):
                await self._nodes.changed(self._seen)

    def _next_due(self) -> float:
        if self._missing.since or self._is_requested:
            return self._audit_at  # Periodic checks wait for this audit.
        return max(min(check.due_at for check in self._checks), self._silence.settled_at)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
