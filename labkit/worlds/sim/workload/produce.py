"""A producer without a broker in the simulated world: its process owns the topic."""

import asyncio
from collections import deque
from dataclasses import dataclass

from labkit.system.model.message_id import MessageId
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.consumer import Consumer
from labkit.system.topic.names import full_name
from labkit.system.topic.producing.producer import Batching, Producer
from labkit.system.topic.topic import Topic
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment
from labkit.worlds.sim.workload.publish import message_note

_AT_ONCE = 10
"""The number of messages in one receive."""


@dataclass(frozen=True, slots=True, repr=False)
class Produce(Value):
    """Take a topic over from any owner and send messages to it, `batch_size` to an entry; with
    `receive` read it from its first message on meanwhile.

    Its ledgers have `entries_per_ledger` entries.  At most `window` messages are unstored at a
    time.  One that cannot be stored ends the step: another client has taken the topic over.
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
                await sends.first_is_stored()
                if self.receive:
                    await receives.next()
            sends.begin(number)
        await sends.finish()
        while self.receive and await receives.next():
            pass
        await topic.close()


class _Sends:
    """The messages of a `Produce` that are under way."""

    def __init__(self, node: ClientNode, topic: str, producer: Producer) -> None:
        self._node, self._topic, self._producer = node, topic, producer
        self._under_way: deque[tuple[int, asyncio.Future[MessageId]]] = deque()

    def begin(self, number: int) -> None:
        """Send the message of that number."""
        payload = f"{self._node.name} {number}".encode()
        self._node.world.answers.message_given(self._topic, self._node.name, number, payload)
        self._under_way.append((number, self._producer.send(payload)))

    @property
    def count(self) -> int:
        """The number of messages that are sent and not known to be stored."""
        return len(self._under_way)

    async def finish(self) -> None:
        """Wait until all are stored."""
        await self._producer.flush()
        while self._under_way:
            await self.first_is_stored()

    async def first_is_stored(self) -> None:
        """Wait until the oldest is stored.  Raises why it cannot be."""
        number, stored = self._under_way.popleft()
        place = await stored
        note = message_note(self._topic, self._node.name, number)
        self._node.recorder.record("message.acked", place.ledger_id, place.entry_id, note=note)


class _Receives:
    """A consumer of the topic in the process that owns it."""

    def __init__(self, node: ClientNode, topic: str, consumer: Consumer) -> None:
        self._name, self._topic, self._consumer = node.name, topic, consumer
        self._answers = node.world.answers
        self._since = self._answers.event_count

    async def next(self) -> bool:
        """Receive the next messages; False when all that is stored was received."""
        received = await self._consumer.receive(_AT_ONCE)
        for message in received:
            self._answers.message_received(self._name, self._since, self._topic, message)
        return bool(received)
