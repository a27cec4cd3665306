"""A broker of a real cluster, which is used with Pulsar's own client and admin API (lesson 11)."""

import json
import urllib.request
from collections.abc import Sequence
from typing import Any

import pulsar

from labkit.course.runs.topics.topic_world import folders_of
from labkit.system.model.message_id import MessageId
from labkit.views.shell.lineage import find_lineage
from labkit.views.xray.message_location import Lineage
from labkit.worlds.live.processes.cluster import LocalCluster

_QUIET_MS = 2000
_PATIENT_MS = 5000


def cluster_with_broker(entries_per_ledger: int) -> LocalCluster:
    """Return a cluster of three bookies and a broker that keeps all ledgers."""
    broker_conf = {
        "managedLedgerMaxEntriesPerLedger": entries_per_ledger,
        "managedLedgerMinLedgerRolloverTimeMinutes": 0,
        "defaultRetentionTimeInMinutes": -1,
        "defaultRetentionSizeInMB": -1,
    }
    return LocalCluster(3, brokers=1, traced=False, broker_conf=broker_conf)


def numbers(message_id: Any) -> tuple[int, int, int, int]:
    """Return an id's ledger id, entry id, partition and batch index."""
    ids = message_id.ledger_id(), message_id.entry_id()
    return *ids, message_id.partition(), message_id.batch_index()


def first_and_last(message_ids: Sequence[Any]) -> tuple[int, int]:
    """Sort ids by ledger and entry, and return the indices of the first and the last id."""
    order = sorted(range(len(message_ids)), key=lambda index: numbers(message_ids[index])[:2])
    return order[0], order[-1]


class OneBroker:
    """The cluster's broker; `client` is Pulsar's client.

    All methods that send or receive raise Pulsar's exceptions.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self.client = pulsar.Client(cluster.service_url, logger=logger)

    def _admin(self, path: str, method: str = "GET", data: bytes | None = None) -> Any:
        """Send a request for a path under `/admin/v2`, as `pulsar-admin` does, and return the
        response.

        Raises `urllib.error.HTTPError`.
        """
        url = f"{self._cluster.web_url_of('broker-1')}/admin/v2/{path}"
        json_type = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, data, json_type, method=method)
        with urllib.request.urlopen(request) as reply:
            return json.loads(reply.read() or "null")

    def send(
        self, topic: str, payloads: Sequence[bytes], batch_size: int = 0, partition: int = 0
    ) -> list[Any]:
        """Send all payloads without waiting, and return the ids of the messages in the order in
        which they were sent. With a `batch_size` of 0, messages are not batched. `partition`
        matters only for partitioned topics.
        """
        options: dict[str, Any] = {"message_router": lambda message, count: partition}
        if batch_size:
            options |= {"batching_enabled": True, "batching_max_messages": batch_size}
            options |= {"batching_max_publish_delay_ms": 1000}
        producer = self.client.create_producer(topic, **options)
        ids: list[Any] = []
        for payload in payloads:
            producer.send_async(payload, lambda result, message_id: ids.append(message_id))
        producer.flush()
        producer.close()
        return ids

    def send_twice(self, topic: str, payload: bytes, sequence_id: int) -> tuple[Any, Any]:
        """Send a message twice with the same sequence id, as if a receipt had been lost; return
        both ids.
        """
        producer = self.client.create_producer(
            topic, producer_name="till-1", initial_sequence_id=sequence_id - 1
        )
        first, second = (producer.send(payload, sequence_id=sequence_id) for _ in range(2))
        producer.close()
        return first, second

    def one_id_of_each_kind(self, of_batch: Any, batch_size: int) -> str:
        """Return a line for each kind of id, namely for `of_batch` and for the ids of messages sent
        in other ways. The message in a partition is the first message of the topic `visits`.
        """
        kinds = {
            "in a batch": of_batch,
            "batch of one": self.send("of-one", [b"alone"], batch_size)[0],
            "not batched": self.send("single", [b"alone"])[0],
        }
        self._admin("persistent/public/default/visits/partitions", "PUT", b"2")
        for number in range(2):  # Open one partition after the other.
            self.client.create_producer(f"visits-partition-{number}").close()
        kinds["in a partition"] = self.send("visits", [b"visit"], partition=1)[0]
        return "\n".join(
            f"{kind:<15} {message_id!s:<12} stored as {message_id.serialize().hex()}"
            for kind, message_id in kinds.items()
        )

    def unload(self, topic: str) -> None:
        """Close the topic; the next request loads it again."""
        self._admin(f"persistent/public/default/{topic}/unload", "PUT", b"")

    def deduplicate(self) -> None:
        """Enable deduplication for topics that are loaded afterwards."""
        self._admin("namespaces/public/default/deduplication", "POST", b"true")

    def chain(self, topic: str) -> list[tuple[int, int]]:
        """Return the id and the number of entries of each of the topic's ledgers."""
        ledgers = self._stats(topic)["ledgers"]
        return [(ledger["ledgerId"], ledger["entries"]) for ledger in ledgers]

    def cursor(self, topic: str, subscription: str) -> str:
        """Return a cursor's mark-delete position and its acknowledged ranges, one per line."""
        cursor = self._stats(topic)["cursors"][subscription]
        mark_delete, ranges = cursor["markDeletePosition"], cursor["individuallyDeletedMessages"]
        return f"mark-delete: {mark_delete}\nranges:      {ranges}"

    def _stats(self, topic: str) -> Any:
        return self._admin(f"persistent/public/default/{topic}/internalStats")

    def subscribe(self, topic: str, subscription: str, **options: Any) -> Any:
        """Return a consumer that starts with the first message, and that can acknowledge individual
        messages of a batch.
        """
        earliest = pulsar.InitialPosition.Earliest
        options |= {"initial_position": earliest, "batch_index_ack_enabled": True}
        return self.client.subscribe(topic, subscription, **options)

    def deliveries(self, topic: str, count: int) -> list[tuple[str, int]]:
        """Receive and negatively acknowledge a topic's message `count` times. Return the message's
        id and redelivery count each time.
        """
        consumer = self.subscribe(
            topic,
            "work",
            consumer_type=pulsar.ConsumerType.Shared,
            negative_ack_redelivery_delay_ms=100,
        )
        found = []
        for _ in range(count):
            message = consumer.receive(_PATIENT_MS)
            found.append((str(message.message_id()), message.redelivery_count()))
            consumer.negative_acknowledge(message)
        consumer.close()
        return found

    def read_all(self, topic: str) -> list[bytes]:
        """Return the payloads of a topic's messages."""
        reader = self.client.create_reader(topic, pulsar.MessageId.earliest)
        payloads = []
        while reader.has_message_available():
            payloads.append(reader.read_next().data())
        reader.close()
        return payloads

    async def lineage_of(self, message_id: Any) -> Lineage:
        """Return where a message is stored. Raises the same errors as `find_lineage`."""
        bookkeeper = await self._cluster.connect()
        parsed = MessageId.from_bytes(message_id.serialize())
        return await find_lineage(bookkeeper, parsed, folders_of(self._cluster))

    async def stop(self) -> None:
        """Close the client and stop the cluster."""
        self.client.close()
        await self._cluster.stop()


def receive_all(consumer: Any) -> list[Any]:
    """Receive messages until none has arrived for two seconds, and return all messages."""
    found = []
    try:
        while True:
            found.append(consumer.receive(_QUIET_MS))
    except pulsar.Timeout:
        return found
