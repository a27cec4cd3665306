"""An instance of autorecovery: election, auditor, worker, and a watch on their session.

In BookKeeper: `replication/AutoRecoveryMain.java`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from labkit.system.autorecovery.audit_rules import when_to_audit
from labkit.system.autorecovery.auditor import Auditor, WhenToAudit
from labkit.system.autorecovery.checker import LedgerChecker, UnderreplicatedIndexes
from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.election import win_election
from labkit.system.autorecovery.fragments import underreplicated_indexes
from labkit.system.autorecovery.metadata_silence import MetadataSilence, SettledBookies
from labkit.system.autorecovery.random_source import Draw
from labkit.system.autorecovery.replicator import LedgerFragmentReplicator
from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.autorecovery.worker import ReplicationWorker, Spawn
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import MetadataStore, MetadataUnavailableError
from labkit.system.metadata.watched_nodes import WatchedNodes


@dataclass(frozen=True, slots=True)
class Rules:
    """Functions and classes that lessons and simulations may replace."""

    when_to_audit: WhenToAudit = when_to_audit
    underreplicated_indexes: UnderreplicatedIndexes = underreplicated_indexes
    replicator: Callable[..., LedgerFragmentReplicator] = LedgerFragmentReplicator
    metadata_silence: Callable[[MetadataStore], MetadataSilence] = MetadataSilence


class AutoRecovery:
    """Runs a replication worker and a candidate for auditor, which share a metadata session.

    The session, which belongs to `client`, owns the candidate's vote and the worker's locks. If an
    error leaves the state of the vote or a lock unknown, the instance ends, and its owner starts
    a new one with a new session.
    """

    def __init__(
        self,
        name: str,
        client: BookKeeper,
        config: AutoRecoveryConfig,
        draw: Draw,
        rules: Rules | None = None,
        *,
        own_bookie: str = "",
        follows_silence: bool = False,
    ) -> None:
        """`name` identifies this instance in its vote and locks. No other instance may share
        `client`. `own_bookie` is the bookie in whose process this instance runs. Set
        `follows_silence` if the metadata store may just have been silent, because the sessions of
        running bookies may have expired.
        """
        self._name = name
        self._own_bookie = own_bookie
        self._follows_silence = follows_silence
        self._client = client
        self._config = config
        self._draw = draw
        self._rules = rules or Rules()

    async def run(self) -> None:
        """Run until cancelled, or until a component raises an error; then raise that error."""
        self._silence = self._rules.metadata_silence(self._client.store)
        if self._follows_silence:
            self._silence.silence_ended()
        await self._manager().prepare()
        try:
            async with asyncio.TaskGroup() as components:
                components.create_task(self._run_for_auditor())
                components.create_task(self._worker(components.create_task).run())
                components.create_task(self._watch_session())
        except BaseExceptionGroup as group:
            # The first error has cancelled the other components.
            raise group.exceptions[0] from None

    async def _run_for_auditor(self) -> None:
        had_another = await win_election(self._client.store, self._name)
        self._client.recorder.record("auditor.elected")
        nodes = WatchedNodes(self._client.store)
        auditor = Auditor(
            self._client,
            self._config,
            manager=self._manager(),
            nodes=nodes,
            silence=self._silence,
            checker=self._checker(nodes),
            when_to_audit=self._rules.when_to_audit,
            own_bookie=self._own_bookie,
        )
        await auditor.run(had_another=had_another)

    def _worker(self, spawn: Spawn) -> ReplicationWorker:
        nodes = WatchedNodes(self._client.store)
        return ReplicationWorker(
            self._client,
            self._manager(),
            nodes,
            SettledBookies(nodes, self._silence),
            self._checker(nodes),
            self._rules.replicator(self._client.context, self._config),
            self._config,
            spawn,
        )

    async def _watch_session(self) -> None:
        is_lost = asyncio.Event()
        self._client.store.on_new_session(is_lost.set)
        await is_lost.wait()
        raise MetadataUnavailableError(
            f"the session of {self._name} was lost, and with it its vote and locks"
        )

    def _manager(self) -> LedgerUnderreplicationManager:
        return LedgerUnderreplicationManager(
            self._client.store, self._name, self._draw, self._client.wall_clock_ms
        )

    def _checker(self, nodes: WatchedNodes) -> LedgerChecker:
        return LedgerChecker(
            self._client.context,
            SettledBookies(nodes, self._silence),
            self._config.auditor_ledger_verification_percentage,
            self._draw,
            self._rules.underreplicated_indexes,
        )
