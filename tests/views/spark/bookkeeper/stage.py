"""Runs a cluster in a separate thread, so that a test can block while it waits for Spark."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from threading import Thread
from typing import Any, Self, TypeVar

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.store import BadVersionError
from labkit.system.model.message_id import MessageId
from labkit.system.model.proto.managed_ledger_pb2 import ManagedLedgerInfo
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.names import full_name, managed_ledger_path, partitions_path
from labkit.system.topic.producing.producer import Batching, Producer
from labkit.system.topic.topic import Topic
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.until import until, until_true

T = TypeVar("T")

QUICK_NEWS = ClientConfig(explicit_lac_interval_ms=20)
"""Readers learn about the newest entry quickly, even if no other entry follows it."""


class Stage:
    """A cluster of bookies, and methods that write to topics."""

    def __init__(
        self, bookies: int, brokers: int = 0, broker_conf: Mapping[str, object] | None = None
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self.cluster = LocalCluster(bookies, brokers=brokers, traced=False, broker_conf=broker_conf)

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self.cluster.start())
        self.client: BookKeeper = self.run(self.cluster.connect(config=QUICK_NEWS))
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.cluster.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def topic(self, name: str, partitions: int, entries_per_ledger: int = 50, **keys: int) -> Topic:
        config = ManagedLedgerConfig(max_entries_per_ledger=entries_per_ledger, **keys)
        return self.run(Topic.create(self.client, name, partitions=partitions, config=config))

    def send(
        self, topic: Topic, payloads: list[bytes], batch: int = 0, name: str = "p"
    ) -> list[str]:
        """Publish the payloads; return their MessageIDs as text, in the same order."""
        return self.run(self._send(topic, payloads, batch, name))

    def send_at(self, time_ms: int, topic: Topic, payloads: list[bytes]) -> list[str]:
        """Publish the payloads as if the time were `time_ms`; return their MessageIDs as text."""
        wall_clock_ms = self.client.wall_clock_ms
        self.client.wall_clock_ms = lambda: time_ms
        try:
            return self.send(topic, payloads)
        finally:
            self.client.wall_clock_ms = wall_clock_ms

    async def _send(self, topic: Topic, payloads: list[bytes], batch: int, name: str) -> list[str]:
        batching = Batching(max_messages=batch) if batch else None
        producer: Producer = topic.producer(name, batching=batching)
        sent = [producer.send(payload) for payload in payloads]
        await producer.flush()
        ids = [each.result() for each in sent]
        newest = {each.ledger_id: each.entry_id for each in sorted(ids, key=_position)}
        for ledger_id, entry_id in newest.items():
            await self.heard(ledger_id, entry_id)
        return [str(each) for each in ids]

    def write_ledger(
        self, payloads: Iterable[bytes], *quorums: int, **options: Any
    ) -> LedgerWriter:
        """Write the payloads to a new ledger and close it; return its writer."""

        async def write() -> LedgerWriter:
            writer = await self.client.create_ledger(*quorums, **options)
            for payload in payloads:
                await writer.add(payload)
            await writer.close()
            return writer

        return self.run(write())

    async def heard(self, ledger_id: int, entry_id: int) -> None:
        """Wait until readers can see the entry, even if no other entry follows it."""
        reader = await self.client.open_ledger_no_recovery(ledger_id)

        async def is_heard() -> bool:
            return await reader.read_explicit_last_add_confirmed() >= entry_id

        await until_true(is_heard)

    def wait(self, condition: Callable[[], object], problem: Callable[[], object]) -> None:
        """Wait until the condition is true; fail as soon as `problem` returns anything but None."""

        def is_over() -> bool:
            assert problem() is None, problem()
            return bool(condition())

        self.run(until(is_over, 100))

    async def add_partition(self, topic: str) -> None:
        """Add one partition to the topic."""
        path, store = partitions_path(full_name(topic)), self.client.store
        data, version = await store.get(path)
        count = json.loads(data)["partitions"]
        await store.set(path, json.dumps({"partitions": count + 1}).encode(), version)

    async def trim(self, topic: str, ledger_count: int) -> None:
        """Delete the oldest ledgers of a non-partitioned topic, as retention would."""
        gone: list[int] = []

        async def leave_the_chain() -> bool:
            path, store = managed_ledger_path(full_name(topic)), self.client.store
            data, version = await store.get(path)
            info = ManagedLedgerInfo.FromString(data)
            gone[:] = [ledger.ledgerId for ledger in info.ledgerInfo[:ledger_count]]
            del info.ledgerInfo[:ledger_count]
            try:
                await store.set(path, info.SerializeToString(), version)
            except BadVersionError:  # The topic has switched to its next ledger.
                return False
            return True

        await until_true(leave_the_chain)
        for ledger_id in gone:
            await self.client.delete_ledger(ledger_id)


def _position(message_id: MessageId) -> tuple[int, int]:
    return message_id.ledger_id, message_id.entry_id


def numbered(first: int, last: int) -> list[bytes]:
    return [b"message %d" % number for number in range(first, last)]
