"""A Pulsar producer in the simulated world, and the step that runs it.

After a failure, the producer behaves like the official clients: it looks up the topic again, and
resends all entries that have no receipt in their original order.
"""

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from labkit.system.broker.protocol.frames import position_of
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandProducer,
    CommandSend,
    CommandSendReceipt,
)
from labkit.system.topic.messages import (
    OutgoingMessage,
    encode_batch,
    encode_in_batch,
    encode_message,
)
from labkit.system.topic.names import full_name
from labkit.system.trace.answers import MessageGiven
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.nodes.results import message_content
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment
from labkit.worlds.sim.workload.topic_connection import TopicConnection

_RECEIPT_TIMEOUT_S = 2.0
_BACKOFF_S = 0.1
_PRODUCER_ID = 1


@dataclass(slots=True)
class _Op:
    sequence_id: int
    message_count: int
    data: bytes

    @property
    def highest_sequence_id(self) -> int:
        return self.sequence_id + self.message_count - 1


class PulsarProducer:
    """A producer for one topic, with at most `window` entries awaiting their receipts."""

    def __init__(self, node: ClientNode, topic: str, window: int, keys: int) -> None:
        self._node = node
        self._keys = keys
        self._entry_count = 0
        self._topic = full_name(topic)
        self._window = window
        self._ops: deque[_Op] = deque()
        self._sequence_id = -1
        self._is_registered = False
        self._receipts = asyncio.Event()
        self._connection = TopicConnection(node, self._topic, self._on_command)

    async def run(self) -> None:
        """Stay connected to the broker that owns the topic, until cancelled."""
        for number in count():
            with suppress(LabkitError, OSError):
                await self._register(number)
                await self._wait_until_gone()
            self._is_registered = False
            self._connection.hang_up()
            await asyncio.sleep(_BACKOFF_S)

    async def send(self, message_count: int) -> None:
        """Send the next messages in one entry, as soon as the window allows it."""
        while len(self._ops) >= self._window:
            await self._next_receipt()
        op = self._encode(self._sequence_id + 1, message_count)
        self._sequence_id = op.highest_sequence_id
        self._ops.append(op)
        if self._is_registered:
            self._push(op)

    async def flush(self) -> None:
        while self._ops:
            await self._next_receipt()

    async def _next_receipt(self) -> None:
        self._receipts.clear()
        await self._receipts.wait()

    # One connection after another

    async def _register(self, number: int) -> None:
        await self._connection.open(number)
        request = CommandProducer(
            topic=self._topic, producer_id=_PRODUCER_ID, producer_name=self._node.name
        )
        await self._connection.ask(BaseCommand(type=BaseCommand.PRODUCER, producer=request))
        self._is_registered = True
        for op in self._ops:
            self._push(op)

    async def _wait_until_gone(self) -> None:
        while True:
            head = self._ops[0] if self._ops else None
            with suppress(TimeoutError):
                async with asyncio.timeout(_RECEIPT_TIMEOUT_S):
                    await self._connection.gone.wait()
                    return
            if head is not None and self._ops and self._ops[0] is head:
                return

    # Frames

    def _push(self, op: _Op) -> None:
        send = CommandSend(
            producer_id=_PRODUCER_ID,
            sequence_id=op.sequence_id,
            highest_sequence_id=op.highest_sequence_id,
            num_messages=op.message_count,
        )
        self._connection.send(BaseCommand(type=BaseCommand.SEND, send=send), op.data)

    def _on_command(self, command: BaseCommand, _: bytes) -> None:
        if command.type == BaseCommand.SEND_RECEIPT:
            self._on_receipt(command.send_receipt)
        elif command.type in (BaseCommand.CLOSE_PRODUCER, BaseCommand.SEND_ERROR):
            self._connection.gone.set()

    def _on_receipt(self, receipt: CommandSendReceipt) -> None:
        """Process a receipt for the oldest entry, and ignore duplicate receipts for earlier
        ones.
        """
        if not self._is_registered or not self._ops:
            return
        op = self._ops[0]
        if receipt.sequence_id > op.sequence_id:
            self._connection.gone.set()
        elif receipt.sequence_id == op.sequence_id:
            self._ops.popleft()
            ledger_id, entry_id = position_of(receipt.message_id)
            for sequence_id in range(op.sequence_id, op.highest_sequence_id + 1):
                self._node.recorder.record(
                    "message.acked",
                    ledger_id,
                    entry_id,
                    topic=self._topic,
                    producer=self._node.name,
                    sequence_id=sequence_id,
                )
            self._receipts.set()

    def _encode(self, first: int, message_count: int) -> _Op:
        name, now_ms = self._node.name, self._node.wall_clock_ms()
        key = f"k{self._entry_count % self._keys}" if self._keys else ""
        self._entry_count += 1
        messages = [
            OutgoingMessage(f"{name} {number}".encode(), key, 0, (), number)
            for number in range(first, first + message_count)
        ]
        for message in messages:
            given = message_content(self._topic, name, message.sequence_id, message.payload)
            self._node.world.results.record(MessageGiven, given)
        if message_count == 1:
            return _Op(first, 1, encode_message(messages[0], name, now_ms))
        parts = [encode_in_batch(message) for message in messages]
        highest = messages[-1].sequence_id
        return _Op(first, message_count, encode_batch(messages[0], parts, name, now_ms, highest))


@dataclass(frozen=True, slots=True, repr=False)
class Publish(Value):
    """Send messages to a topic through the cluster's brokers, `batch_size` per entry.

    At most `window` entries can be waiting for their receipts at a time. If `every_ms` is set, one
    entry is sent every `every_ms` milliseconds. The entries cycle through `keys` different keys (0:
    no keys). The producer is named after its client, and resends entries that have no receipt.
    """

    topic: str = "t"
    messages: int = 20
    batch_size: int = 1
    window: int = 8
    every_ms: float = 0.0
    client: str = "p"
    when: Moment = START
    keys: int = 0

    def __str__(self) -> str:
        return f"publish {self.messages} messages to {self.topic}"

    async def run(self, node: ClientNode) -> None:
        producer = PulsarProducer(node, self.topic, self.window, self.keys)
        task = node.spawn(producer.run())
        for first in range(0, self.messages, self.batch_size):
            await producer.send(min(self.batch_size, self.messages - first))
            if self.every_ms:
                await asyncio.sleep(self.every_ms / 1000)
        await producer.flush()
        task.cancel()
