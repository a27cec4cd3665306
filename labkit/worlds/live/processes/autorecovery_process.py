"""Autorecovery with a real ZooKeeper, inside a bookie's process or in a separate one.

    labkit autorecovery --id NAME --zookeeper HOST:PORT

In BookKeeper: `replication/AutoRecoveryMain.java`, `server/service/AutoRecoveryService.java`.
"""

import json
import os
from collections.abc import Callable

from labkit.system.node.autorecovery import keep_recovering
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.host.stop_signal import cancel_on_stop_signal
from labkit.worlds.live.processes.server_config import AutoRecoverySettings
from labkit.worlds.live.processes.server_ports import server_ports
from labkit.worlds.live.trace_stream import TraceServer
from labkit.worlds.live.zookeeper.store import ZooKeeperStore


async def run_autorecovery(settings: AutoRecoverySettings, announce: Callable[[str], None]) -> None:
    """Run until SIGTERM, which cancels it.

    Calls `announce` with one line of JSON (pid, trace_port) once ZooKeeper has answered; if
    ZooKeeper goes away later, waits for it.  Raises `MetadataUnavailableError` when it does not
    answer at first, and what `keep_recovering` raises.
    """
    cancel_on_stop_signal()
    first = ZooKeeperStore(settings.metadata)
    await first.start()
    await first.stop()
    recorder = Recorder(settings.node, trace_clock_us)
    trace_server = TraceServer(recorder, from_start=settings.trace_from_start)
    trace_port = await trace_server.start()
    announce(json.dumps({"pid": os.getpid(), "trace_port": trace_port}))
    ports = server_ports(settings.node, settings.metadata, recorder)
    await keep_recovering(ports, settings.config)
