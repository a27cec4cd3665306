"""A cluster whose bookies can be killed, paused and disconnected."""

import asyncio
from collections.abc import Mapping
from typing import Self

from labkit.system.trace.recorder import Sink
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.trace_stream import LINE_LIMIT, TraceStream
from tests.chaos import network
from tests.chaos.network import Cable
from tests.chaos.schedule import CUT, KILL, PAUSE, Fault

KEYS: dict[str, object] = {
    "lostBookieRecoveryDelay": 2,
    "auditorPeriodicCheckInterval": 15,
    "auditorPeriodicBookieCheckInterval": 15,
    "auditorLedgerVerificationPercentage": 100,
    "openLedgerRereplicationGracePeriod": 3000,
    "lockReleaseOfFailedLedgerGracePeriod": 5000,
    "rwRereplicateBackoffMs": 500,
    # Use small limits so that flushes, rollovers and compaction all happen within minutes.
    "skipListSizeLimit": 256 * 1024,
    "logSizeLimit": 1024 * 1024,
    "journalMaxSizeMB": 1,
    "journalPreAllocSizeMB": 1,
    "journalMaxBackups": 0,
    "flushInterval": 1000,
    "gcWaitTime": 2000,
    "gcOverreplicatedLedgerWaitTime": 5000,
    "minorCompactionInterval": 5,
    "minorCompactionThreshold": 0.5,
    "majorCompactionInterval": 10,
    "majorCompactionThreshold": 0.9,
    "openFileLimit": 8,
    "pageSize": 256,
}


class ChaosCluster(LocalCluster):
    """Five bookies with autorecovery. With `networks`, each bookie has a network of its own."""

    def __init__(self, *, networks: bool) -> None:
        super().__init__(5, autorecovery=KEYS)
        names = self.bookie_names if networks else []
        self._cables = {name: Cable(number) for number, name in enumerate(names, 1)}
        self._turns = {name: asyncio.Lock() for name in self.bookie_names}
        self._forwarder: asyncio.Server | None = None
        self.kill_count = 0

    async def start(self) -> Self:
        if self._cables:
            for cable in self._cables.values():
                await cable.plug_in()
            self._forwarder = await network.forward(lambda: self.zookeeper)
        return await super().start()

    async def stop(self) -> None:
        await super().stop()
        for cable in self._cables.values():
            cable.unplug()

    async def suffer(self, fault: Fault) -> None:
        """Inject the fault into all bookies that it affects, and repair it when its duration is
        over.
        """
        await asyncio.gather(*(self._suffer(fault, bookie) for bookie in fault.bookies))

    async def _suffer(self, fault: Fault, bookie: str) -> None:
        async with self._turns[bookie]:
            if fault.kind == KILL:
                await self.kill(bookie)
                self.kill_count += 1
                await asyncio.sleep(fault.for_s)
                await self.restart(bookie)
            elif fault.kind == PAUSE:
                await self.pause(bookie)
                await asyncio.sleep(fault.for_s)
                await self.resume(bookie)
            elif fault.kind == CUT:
                self._cables[bookie].cut()
                await asyncio.sleep(fault.for_s)
                self._cables[bookie].repair()

    # Run each bookie in its own network.

    def configuration_of(self, name: str) -> Mapping[str, object]:
        keys = super().configuration_of(name)
        if name not in self._cables:
            return keys
        assert self._forwarder is not None
        cable, port = self._cables[name], self._forwarder.sockets[0].getsockname()[1]
        return {
            **keys,
            "advertisedAddress": cable.host,
            "metadataServiceUri": f"zk://{cable.gateway}:{port}/ledgers",
        }

    def command_of(self, name: str, command: list[str]) -> list[str]:
        return self._cables[name].inside(command) if name in self._cables else command

    def trace_stream_of(self, name: str, port: int) -> TraceStream:
        if name not in self._cables:
            return super().trace_stream_of(name, port)
        return _TraceFromInside(self._cables[name], port, self.trace.add)


class _TraceFromInside(TraceStream):
    """A trace stream that stays connected to the bookie even while the bookie's cable is cut."""

    def __init__(self, cable: Cable, port: int, sink: Sink) -> None:
        super().__init__(cable.host, port, sink)
        self._cable, self._inner_port = cable, port

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sock = await asyncio.to_thread(self._cable.connect, self._inner_port)
        return await asyncio.open_connection(sock=sock, limit=LINE_LIMIT)
