"""A consumer of Pulsar's for golden scripts, as a step of a scenario.

It does what the official clients do: it gives permits, acknowledges each message, and looks the
topic up again when its broker is gone.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from labkit.model.errors import LabkitError
from labkit.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandFlow,
    CommandMessage,
    CommandSubscribe,
)
from labkit.pulsar.frames import position_of
from labkit.sim.moments import START, Moment
from labkit.sim.nodes import ClientNode
from labkit.sim.scenario_values import Value
from labkit.sim.topic_connection import TopicConnection
from labkit.topic.chain import Position
from labkit.topic.names import full_name

_CONSUMER_ID = 1
_BACKOFF_S = 0.1


@dataclass(frozen=True, slots=True, repr=False)
class Consume(Value):
    """Receive and acknowledge `messages` messages, one entry each, from the first one on."""

    messages: int
    topic: str = "t"
    client: str = "c"
    when: Moment = START

    def __str__(self) -> str:
        return f"consume {self.messages} messages of {self.topic}"

    async def run(self, node: ClientNode) -> None:
        """Run the step."""
        consumer = _Consumer(node, self)
        for attempt in count():
            with suppress(LabkitError, OSError):
                await consumer.subscribe(attempt)
                await consumer.until_gone()
            consumer.connection.hang_up()
            if consumer.has_all:
                return
            await asyncio.sleep(_BACKOFF_S)


class _Consumer:
    def __init__(self, node: ClientNode, step: Consume) -> None:
        self._acknowledged: set[Position] = set()
        self.connection = TopicConnection(node, full_name(step.topic), self._received)
        self._step = step

    @property
    def has_all(self) -> bool:
        return len(self._acknowledged) >= self._step.messages

    async def subscribe(self, attempt: int) -> None:
        await self.connection.open(attempt)
        request = CommandSubscribe(
            topic=full_name(self._step.topic),
            subscription="sub",
            subType=CommandSubscribe.Exclusive,
            consumer_id=_CONSUMER_ID,
            request_id=self.connection.next_request_id(),
            initialPosition=CommandSubscribe.Earliest,
        )
        command = BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=request)
        await self.connection.ask(request.request_id, command)
        flow = CommandFlow(consumer_id=_CONSUMER_ID, messagePermits=self._step.messages)
        self.connection.send(BaseCommand(type=BaseCommand.FLOW, flow=flow))

    async def until_gone(self) -> None:
        """Return when the broker is gone, or all is acknowledged."""
        await self.connection.gone.wait()

    def _received(self, command: BaseCommand, _: bytes) -> None:
        if command.type == BaseCommand.MESSAGE:
            self._acknowledge(command.message)
        elif command.type == BaseCommand.CLOSE_CONSUMER:
            self.connection.gone.set()

    def _acknowledge(self, message: CommandMessage) -> None:
        ack = CommandAck(
            consumer_id=_CONSUMER_ID,
            ack_type=CommandAck.Individual,
            message_id=[message.message_id],
        )
        self.connection.send(BaseCommand(type=BaseCommand.ACK, ack=ack))
        self._acknowledged.add(position_of(message.message_id))
        if self.has_all:
            self.connection.gone.set()
