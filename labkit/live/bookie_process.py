"""A bookie as a process: real files, TCP, ZooKeeper.

    labkit bookie --id bookie-1 --data FOLDER --zookeeper HOST:PORT

Ends at SIGTERM after a last flush, and at once when its disk fails: then nothing that it still has
in memory may be acknowledged.

In BookKeeper: `server/Main.java`, `server/EmbeddedServer.java`.
"""

import asyncio
import json
import os
import signal
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from labkit.bookie.disk_monitor import DiskConfig, DiskMonitor
from labkit.bookie.garbage_collection import GarbageCollection, GarbageConfig
from labkit.bookie.node import Bookie
from labkit.live.clock import trace_clock_us, wall_clock_ms
from labkit.live.disk import RealDisk, hold_folder
from labkit.live.net import LOOPBACK, listen
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
from labkit.model.errors import BKIncorrectParameterException
from labkit.storage.config import StorageConfig
from labkit.storage.store import LedgerStore
from labkit.trace.recorder import Recorder

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BookieSettings:
    """What a bookie needs to know.  Port 0 takes a free one.

    Raises `BKIncorrectParameterException` when a value is out of range.
    """

    bookie_id: str
    data: Path
    zookeeper: str
    port: int = 0
    flush_interval_ms: int = 10_000
    trace_from_start: bool = False

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

    @property
    def journal_dir(self) -> Path:
        """Where the journal lies."""
        return self.data / "journal"

    @property
    def ledger_dir(self) -> Path:
        """Where entry logs and indexes lie."""
        return self.data / "ledgers"


async def run_bookie(settings: BookieSettings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM, then flush and leave.

    Calls `announce` with one line of JSON (pid, port, trace_port) once the bookie is registered.
    Raises `LabkitError` when it cannot start, and `OSError` when its disk fails.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stopped.set)
    metadata = ZooKeeperStore(settings.zookeeper)
    await metadata.start()
    try:
        await _serve(settings, metadata, stopped, announce)
    finally:
        await metadata.stop()


async def _serve(
    settings: BookieSettings,
    metadata: ZooKeeperStore,
    stopped: asyncio.Event,
    announce: Callable[[str], None],
) -> None:
    recorder = Recorder(settings.bookie_id, trace_clock_us)
    trace_server = TraceServer(recorder, from_start=settings.trace_from_start)
    hold_folder(settings.data)
    ledger_disk = RealDisk(settings.ledger_dir)
    store = await _open_store(settings, metadata, recorder, ledger_disk)
    journal_thread, flush_thread = _DiskThread("journal"), _DiskThread("flush")
    bookie = Bookie(
        store, recorder, [journal_thread.run], flush_thread.run, settings.flush_interval_ms
    )
    server = await listen(bookie.accept, settings.port)
    port: int = server.sockets[0].getsockname()[1]
    trace_port = await trace_server.start()
    endpoints = [Endpoint(BOOKIE_RPC, LOOPBACK, port), Endpoint(TRACE, LOOPBACK, trace_port)]

    async def register() -> None:
        await register_bookie(metadata, settings.bookie_id, endpoints, read_only=bookie.read_only)
        recorder.record("bookie.registered")

    async def set_read_only(read_only: bool) -> None:
        bookie.read_only = read_only
        await register()

    monitor = DiskMonitor(
        store, lambda: [ledger_disk.usage()], DiskConfig(), recorder, set_read_only
    )
    await monitor.check()
    new_session = asyncio.Event()

    async def stay_registered() -> None:
        while True:
            await new_session.wait()
            new_session.clear()
            await register()

    metadata.on_new_session(new_session.set)
    await register()
    announce(json.dumps({"pid": os.getpid(), "port": port, "trace_port": trace_port}))
    garbage = GarbageCollection(
        store, LedgerManager(metadata).ids, flush_thread.run, GarbageConfig(), recorder
    )
    tasks = (bookie.run(), garbage.run(), monitor.run(), stay_registered(), stopped.wait())
    parts = [asyncio.create_task(task) for task in tasks]
    ended, serving = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    server.close()
    for part in ended:
        await part
    for part in serving:
        part.cancel()
    await asyncio.wait(serving)
    # What the threads have begun must be done before the store is closed under them.
    journal_thread.join()
    flush_thread.join()
    store.close()


async def _open_store(
    settings: BookieSettings, metadata: ZooKeeperStore, recorder: Recorder, ledger_disk: RealDisk
) -> LedgerStore:
    instance_id = await init_cluster(metadata, str(uuid.uuid4()))
    journal_disk = RealDisk(settings.journal_dir)
    cookie = Cookie(
        settings.bookie_id,
        str(settings.journal_dir),
        (str(settings.ledger_dir),),
        instance_id,
    )
    await check_cookie(metadata, cookie, (journal_disk, ledger_disk))
    return LedgerStore(
        [journal_disk], [ledger_disk], StorageConfig(), recorder, wall_clock_ms() + 1
    )


class _DiskThread:
    """A thread of its own for one kind of disk work, so that it is done in order."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, call: Callable[[], T], /) -> T:
        """What the call returns; raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def join(self) -> None:
        """Wait for what was begun."""
        self._executor.shutdown()
