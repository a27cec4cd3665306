"""A producer of Pulsar's in the simulated world, and the steps that need brokers.

The producer does what the official clients do when something goes wrong, and nothing more: it looks
the topic up again, and sends again all that has no receipt, in its order.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count

from labkit.model.errors import LabkitError
from labkit.model.net import Connection
from labkit.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandConnect,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPong,
    CommandProducer,
    CommandSend,
    CommandSendReceipt,
)
from labkit.pulsar.frames import decode_frame, encode_frame, position_of
from labkit.sim.broker_node import BROKER_PORT
from labkit.sim.moments import START, Moment
from labkit.sim.nodes import ClientNode
from labkit.sim.scenario_values import Value
from labkit.topic.messages import (
    OutgoingMessage,
    encode_batch,
    encode_in_batch,
    encode_message,
)
from labkit.topic.names import full_name

_PROTOCOL_VERSION = 20
_ANSWER_TIMEOUT_S = 2.0
_RECEIPT_TIMEOUT_S = 2.0
_BACKOFF_S = 0.1
_MOST_HOPS = 20
_PRODUCER_ID = 1


class _LookAgainError(LabkitError):
    """The topic is not served where the producer asked."""


@dataclass(slots=True)
class _Op:
    """An entry that has no receipt."""

    sequence_id: int
    message_count: int
    data: bytes

    @property
    def highest_sequence_id(self) -> int:
        return self.sequence_id + self.message_count - 1


class PulsarProducer:
    """A producer of one topic, which has at most `window` entries without a receipt."""

    def __init__(self, node: ClientNode, topic: str, window: int) -> None:
        self._node = node
        self._topic = full_name(topic)
        self._window = window
        self._ops: deque[_Op] = deque()
        self._sequence_id = -1
        self._wire: Connection | None = None
        self._is_registered = False
        self._gone = asyncio.Event()
        """Set when the connection is of no use any more."""
        self._receipts = asyncio.Event()
        self._request_ids = count(1)
        self._asked: dict[int, asyncio.Future[BaseCommand]] = {}

    async def run(self) -> None:
        """Stay connected to the broker that serves the topic, until cancelled."""
        for number in count():
            with suppress(LabkitError, OSError):
                await self._register(number)
                await self._until_gone()
            self._hang_up()
            await asyncio.sleep(_BACKOFF_S)

    async def send(self, message_count: int) -> None:
        """Send the next messages in one entry, once there is room for it."""
        while len(self._ops) >= self._window:
            await self._next_receipt()
        op = self._encode(self._sequence_id + 1, message_count)
        self._sequence_id = op.highest_sequence_id
        self._ops.append(op)
        if self._is_registered:
            self._push(op)

    async def flush(self) -> None:
        """Wait until everything has its receipt."""
        while self._ops:
            await self._next_receipt()

    async def _next_receipt(self) -> None:
        self._receipts.clear()
        await self._receipts.wait()

    # One connection after the other

    async def _register(self, number: int) -> None:
        """Find who serves the topic, and send him all that has no receipt."""
        brokers = self._node.world.cluster.broker_names
        host, authoritative = brokers[number % len(brokers)], False
        for _ in range(_MOST_HOPS):
            await self._connect(host)
            answer = await self._look_up(authoritative)
            found = answer.brokerServiceUrl.removeprefix("pulsar://").partition(":")[0]
            if answer.response == CommandLookupTopicResponse.Failed:
                raise _LookAgainError(answer.message)
            if found == host:
                break
            self._hang_up()
            host, authoritative = found, answer.authoritative
        else:
            raise _LookAgainError(f"{_MOST_HOPS} brokers named another one")
        request = CommandProducer(
            topic=self._topic,
            producer_id=_PRODUCER_ID,
            request_id=next(self._request_ids),
            producer_name=self._node.name,
        )
        await self._ask(
            request.request_id, BaseCommand(type=BaseCommand.PRODUCER, producer=request)
        )
        self._is_registered = True
        for op in self._ops:
            self._push(op)

    async def _connect(self, host: str) -> None:
        gone = self._gone = asyncio.Event()
        on_bodies = partial(self._received, gone)
        self._wire = await self._node.network.connect(host, BROKER_PORT, on_bodies, gone.set)
        connect = CommandConnect(client_version="sim", protocol_version=_PROTOCOL_VERSION)
        await self._ask(0, BaseCommand(type=BaseCommand.CONNECT, connect=connect))

    async def _look_up(self, authoritative: bool) -> CommandLookupTopicResponse:
        request = CommandLookupTopic(
            topic=self._topic, request_id=next(self._request_ids), authoritative=authoritative
        )
        command = BaseCommand(type=BaseCommand.LOOKUP, lookupTopic=request)
        return (await self._ask(request.request_id, command)).lookupTopicResponse

    async def _until_gone(self) -> None:
        """Return when the broker has sent the producer away, or gives no receipt."""
        while True:
            head = self._ops[0] if self._ops else None
            with suppress(TimeoutError):
                async with asyncio.timeout(_RECEIPT_TIMEOUT_S):
                    await self._gone.wait()
                    return
            if head is not None and self._ops and self._ops[0] is head:
                return

    def _hang_up(self) -> None:
        self._is_registered = False
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    # Frames

    async def _ask(self, request_id: int, command: BaseCommand) -> BaseCommand:
        answered: asyncio.Future[BaseCommand] = asyncio.get_running_loop().create_future()
        self._asked[request_id] = answered
        self._send(command)
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            answer = await answered
        if answer.type == BaseCommand.ERROR:
            raise _LookAgainError(answer.error.message)
        return answer

    def _push(self, op: _Op) -> None:
        send = CommandSend(
            producer_id=_PRODUCER_ID,
            sequence_id=op.sequence_id,
            highest_sequence_id=op.highest_sequence_id,
            num_messages=op.message_count,
        )
        self._send(BaseCommand(type=BaseCommand.SEND, send=send), op.data)

    def _send(self, command: BaseCommand, message: bytes = b"") -> None:
        if self._wire is not None:
            self._wire.send([encode_frame(command, message)])

    def _received(self, gone: asyncio.Event, bodies: Sequence[bytes]) -> None:
        for body in bodies if gone is self._gone else ():
            command, _ = decode_frame(body)
            if command.type == BaseCommand.SEND_RECEIPT:
                self._receipt(command.send_receipt)
            elif command.type in (BaseCommand.CLOSE_PRODUCER, BaseCommand.SEND_ERROR):
                self._gone.set()
            elif command.type == BaseCommand.PING:
                self._send(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
            else:
                self._answered(command)

    def _answered(self, command: BaseCommand) -> None:
        request_id = 0
        for _, body in command.ListFields():
            request_id = getattr(body, "request_id", request_id)
        answered = self._asked.pop(request_id, None)
        if answered is not None and not answered.done():
            answered.set_result(command)

    def _receipt(self, receipt: CommandSendReceipt) -> None:
        """The oldest entry is stored; a receipt for an earlier one was given before."""
        if not self._is_registered or not self._ops:
            return
        op = self._ops[0]
        if receipt.sequence_id > op.sequence_id:
            self._gone.set()
        elif receipt.sequence_id == op.sequence_id:
            self._ops.popleft()
            ledger_id, entry_id = position_of(receipt.message_id)
            for sequence_id in range(op.sequence_id, op.highest_sequence_id + 1):
                note = message_note(self._topic, self._node.name, sequence_id)
                self._node.recorder.record("message.acked", ledger_id, entry_id, note=note)
            self._receipts.set()

    def _encode(self, first: int, message_count: int) -> _Op:
        name, now_ms = self._node.name, self._node.wall_clock_ms()
        messages = [
            OutgoingMessage(f"{name} {number}".encode(), "", 0, (), number)
            for number in range(first, first + message_count)
        ]
        if message_count == 1:
            return _Op(first, 1, encode_message(messages[0], name, now_ms))
        parts = [encode_in_batch(message) for message in messages]
        highest = messages[-1].sequence_id
        return _Op(first, message_count, encode_batch(messages[0], parts, name, now_ms, highest))


def message_note(topic: str, producer: str, sequence_id: int) -> str:
    """How an event names a message."""
    return f"{topic} {producer} {sequence_id}"


@dataclass(frozen=True, slots=True, repr=False)
class Publish(Value):
    """Send messages to a topic through the cluster's brokers, `batch_size` to an entry.

    At most `window` entries have no receipt at a time; with `every_ms` one entry is sent every
    `every_ms` milliseconds.  The producer has its client's name, and resends entries that have no
    receipt.
    """

    topic: str = "t"
    messages: int = 20
    batch_size: int = 1
    window: int = 8
    every_ms: float = 0.0
    client: str = "p"
    when: Moment = START

    def __str__(self) -> str:
        return f"publish {self.messages} messages to {self.topic}"

    async def run(self, node: ClientNode) -> None:
        """Run the step."""
        producer = PulsarProducer(node, self.topic, self.window)
        staying = node.spawn(producer.run())
        for first in range(0, self.messages, self.batch_size):
            await producer.send(min(self.batch_size, self.messages - first))
            if self.every_ms:
                await asyncio.sleep(self.every_ms / 1000)
        await producer.flush()
        staying.cancel()
