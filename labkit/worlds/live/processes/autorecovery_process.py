"""Autorecovery with a real ZooKeeper, inside a bookie's process or in a separate one.

    labkit autorecovery --id NAME --zookeeper HOST:PORT

In BookKeeper: `replication/AutoRecoveryMain.java`, `server/service/AutoRecoveryService.java`.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.metadata.place import MetadataPlace
from labkit.system.metadata.registration import check_bookie_id
from labkit.system.node.autorecovery import keep_recovering
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.host.stop_signal import cancel_on_stop_signal
from labkit.worlds.live.processes.server_ports import server_ports
from labkit.worlds.live.trace_stream import TraceServer
from labkit.worlds.live.zookeeper.store import ZooKeeperStore


@dataclass(frozen=True, slots=True)
class AutoRecoverySettings:
    """The settings of an autorecovery process.  Raises `BKIncorrectParameterException`."""

    node: str
    metadata: MetadataPlace
    config: AutoRecoveryConfig
    trace_from_start: bool

    def __post_init__(self) -> None:
        # `whoisauditor` reads the id as a bookie's.
        check_bookie_id(self.node)


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
