"""A broker that stores messages in a list, as a baseline for labkit's broker in `broker.py`.

Everything else, such as frames, checksums and receipts, is handled by labkit's own code. The broker
prints its port on the first line of its output.
"""

import asyncio
import json
import os
import sys
from collections.abc import Sequence

from labkit.system.broker.broker import Broker
from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.ownership import BrokerAddress
from labkit.system.broker.topics import BrokerTopic
from labkit.system.model.net import Connection, OnBodies
from labkit.system.topic.append_queue import PendingEntry, group_by_appender
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.host.memory import collect_garbage_rarely
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.net import listen, port_of
from labkit.worlds.live.new_client import new_client
from tests.system.client.memory_store import MemoryStore


class MemoryLedger(ManagedLedger):
    """A managed ledger that keeps entries in memory and acknowledges them immediately."""

    async def open(self) -> None:
        self._entries: list[bytes] = []

    async def append_entries(self, entries: Sequence[PendingEntry]) -> None:
        for entry_id, entry in enumerate(entries, len(self._entries)):
            entry.entry_id = entry_id
            self._entries.append(entry.data)
        for appender, stored in group_by_appender(entries):
            appender.entries_stored(0, stored)

    async def close(self) -> None: ...


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
    client = new_client(MemoryStore(), Recorder("broker", trace_clock_us))
    brokers.append(
        _MemoryBroker(client, BrokerAddress(address, f"pulsar://{address}"), BrokerConfig())
    )
    await server.start_serving()
    await brokers[0].start()
    collect_garbage_rarely()
    sys.stdout.write(json.dumps({"pid": os.getpid(), "port": port_of(server)}) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_run())
