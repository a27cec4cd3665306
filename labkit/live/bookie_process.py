"""A bookie as a process: real files, TCP, ZooKeeper.

    labkit bookie --id bookie-1 --data FOLDER --zookeeper HOST:PORT

Ends at SIGTERM after a last flush, and at once when its disk fails: then nothing that it still has
in memory may be acknowledged.

In BookKeeper: `server/Main.java`, `server/EmbeddedServer.java`.
"""

import asyncio
import json
import os
import random
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from labkit.autorecovery.config import AutoRecoveryConfig
from labkit.autorecovery.overreplicated import OverreplicatedLedgers
from labkit.bookie.disk_monitor import DiskConfig, DiskMonitor
from labkit.bookie.garbage_collection import GarbageCollection, GarbageConfig
from labkit.bookie.node import Bookie
from labkit.live.autorecovery_process import keep_recovering
from labkit.live.clock import trace_clock_us, wall_clock_ms
from labkit.live.disk import RealDisk, disk_space, hold_directory
from labkit.live.disk_thread import DiskThread
from labkit.live.net import LOOPBACK, listen, port_of, taking_port
from labkit.live.stop_signal import cancel_on_stop_signal, on_stop_signal
from labkit.live.trace_stream import TraceServer
from labkit.live.zookeeper_store import ZooKeeperStore
from labkit.metadata.cluster import init_cluster
from labkit.metadata.cookie import Cookie, check_cookie
from labkit.metadata.ledger_manager import LedgerManager
from labkit.metadata.registration import (
    BOOKIE_RPC,
    TRACE,
    Endpoint,
    check_bookie_id,
    register_bookie,
)
from labkit.metadata.store import MetadataUnavailableError
from labkit.model.errors import BKIncorrectParameterException
from labkit.model.net import Connection, OnBodies
from labkit.storage.config import StorageConfig
from labkit.storage.store import LedgerStore
from labkit.trace.recorder import Recorder

_REGISTER_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class BookieSettings:
    """What a bookie needs to know.  Port 0 takes a free one; without `autorecovery` none runs.

    Raises `BKIncorrectParameterException` when a value is out of range.
    """

    bookie_id: str
    zookeeper: str
    host: str
    journal_dirs: tuple[Path, ...]
    ledger_dirs: tuple[Path, ...]
    port: int
    flush_interval_ms: int
    storage: StorageConfig
    garbage: GarbageConfig
    disk: DiskConfig
    autorecovery: AutoRecoveryConfig | None
    trace_from_start: bool

    def __post_init__(self) -> None:
        check_bookie_id(self.bookie_id)
        if not 0 <= self.port <= 65535:
            raise BKIncorrectParameterException(
                f"port {self.port}; allowed are 1 to 65535, and 0 for a free one"
            )
        if self.flush_interval_ms < 1:
            raise BKIncorrectParameterException(
                f"flush_interval_ms is {self.flush_interval_ms}; it must be at least 1"
            )
        if not self.journal_dirs or not self.ledger_dirs:
            raise BKIncorrectParameterException(
                "a bookie needs at least one journal directory and one ledger directory"
            )


