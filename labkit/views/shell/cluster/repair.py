"""The verbs that deal with lost bookies: the auditor, under-replicated ledgers, and manual repairs.

In BookKeeper: `tools/cli/commands/autorecovery/*.java`, `client/BookKeeperAdmin.java`,
`tools/cli/commands/bookies/RecoverCommand.java`, `DecommissionCommand.java`.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Collection

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.election import current_auditor
from labkit.system.autorecovery.fragments import UnderreplicatedFragment, fragments_of
from labkit.system.autorecovery.ledger_view import view_ledger
from labkit.system.autorecovery.replicator import LedgerFragmentReplicator
from labkit.system.autorecovery.underreplication import (
    LedgerUnderreplicationManager,
    UnavailableException,
)
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.cluster import ClusterInUseError
from labkit.system.metadata.cookie import delete_cookie
from labkit.system.metadata.registered_bookies import registered_bookies
from labkit.system.metadata.registration import all_bookies
from labkit.system.metadata.watched_nodes import WatchedNodes
from labkit.system.model.errors import BKException, BKNoSuchLedgerExistsOnMetadataServerException
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.views.shell.cluster.records import (
    AuditTriggered,
    AutoRecoveryState,
    CookieDeleted,
    ElectedAuditor,
    LedgerRecovery,
    StillNeeded,
    UnderreplicatedMark,
)
from labkit.views.shell.folders import ShellError

_POLL_INTERVAL_S = 1.0


async def whoisauditor(client: BookKeeper) -> ElectedAuditor:
    return ElectedAuditor(await current_auditor(client.store))


async def autorecovery(client: BookKeeper, enable: bool | None = None) -> AutoRecoveryState:
    """Enable or disable autorecovery, or return its state if `enable` is None.

    Raises `UnavailableException` if autorecovery is already in that state.
    """
    marks = _marks(client)
    if enable is not None:
        await (marks.enable() if enable else marks.disable())
    return AutoRecoveryState(await marks.is_enabled())


async def triggeraudit(client: BookKeeper) -> AuditTriggered:
    """Make the auditor look for lost bookies immediately.

    Raises `UnavailableException` if autorecovery is disabled or there is no auditor.
    """
    marks = _marks(client)
    if not await marks.is_enabled():
        raise UnavailableException(
            "autorecovery is disabled; enable it with `labkit shell autorecovery -enable`"
        )
    auditor = await current_auditor(client.store)
    if auditor is None:
        raise UnavailableException("there is no auditor: autorecovery is not running on any node")
    await marks.set_lost_bookie_recovery_delay(await marks.lost_bookie_recovery_delay_s())
    return AuditTriggered(auditor)


async def listunderreplicated(
    client: BookKeeper, bookie_id: str | None = None, excluded_id: str | None = None
) -> list[UnderreplicatedMark]:
    """Return the ledgers that are marked as under-replicated, in ascending order.

    If `bookie_id` is given, include only ledgers with this bookie among their missing replicas. If
    `excluded_id` is given, omit ledgers with that bookie among their missing replicas.
    """
    marks, found = _marks(client), []
    for ledger_id in await marks.ledgers():
        mark = await marks.find(ledger_id)
        if mark is None:
            continue
        if bookie_id is not None and bookie_id not in mark.bookies:
            continue
        if excluded_id is not None and excluded_id in mark.bookies:
            continue
        found.append(UnderreplicatedMark(ledger_id, mark.bookies, mark.ctime_ms))
    return found


async def recover(
    client: BookKeeper,
    bookies: Collection[str],
    *,
    ledger_id: int | None = None,
    skip_open: bool = False,
    dry_run: bool = False,
    delete_cookies: bool = False,
) -> AsyncIterator[LedgerRecovery | CookieDeleted]:
    """Replicate the entries of lost bookies to other bookies, and update the ledgers' metadata.

    `ledger_id` restricts the replication to one ledger. An open ledger whose last ensemble includes
    a lost bookie is recovered first, which fences it. With `delete_cookies`, the bookies' cookies
    are deleted afterwards if all ledgers have been recovered.

    Raises `ClusterInUseError` if one of the bookies is registered, and `ShellError` if the bookies
    are not in the cluster and no ledger refers to them.
    """
    await _require_stopped(client, bookies)
    replicator = LedgerFragmentReplicator(client.context, AutoRecoveryConfig())
    ledger_ids = await client.list_ledgers() if ledger_id is None else [ledger_id]
    is_referenced, all_recovered = False, not dry_run
    for each in ledger_ids:
        metadata = await _metadata(client, each)
        if metadata is None or (skip_open and metadata.state is not LedgerState.CLOSED):
            continue
        count = sum(any(b in bookies for b in one.ensemble) for one in metadata.segments)
        if not count:
            continue
        is_referenced = True
        if dry_run:
            yield LedgerRecovery(each, count, recovered=False)
            continue
        try:
            await _recover(client, replicator, each, metadata, bookies)
        except BKException as error:
            all_recovered = False
            yield LedgerRecovery(each, count, recovered=False, error=str(error))
        else:
            yield LedgerRecovery(each, count, recovered=True)
    deletes = delete_cookies and all_recovered
    if deletes or not is_referenced:
        # If no ledger refers to the bookies, the user may have mistyped the ids.
        await _require_members(client, bookies)
    for bookie_id in bookies if deletes else ():
        await delete_cookie(client.store, bookie_id)
        yield CookieDeleted(bookie_id)


async def _recover(
    client: BookKeeper,
    replicator: LedgerFragmentReplicator,
    ledger_id: int,
    metadata: LedgerMetadata,
    bookies: Collection[str],
) -> None:
    in_last = any(bookie in bookies for bookie in metadata.segments[-1].ensemble)
    if metadata.state is not LedgerState.CLOSED and in_last:
        await client.open_ledger(ledger_id, password=metadata.password)
    ledger = await view_ledger(client, ledger_id)
    for fragment in fragments_of(ledger.metadata, ledger.last_confirmed):
        indexes = tuple(n for n, bookie in enumerate(fragment.ensemble) if bookie in bookies)
        if indexes:
            await replicator.replicate(ledger, UnderreplicatedFragment(fragment, indexes))


async def decommissionbookie(
    client: BookKeeper, bookie_id: str
) -> AsyncIterator[StillNeeded | CookieDeleted]:
    """Wait until autorecovery has copied a stopped bookie's entries, then delete its cookie.

    Raises `ClusterInUseError` if the bookie is registered, `ShellError` if the bookie is not in the
    cluster, and any error raised by `triggeraudit`.
    """
    await _require_members(client, [bookie_id])
    await _require_stopped(client, [bookie_id])
    await triggeraudit(client)
    reported = None
    while needed := await _ledgers_that_need(client, bookie_id):
        if needed != reported:
            yield StillNeeded(bookie_id, needed)
            reported = needed
        await asyncio.sleep(_POLL_INTERVAL_S)
    await delete_cookie(client.store, bookie_id)
    yield CookieDeleted(bookie_id)


async def _ledgers_that_need(client: BookKeeper, bookie_id: str) -> tuple[int, ...]:
    """Return the ledgers that may have entries on the bookie, or that are marked as
    under-replicated because the bookie's copies are missing.
    """
    needed = {mark.ledger_id for mark in await listunderreplicated(client, bookie_id)}
    for ledger_id in await client.list_ledgers():
        metadata = await _metadata(client, ledger_id)
        if metadata is not None and _has_entries_on(metadata, bookie_id):
            needed.add(ledger_id)
    return tuple(sorted(needed))


def _has_entries_on(metadata: LedgerMetadata, bookie_id: str) -> bool:
    # The last fragment of an open ledger may contain entries, whatever the metadata says.
    return any(
        bookie_id in fragment.ensemble and (fragment.last >= fragment.first or not fragment.closed)
        for fragment in fragments_of(metadata, metadata.last_entry_id)
    )


async def _metadata(client: BookKeeper, ledger_id: int) -> LedgerMetadata | None:
    try:
        return await client.ledger_metadata(ledger_id)
    except BKNoSuchLedgerExistsOnMetadataServerException:
        return None


async def _require_members(client: BookKeeper, bookies: Collection[str]) -> None:
    members = await all_bookies(client.store)
    unknown = sorted(bookie for bookie in bookies if bookie not in members)
    if unknown:
        raise ShellError(
            f"the cluster has no bookie {', '.join(map(repr, unknown))}; `listbookies -a` lists its"
            " bookies"
        )


async def _require_stopped(client: BookKeeper, bookies: Collection[str]) -> None:
    registered = (await registered_bookies(WatchedNodes(client.store))).alive
    running = sorted(bookie for bookie in bookies if bookie in registered)
    if running:
        raise ClusterInUseError(
            f"stop these bookies first: {', '.join(running)} (still registered)"
        )


def _marks(client: BookKeeper) -> LedgerUnderreplicationManager:
    return LedgerUnderreplicationManager(
        client.store, "labkit shell", random.randrange, client.wall_clock_ms
    )
