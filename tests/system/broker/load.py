"""Send messages continuously, and check the receipts against the messages that were stored."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import pulsar

from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.processes.node_process import NodeStateError
from tests.system.broker.client import connect, receive_all
from tests.until import until

_BATCH = 20
_KEY_COUNT = 7
_PAUSE_S = 0.005


class Load:
    """Produces numbered messages to a topic of its own."""

    def __init__(self, client: pulsar.Client, topic: str, **options: object) -> None:
        self._client = client
        self._topic = topic
        self.stopped = threading.Event()
        self.payloads: list[bytes] = []
        self.acknowledged: dict[bytes, pulsar.MessageId] = {}
        self.failures: list[pulsar.Result] = []
        self._producer = client.create_producer(
            topic,
            "the-producer",
            send_timeout_millis=0,
            block_if_queue_full=True,
            batching_enabled=True,
            batching_max_messages=_BATCH,
            **options,
        )

    def run(self) -> None:
        """Send messages until `stopped` is set; return after each message has been stored or has
        failed.
        """
        while not self.stopped.wait(_PAUSE_S):
            for _ in range(_BATCH):
                self._send(f"message {len(self.payloads)}".encode())
        self._producer.flush()

    @property
    def ledger_id(self) -> int:
        """The ledger id of the most recently acknowledged message."""
        return next(reversed(self.acknowledged.values())).ledger_id()

    def check(self) -> None:
        """Check that every message is stored exactly once, in the right order among messages with
        the same key, and under the id in its receipt. Also check that the ids within each partition
        increase.
        """
        received = receive_all(self._client, self._topic, len(self.payloads))
        self._client.close()
        assert self.failures == []
        assert _by_key(payload for _, payload in received) == _by_key(self.payloads)
        for message_id, payload in received:
            told = self.acknowledged[payload]
            # If the broker finds that a message is already stored, its receipt contains no id.
            assert told.ledger_id() < 0 or told == message_id
        of_partitions: defaultdict[int, list[pulsar.MessageId]] = defaultdict(list)
        for message_id, _ in received:
            of_partitions[message_id.partition()].append(message_id)
        for ids in of_partitions.values():
            assert all(first < second for first, second in pairwise(ids))

    async def has_begun(self) -> None:
        """Wait until a message of each key has been acknowledged.

        Pulsar's C++ client reuses sequence ids if it reconnects before its first receipt; with
        deduplication, the broker would then treat the later messages as duplicates.
        """
        await until(lambda: len(_by_key(list(self.acknowledged))) == _KEY_COUNT, 60)

    async def goes_on(self) -> None:
        """Wait until messages sent from now on have been acknowledged."""
        sent = len(self.payloads)
        await until(lambda: len(self.acknowledged) > sent + _BATCH, 60)

    def _send(self, payload: bytes) -> None:
        self.payloads.append(payload)
        self._producer.send_async(
            payload,
            lambda result, message_id: self._told(result, message_id, payload),
            partition_key=_key(payload),
        )

    def _told(self, result: pulsar.Result, message_id: pulsar.MessageId, payload: bytes) -> None:
        if result == pulsar.Result.Ok:
            self.acknowledged[payload] = message_id
        else:
            self.failures.append(result)


def _key(payload: bytes) -> str:
    """Return the key of the message; consecutive messages cycle through a few keys."""
    return str(int(payload.split()[1]) % _KEY_COUNT)


def _by_key(payloads: Iterable[bytes]) -> dict[str, list[bytes]]:
    of_keys: defaultdict[str, list[bytes]] = defaultdict(list)
    for payload in payloads:
        of_keys[_key(payload)].append(payload)
    return dict(of_keys)


async def mend(cluster: LocalCluster) -> None:
    """Resume and restart all nodes that a test has paused or stopped."""
    for name in (*cluster.bookie_names, *cluster.broker_names):
        with suppress(NodeStateError):
            await cluster.resume(name)
        if not cluster.is_up(name):
            await cluster.restart(name)


@asynccontextmanager
async def working(cluster: LocalCluster, topic: str) -> AsyncIterator[Load]:
    """Run a producer in the background, and check its receipts at the end."""
    load = Load(connect(cluster.service_url), topic)
    sending = asyncio.create_task(asyncio.to_thread(load.run))
    try:
        await load.has_begun()
        yield load
        await load.goes_on()
    finally:
        load.stopped.set()
        await sending
    await asyncio.to_thread(load.check)