async def run_bookie(settings: BookieSettings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM, then flush and leave.

    Calls `announce` with one line of JSON (pid, port, trace_port) once the bookie is registered;
    a SIGTERM before that cancels it.  Raises `LabkitError` when it cannot start, and `OSError` when
    its disk fails.
    """
    cancel_on_stop_signal()
    metadata = ZooKeeperStore(settings.zookeeper)
    await metadata.start()
    try:
        process = await _BookieProcess.open(settings, metadata)
        where = await process.start()
        stopped = asyncio.Event()
        on_stop_signal(stopped.set)
        announce(where)
        await process.serve_until(stopped)
    finally:
        await metadata.stop()


class _BookieProcess:
    """A bookie and what keeps it going: its threads, its server, its place in the metadata."""

    @classmethod
    async def open(cls, settings: BookieSettings, metadata: ZooKeeperStore) -> Self:
        """Take the port, then the directories, and open the store: the journal is replayed."""

        def accept(connection: Connection) -> OnBodies:
            return process._bookie.accept(connection)

        server = await listen(accept, settings.port, settings.host, serving=False)
        for directory in dict.fromkeys((*settings.journal_dirs, *settings.ledger_dirs)):
            hold_directory(directory)
        recorder = Recorder(settings.bookie_id, trace_clock_us)
        trace_server = TraceServer(recorder, from_start=settings.trace_from_start)
        ledger_disks = [RealDisk(directory) for directory in settings.ledger_dirs]
        store = await _open_store(settings, metadata, recorder, ledger_disks)
        process = cls(settings, metadata, recorder, server, trace_server, ledger_disks, store)
        return process

    def __init__(
        self,
        settings: BookieSettings,
        metadata: ZooKeeperStore,
        recorder: Recorder,
        server: asyncio.Server,
        trace_server: TraceServer,
        ledger_disks: list[RealDisk],
        store: LedgerStore,
    ) -> None:
        self._settings = settings
        self._metadata = metadata
        self._recorder = recorder
        self._server = server
        self._trace_server = trace_server
        self._ledger_disks = ledger_disks
        self._store = store
        self._journal_threads = [DiskThread("journal") for _ in store.journals]
        self._flush_thread = DiskThread("flush")
        self._garbage = GarbageCollection(
            store,
            LedgerManager(metadata).ids,
            OverreplicatedLedgers(
                settings.bookie_id, metadata, self._begin_session, random.randrange, wall_clock_ms
            ).drop,
            self._flush_thread.run,
            settings.garbage,
            recorder,
        )
        self._monitor = DiskMonitor(
            store,
            self._disk_usages,
            settings.disk,
            recorder,
            self._set_read_only,
            self._garbage.on_space,
        )
        self._bookie = Bookie(
            store,
            recorder,
            [thread.run for thread in self._journal_threads],
            self._flush_thread.run,
            settings.flush_interval_ms,
            self._monitor.on_checkpoint,
            lambda: disk_space(ledger_disks),
        )
        self._must_register = asyncio.Event()
        self._endpoints: list[Endpoint] = []

    async def start(self) -> str:
        """Serve and register; returns one line of JSON that says where."""
        with taking_port(self._settings.port, self._settings.host):
            await self._server.start_serving()
        port = port_of(self._server)
        trace_port = await self._trace_server.start()
        self._endpoints = [
            Endpoint(BOOKIE_RPC, self._settings.host, port),
            Endpoint(TRACE, LOOPBACK, trace_port),
        ]
        self._monitor.check()
        await self._register()
        return json.dumps({"pid": os.getpid(), "port": port, "trace_port": trace_port})

    async def serve_until(self, stopped: asyncio.Event) -> None:
        """Serve; then flush and close.  Raises what the first part raises that cannot go on."""
        tasks: list[Coroutine[Any, Any, object]] = [
            self._bookie.run(),
            self._garbage.run(),
            self._monitor.run(),
            self._stay_registered(),
            stopped.wait(),
        ]
        settings = self._settings
        if settings.autorecovery is not None:
            node, config = settings.bookie_id, settings.autorecovery
            tasks.append(keep_recovering(node, settings.zookeeper, config, self._recorder))
        parts = [asyncio.create_task(task) for task in tasks]
        ended, serving = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        self._server.close()
        for part in ended:
            await part
        for part in serving:
            part.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        # What the threads have begun must be done before the store is closed under them.
        for thread in (*self._journal_threads, self._flush_thread):
            thread.join()
        self._store.close()

    async def _begin_session(self) -> ZooKeeperStore:
        store = ZooKeeperStore(self._settings.zookeeper)
        await store.start()
        return store

    async def _register(self) -> None:
        await register_bookie(
            self._metadata,
            self._settings.bookie_id,
            self._endpoints,
            read_only=self._bookie.read_only,
        )
        self._recorder.record("bookie.registered")

    async def _stay_registered(self) -> None:
        """A lost session takes the registration with it: make it again in the new one."""
        self._metadata.on_new_session(self._must_register.set)
        while True:
            await self._must_register.wait()
            self._must_register.clear()
            try:
                await self._register()
            except MetadataUnavailableError:
                # It serves all the same, to those who know it; the connection may come back.
                await asyncio.sleep(_REGISTER_AGAIN_S)
                self._must_register.set()

    def _set_read_only(self, read_only: bool) -> None:
        self._bookie.read_only = read_only
        self._must_register.set()

    def _disk_usages(self) -> list[float]:
        return [disk.usage() for disk in self._ledger_disks]


async def _open_store(
    settings: BookieSettings,
    metadata: ZooKeeperStore,
    recorder: Recorder,
    ledger_disks: list[RealDisk],
) -> LedgerStore:
    instance_id = await init_cluster(metadata, str(uuid.uuid4()))
    journal_disks = [RealDisk(directory) for directory in settings.journal_dirs]
    cookie = Cookie(
        settings.bookie_id,
        ",".join(map(str, settings.journal_dirs)),
        tuple(map(str, settings.ledger_dirs)),
        instance_id,
    )
    await check_cookie(metadata, cookie, (*journal_disks, *ledger_disks))
    first_journal_id = wall_clock_ms() + 1
    return LedgerStore(journal_disks, ledger_disks, settings.storage, recorder, first_journal_id)
