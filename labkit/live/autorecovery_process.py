"""Autorecovery with a real ZooKeeper, inside a bookie's process or as one of its own.

    labkit autorecovery --id NAME --zookeeper HOST:PORT

In BookKeeper: `replication/AutoRecoveryMain.java`, `server/service/AutoRecoveryService.java`.
"""

import asyncio
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from labkit.autorecovery.config import AutoRecoveryConfig
from labkit.autorecovery.daemon import AutoRecovery
from labkit.client.bookkeeper import BookKeeper
from labkit.live.clock import trace_clock_us, wall_clock_ms
from labkit.live.net import TcpNetwork
from labkit.live.stop_signal import cancel_on_stop_signal
from labkit.live.trace_stream import TraceServer
from labkit.live.zookeeper_store import ZooKeeperStore
from labkit.metadata.registration import check_bookie_id
from labkit.metadata.store import MetadataUnavailableError
from labkit.trace.recorder import Recorder

_PAUSE_S = 1.0
"""Between two sessions."""


@dataclass(frozen=True, slots=True)
class AutoRecoverySettings:
    """What a process of autorecovery needs to know.  Raises `BKIncorrectParameterException`."""

    node: str
    zookeeper: str
    config: AutoRecoveryConfig
    trace_from_start: bool

    def __post_init__(self) -> None:
        # `whoisauditor` reads it as a bookie's id.
        check_bookie_id(self.node)


async def run_autorecovery(settings: AutoRecoverySettings, announce: Callable[[str], None]) -> None:
    """Run until SIGTERM, which cancels it.

    Calls `announce` with one line of JSON (pid, trace_port) once ZooKeeper has answered; one that
    goes away later is waited for.  Raises `MetadataUnavailableError` when it does not answer, and
    what `keep_recovering` raises.
    """
    cancel_on_stop_signal()
    first = ZooKeeperStore(settings.zookeeper)
    await first.start()
    await first.stop()
    recorder = Recorder(settings.node, trace_clock_us)
    trace_server = TraceServer(recorder, from_start=settings.trace_from_start)
    trace_port = await trace_server.start()
    announce(json.dumps({"pid": os.getpid(), "trace_port": trace_port}))
    await keep_recovering(settings.node, settings.zookeeper, settings.config, recorder)


async def keep_recovering(
    node: str, zookeeper: str, config: AutoRecoveryConfig, recorder: Recorder
) -> NoReturn:
    """Run autorecovery for ever, anew with a session of its own whenever the last was lost.

    Raises `LabkitError` when a part of it dies of anything else.
    """
    while True:
        try:
            await _run_in_one_session(node, zookeeper, config, recorder)
        except MetadataUnavailableError as error:
            recorder.record("autorecovery.restarted", note=str(error))
        await asyncio.sleep(_PAUSE_S)


async def _run_in_one_session(
    node: str, zookeeper: str, config: AutoRecoveryConfig, recorder: Recorder
) -> None:
    store = ZooKeeperStore(zookeeper)
    await store.start()
    client = BookKeeper(
        store,
        TcpNetwork(),
        recorder,
        random.sample,
        lambda: random.getrandbits(63),
        wall_clock_ms,
        config.client,
    )
    try:
        await AutoRecovery(node, client, config, random.randrange).run()
    finally:
        client.close()
        await store.stop()
