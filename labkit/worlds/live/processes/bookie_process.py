"""A bookie as a process, with real files, TCP and ZooKeeper.

    labkit bookie --id b0 --data FOLDER --zookeeper HOST:PORT

On SIGTERM, the bookie flushes its memory to disk and exits. If a disk fails, the bookie exits
immediately, because it must not acknowledge data that is only in memory.

In BookKeeper: `server/Main.java`, `server/EmbeddedServer.java`.
"""

import asyncio
import json
import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from labkit.system.metadata.cluster import init_cluster
from labkit.system.metadata.cookie import Cookie, check_cookie
from labkit.system.metadata.registration import BOOKIE_RPC, TRACE, Endpoint
from labkit.system.model.net import Connection, OnBodies
from labkit.system.node.bookie import BookieConfig, BookieService
from labkit.system.node.ports import BookiePorts
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import Disk
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import trace_clock_us, wall_clock_ms
from labkit.worlds.live.disk import RealDisk, disk_space, lock_directory
from labkit.worlds.live.disk_thread import DiskThread
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.host.posix import raise_open_file_limit
from labkit.worlds.live.host.stop_signal import cancel_on_stop_signal, on_stop_signal
from labkit.worlds.live.net import explain_port_errors, listen, port_of
from labkit.worlds.live.peer_log import PeerLog, report_failed_accepts
from labkit.worlds.live.peers import Peers
from labkit.worlds.live.processes.server_config import BookieSettings
from labkit.worlds.live.processes.server_ports import server_ports
from labkit.worlds.live.trace_stream import MAX_LISTENERS, TraceServer
from labkit.worlds.live.zookeeper.store import ZooKeeperStore

_OTHER_DESCRIPTORS = 150 + MAX_LISTENERS
"""File descriptors for journals, open entry logs, ZooKeeper and trace listeners."""


OpenStore = Callable[[Sequence[Disk], Sequence[Disk], StorageConfig, Recorder, int], LedgerStore]
"""Opens a bookie's store: `LedgerStore` itself, or a function that replaces its components."""


async def run_bookie(
    settings: BookieSettings,
    announce: Callable[[str], None],
    warn: Callable[[str], None],
    open_store: OpenStore = LedgerStore,
) -> None:
    """Serve until SIGTERM, then flush and return.

    Calls `announce` with one line of JSON (pid, port, trace_port) once the bookie is registered.
    Calls `warn` with a line whenever its directories become full or have space again. A SIGTERM
    before the announcement cancels the start. Raises `LabkitError` if the bookie cannot start, and
    `OSError` if its disk fails.
    """
    raise_open_file_limit()
    report_failed_accepts(PeerLog(settings.bookie_id))
    cancel_on_stop_signal()
    async with ZooKeeperStore(settings.metadata) as metadata:
        await _serve(settings, metadata, announce, warn, open_store)


async def _serve(
    settings: BookieSettings,
    metadata: ZooKeeperStore,
    announce: Callable[[str], None],
    warn: Callable[[str], None],
    open_store: OpenStore,
) -> None:
    """Bind the port, lock the directories, open the store, register and serve."""

    def accept(connection: Connection) -> OnBodies:
        return service.accept(connection)

    others = settings.storage.open_file_limit + _OTHER_DESCRIPTORS
    limits = settings.peers.within_open_files(others)
    server = await listen(accept, settings.port, settings.host, peers=Peers(limits), serving=False)
    directories = map(Path, (*settings.journal_dirs, *settings.ledger_dirs))
    for directory in dict.fromkeys(each.resolve() for each in directories):
        lock_directory(directory)
    recorder = Recorder(settings.bookie_id, trace_clock_us)
    trace_server = TraceServer(recorder, from_start=settings.trace_from_start)
    journal_disks = [RealDisk(Path(directory)) for directory in settings.journal_dirs]
    ledger_disks = [RealDisk(Path(directory)) for directory in settings.ledger_dirs]
    instance_id = await init_cluster(metadata, str(uuid.uuid4()))
    await check_cookie(
        metadata,
        Cookie(
            settings.bookie_id,
            ",".join(settings.journal_dirs),
            settings.ledger_dirs,
            instance_id,
        ),
        (*journal_disks, *ledger_disks),
        allow_expansion=settings.allow_storage_expansion,
    )
    # The first journal file in an empty directory is named after the current time.
    journal_id = wall_clock_ms() + 1
    store = open_store(journal_disks, ledger_disks, settings.storage, recorder, journal_id)
    journal_threads = [DiskThread("journal") for _ in store.journals]
    flush_thread = DiskThread("flush")
    service = BookieService(
        store,
        BookieConfig(
            settings.flush_interval_ms, settings.garbage, settings.disk, settings.autorecovery
        ),
        server_ports(settings.bookie_id, settings.metadata, recorder),
        BookiePorts(
            metadata=metadata,
            instance_id=instance_id,
            run_in_journal_threads=[thread.run for thread in journal_threads],
            run_in_flush_thread=flush_thread.run,
            disk_usages=lambda: {str(disk.root): disk.usage() for disk in ledger_disks},
            disk_space=lambda: disk_space(ledger_disks),
            warn=warn,
        ),
    )
    with explain_port_errors(settings.port, settings.host):
        await server.start_serving()
    port, trace_port = port_of(server), await trace_server.start()
    await service.start(
        [Endpoint(BOOKIE_RPC, settings.host, port), Endpoint(TRACE, LOOPBACK, trace_port)]
    )
    serving = asyncio.create_task(service.run())
    on_stop_signal(serving.cancel)
    announce(json.dumps({"pid": os.getpid(), "port": port, "trace_port": trace_port}))
    with suppress(asyncio.CancelledError):
        await serving
    server.close()
    # The threads must finish their work before the store is closed.
    for thread in (*journal_threads, flush_thread):
        thread.join()
    store.close()
