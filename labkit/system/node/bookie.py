"""A complete bookie: its server, its registration and its background tasks.

In BookKeeper: `server/EmbeddedServer.java`, `bookie/BookieImpl.java`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import Rules
from labkit.system.autorecovery.overreplicated import OverreplicatedLedgers
from labkit.system.bookie.disk_monitor import DiskConfig, DiskMonitor
from labkit.system.bookie.garbage_collection import GarbageCollection, GarbageConfig
from labkit.system.bookie.node import Bookie
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.registration import Endpoint
from labkit.system.model.net import Connection, OnBodies
from labkit.system.node.autorecovery import run_autorecovery_forever
from labkit.system.node.ports import BookiePorts, ServerPorts
from labkit.system.node.registration import Registration
from labkit.system.storage.store import LedgerStore


@dataclass(frozen=True, slots=True)
class BookieConfig:
    """A bookie's settings. If `autorecovery` is set, the bookie also repairs ledgers."""

    flush_interval_ms: int
    garbage: GarbageConfig
    disk: DiskConfig
    autorecovery: AutoRecoveryConfig | None


class BookieService:
    """Runs a bookie from its registration until it stops. Its store must already be open.

    Disk-space reports flow as follows:

        checkpoints --> disk monitor --> bookie and registration: read-only or writable
                            |
                            +----------> garbage collection: whether to compact
    """

    registration_class: ClassVar[type[Registration]] = Registration

    def __init__(
        self,
        store: LedgerStore,
        config: BookieConfig,
        server: ServerPorts,
        ports: BookiePorts,
        bookie_class: Callable[..., Bookie] = Bookie,
        rules: Rules | None = None,
    ) -> None:
        """The simulated world may inject bugs through `bookie_class` and `rules`."""
        self._config = config
        self._server = server
        self._rules = rules
        self._warn = ports.warn
        overreplicated = OverreplicatedLedgers(
            server.node, ports.metadata, server.begin_session, server.draw, server.wall_clock_ms
        )
        self._garbage = GarbageCollection(
            store,
            existing_ledgers=partial(LedgerManager(ports.metadata).ids_in, ports.instance_id),
            drop_overreplicated=overreplicated.drop,
            run_in_flush_thread=ports.run_in_flush_thread,
            config=config.garbage,
        )
        self._monitor = DiskMonitor(
            store,
            ports.disk_usages,
            config.disk,
            on_read_only=self._set_read_only,
            on_space_change=self._garbage.on_space_change,
        )
        self._bookie = bookie_class(
            store,
            run_in_journal_threads=ports.run_in_journal_threads,
            run_in_flush_thread=ports.run_in_flush_thread,
            flush_interval_ms=config.flush_interval_ms,
            on_checkpoint_end=self._monitor.on_checkpoint_end,
            disk_space=ports.disk_space,
        )
        self._registration = self.registration_class(
            ports.metadata,
            server.node,
            ports.instance_id,
            is_read_only=lambda: self._bookie.read_only,
            recorder=server.recorder,
            warn=ports.warn,
        )

    def accept(self, connection: Connection) -> OnBodies:
        """Accept a client. Return the callback that receives its frames."""
        return self._bookie.accept(connection)

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Check the disks, and register the bookie at these endpoints. Raises `MetadataError`."""
        # Check the disks first, because full disks make the bookie register as read-only.
        self._monitor.check()
        await self._registration.register(endpoints)

    async def run(self) -> None:
        """Serve clients until cancelled. Raises the error of the first component that fails."""
        tasks = [asyncio.create_task(each) for each in self._components()]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            # Wait for the tasks to end, because the caller then closes the store and the ports.
            await asyncio.gather(*tasks, return_exceptions=True)

    def _components(self) -> list[Coroutine[Any, Any, object]]:
        components: list[Coroutine[Any, Any, object]] = [
            self._bookie.run(),
            self._garbage.run(),
            self._monitor.run(),
            self._registration.run(),
        ]
        if self._config.autorecovery is not None:
            server, rules = self._server, self._rules
            components.append(
                run_autorecovery_forever(
                    server, self._config.autorecovery, rules, own_bookie=server.node
                )
            )
        return components

    def _set_read_only(self, read_only: bool, why: str) -> None:
        self._bookie.read_only = read_only
        state = "read-only" if read_only else "writable again"
        self._warn(f"{self._server.node} is {state}: {why}")
        self._registration.renew()
