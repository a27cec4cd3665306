"""A broker whose storage is a list, as a separate process: what `broker.py` compares with.

Everything but the storage is labkit's own: frames, checksums, receipts.  Its first line of output
says where it serves.
"""

import asyncio
import json
import os
import random
import sys
from collections.abc import Sequence

from labkit.client.bookkeeper import BookKeeper
from labkit.live.clock import trace_clock_us, wall_clock_ms
from labkit.live.cycles import look_for_cycles_rarely
from labkit.live.net import LOOPBACK, TcpNetwork, listen, port_of
from labkit.model.net import Connection, OnBodies
from labkit.pulsar.broker import Broker, BrokerConfig
from labkit.pulsar.topics import BrokerTopic
from labkit.topic.chain import Position
from labkit.topic.managed_ledger import ManagedLedger
from labkit.topic.ownership import BrokerAddress
from labkit.trace.recorder import Recorder
from tests.client.memory_store import MemoryStore


class MemoryLedger(ManagedLedger):
    """Takes entries and keeps them; they are stored at once."""

    async def open(self) -> None:
        """Begin with nothing."""
        self._entries: list[bytes] = []

    async def append_all(self, entries: Sequence[bytes]) -> list[asyncio.Future[Position]]:
        """Keep them."""
        loop = asyncio.get_running_loop()
        futures = []
        for entry in entries:
            future: asyncio.Future[Position] = loop.create_future()
            future.set_result((0, len(self._entries)))
            self._entries.append(entry)
            futures.append(future)
        return futures

    async def close(self) -> None:
        """Forget everything."""


class _MemoryTopic(BrokerTopic):
    ledger_class = MemoryLedger


class _MemoryBroker(Broker):
    topic_class = _MemoryTopic


async def _run() -> None:
    brokers: list[Broker] = []

    def accept(connection: Connection) -> OnBodies:
        return brokers[0].accept(connection)

    server = await listen(accept, serving=False)
    address = f"{LOOPBACK}:{port_of(server)}"
    client = BookKeeper(
        MemoryStore(),
        TcpNetwork(),
        Recorder("broker", trace_clock_us),
        random.sample,
        lambda: random.getrandbits(63),
        wall_clock_ms,
    )
    brokers.append(
        _MemoryBroker(client, BrokerAddress(address, f"pulsar://{address}"), BrokerConfig())
    )
    await server.start_serving()
    await brokers[0].start()
    look_for_cycles_rarely()
    sys.stdout.write(json.dumps({"pid": os.getpid(), "port": port_of(server)}) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_run())
