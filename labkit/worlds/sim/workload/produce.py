"""A producer that owns the topic in its own process, without a broker."""

import asyncio
from collections import deque
from dataclasses import dataclass

from labkit.system.model.message_id import MessageId
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.consumer import Consumer
from labkit.system.topic.names import full_name
from labkit.system.topic.producing.producer import Batching, Producer
from labkit.system.topic.topic import Topic
from labkit.system.trace.answers import MessageGiven, MessageReceived
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.nodes.results import content_of, message_content
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment

_BATCH_SIZE = 10
"""The maximum number of messages to receive at once."""


@dataclass(frozen=True, slots=True, repr=False)
class Produce(Value):
    """Take ownership of a topic and send messages to it, `batch_size` per entry.

    With `receive`, also read the topic from the first message on. The topic's ledgers have
    `entries_per_ledger` entries each. At most `window` messages are unconfirmed at a time. The step
    ends if a message cannot be stored, because this means that another client has taken over the
    topic.
    """

    topic: str = "t"
    messages: int = 20
    batch_size: int = 2
    entries_per_ledger: int = 5
    window: int = 8
    client: str = "p"
    when: Moment = START
    receive: bool = False

    def __str__(self) -> str:
        return f"produce {self.messages} messages to {self.topic}"

    async def run(self, node: ClientNode) -> None:
        config = ManagedLedgerConfig(max_entries_per_ledger=self.entries_per_ledger)
        topic = await Topic.create(node.client, self.topic, partitions=0, config=config)
        batching = Batching(max_messages=self.batch_size) if self.batch_size > 1 else None
        sends = _Sends(node, full_name(self.topic), topic.producer(self.client, batching=batching))
        receives = _Receives(node, full_name(self.topic), topic.consumer())
        for number in range(self.messages):
            if sends.count >= self.window:
                await sends.wait_for_first()
                if self.receive:
                    await receives.next()
            sends.begin(number)
        await sends.finish()
        while self.receive and await receives.next():
            pass
        await topic.close()


class _Sends:
    def __init__(self, node: ClientNode, topic: str, producer: Producer) -> None:
        self._node, self._topic, self._producer = node, topic, producer
        self._pending: deque[tuple[int, asyncio.Future[MessageId]]] = deque()

    def begin(self, number: int) -> None:
        payload = f"{self._node.name} {number}".encode()
        given = message_content(self._topic, self._node.name, number, payload)
        self._node.world.results.record(MessageGiven, given)
        self._pending.append((number, self._producer.send(payload)))

    @property
    def count(self) -> int:
        return len(self._pending)

    async def finish(self) -> None:
        await self._producer.flush()
        while self._pending:
            await self.wait_for_first()

    async def wait_for_first(self) -> None:
        """Wait until the oldest message has been stored. Raises an error if that fails."""
        number, stored = self._pending.popleft()
        message_id = await stored
        self._node.recorder.record(
            "message.acked",
            message_id.ledger_id,
            message_id.entry_id,
            topic=self._topic,
            producer=self._node.name,
            sequence_id=number,
        )


class _Receives:
    def __init__(self, node: ClientNode, topic: str, consumer: Consumer) -> None:
        self._name, self._topic, self._consumer = node.name, topic, consumer
        self._results = node.world.results
        self._since = self._results.event_count

    async def next(self) -> bool:
        """Receive the next messages. Return False if all stored messages have been received."""
        received = await self._consumer.receive(_BATCH_SIZE)
        for message in received:
            content, message_id = content_of(self._topic, message), message.message_id
            where = message_id.ledger_id, message_id.entry_id
            self._results.record(MessageReceived, self._name, self._since, content, *where)
        return bool(received)
