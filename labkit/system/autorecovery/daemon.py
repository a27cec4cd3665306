"""All of autorecovery in one object: election, auditor, worker, and the watch over them.

In BookKeeper: `replication/AutoRecoveryMain.java`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from labkit.system.autorecovery.auditor import Auditor, WhenToAudit
from labkit.system.autorecovery.checker import LedgerChecker, MissingPlaces
from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.election import win_election
from labkit.system.autorecovery.fragments import missing_places
from labkit.system.autorecovery.lost_bookies import when_to_audit
from labkit.system.autorecovery.metadata_silence import MetadataSilence, SettledBookies
from labkit.system.autorecovery.random_port import Draw
from labkit.system.autorecovery.replicator import LedgerFragmentReplicator
from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.autorecovery.worker import ReplicationWorker, Spawn
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.bookie_watch import BookieWatch
from labkit.system.metadata.store import MetadataStore, MetadataUnavailableError


@dataclass(frozen=True, slots=True)
class Rules:
    """The decisions of autorecovery, each of which a lesson may replace by another."""

    when_to_audit: WhenToAudit = when_to_audit
    missing_places: MissingPlaces = missing_places
    replicator: Callable[..., LedgerFragmentReplicator] = LedgerFragmentReplicator
    metadata_silence: Callable[[MetadataStore], MetadataSilence] = MetadataSilence


class AutoRecovery:
    """One instance of autorecovery: candidate for auditor, and replication worker.

    It lives in its client's metadata session, which holds its vote and its locks.  Whatever leaves
    these in doubt ends the instance: then end the session too, and begin both again.
    """

    def __init__(
        self,
        node: str,
        client: BookKeeper,
        config: AutoRecoveryConfig,
        draw: Draw,
        rules: Rules | None = None,
        *,
        own_bookie: str = "",
        follows_silence: bool = False,
    ) -> None:
        """`node` is the bookie's id, or another name for people to read.  `client` and its session
        must be this instance's own.  `own_bookie` is the bookie in whose process this instance
        runs: while this runs, so does that.  `follows_silence` if the metadata store may have ended
        sessions before this one began.
        """
        self._node = node
        self._own_bookie = own_bookie
        self._follows_silence = follows_silence
        self._client = client
        self._config = config
        self._draw = draw
        self._rules = rules or Rules()

    async def run(self) -> None:
        """Run until cancelled; the first part that dies takes the others with it.

        Raises what that part raised, such as `MetadataUnavailableError` when the session is lost
        or in doubt.
        """
        self._silence = self._rules.metadata_silence(self._client.store)
        if self._follows_silence:
            self._silence.fell_silent()
        await self._manager().prepare()
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self._stand_for_auditor())
                parts.create_task(self._worker(parts.create_task).run())
                parts.create_task(self._watch_session())
        except BaseExceptionGroup as died:
            # The first alone: the others are the cancellations that it caused.
            raise died.exceptions[0] from None

    async def _stand_for_auditor(self) -> None:
        had_another = await win_election(self._client.store, self._node)
        self._client.recorder.record("auditor.elected")
        bookies = BookieWatch(self._client.store)
        auditor = Auditor(
            self._client,
            self._config,
            manager=self._manager(),
            bookies=bookies,
            silence=self._silence,
            checker=self._checker(bookies),
            when_to_audit=self._rules.when_to_audit,
            own_bookie=self._own_bookie,
        )
        await auditor.run(had_another=had_another)

    def _worker(self, spawn: Spawn) -> ReplicationWorker:
        bookies = BookieWatch(self._client.store)
        return ReplicationWorker(
            self._client,
            self._manager(),
            SettledBookies(bookies, self._silence),
            self._checker(bookies),
            self._rules.replicator(self._client.context, self._config),
            self._config,
            spawn,
        )

    async def _watch_session(self) -> None:
        is_lost = asyncio.Event()
        self._client.store.on_new_session(is_lost.set)
        await is_lost.wait()
        raise MetadataUnavailableError(
            f"the session of {self._node} was lost, and with it vote and locks"
        )

    def _manager(self) -> LedgerUnderreplicationManager:
        return LedgerUnderreplicationManager(
            self._client.store, self._node, self._draw, self._client.wall_clock_ms
        )

    def _checker(self, bookies: BookieWatch) -> LedgerChecker:
        return LedgerChecker(
            self._client.context,
            SettledBookies(bookies, self._silence),
            self._config.auditor_ledger_verification_percentage,
            self._draw,
            self._rules.missing_places,
        )
