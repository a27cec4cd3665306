"""Autorecovery as a separate process.

    labkit autorecovery --id NAME --zookeeper HOST:PORT

In BookKeeper: `replication/AutoRecoveryMain.java`, `server/service/AutoRecoveryService.java`.
"""

import json
import os
from collections.abc import Callable

from labkit.system.node.autorecovery import run_autorecovery_forever
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.host.stop_signal import cancel_on_stop_signal
from labkit.worlds.live.processes.server_config import AutoRecoverySettings
from labkit.worlds.live.processes.server_ports import server_ports
from labkit.worlds.live.trace_stream import TraceServer


async def run_autorecovery(settings: AutoRecoverySettings, announce: Callable[[str], None]) -> None:
    """Run until SIGTERM, which cancels the calling task.

    Calls `announce` with one line of JSON (pid, trace_port) once ZooKeeper has responded. If
    ZooKeeper becomes unavailable later, autorecovery waits until it is available again. Raises
    `MetadataUnavailableError` if ZooKeeper does not respond at startup, and any error from
    `run_autorecovery_forever`.
    """
    cancel_on_stop_signal()
    recorder = Recorder(settings.node, trace_clock_us)
    ports = server_ports(settings.node, settings.metadata, recorder)
    await (await ports.begin_session()).stop()
    trace_server = TraceServer(recorder, from_start=settings.trace_from_start)
    trace_port = await trace_server.start()
    announce(json.dumps({"pid": os.getpid(), "trace_port": trace_port}))
    await run_autorecovery_forever(ports, settings.config)
