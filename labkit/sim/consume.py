"""Consumers of Pulsar's in the simulated world, and the step that runs them.

A consumer does what the official clients do: it looks the topic up, subscribes, gives permits for
as many messages as it takes, and acknowledges entries.  After any trouble it begins again with a
new connection, and forgets what it has not acknowledged: the broker delivers that again.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from labkit.model.errors import BKIncorrectParameterException, LabkitError
from labkit.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandFlow,
    CommandGetLastMessageId,
    CommandSubscribe,
)
from labkit.pulsar.frames import message_id_data, position_of
from labkit.sim.moments import START, Moment
from labkit.sim.nodes import ClientNode
from labkit.sim.scenario_values import Value
from labkit.sim.topic_connection import LookAgainError, TopicConnection
from labkit.topic.chain import Position
from labkit.topic.messages import decode_messages
from labkit.topic.names import full_name, partition_of

_BACKOFF_S = 0.1
_IDLE_S = 1.0
"""How long a consumer waits for a message before it asks whether there are more."""
_QUIET_TURNS = 5
"""The number of times that it asks in vain before it takes the last one for the last."""


@dataclass(frozen=True, slots=True, repr=False)
class Consume(Value):
    """Take the messages of a topic from the cluster's brokers, and acknowledge them.

    The step ends when `messages` different ones were delivered and acknowledged, or when the topic
    has no other ones for several seconds.  It runs `consumers` of the `subscription`, each with a
    connection and with `permits`.  A consumer acknowledges after `ack_every` entries: each of them,
    or with `is_cumulative` all up to the last.  After `entries_per_connection` it hangs up, without
    acknowledging the last one, and comes back; 0: it stays.
    """

    topic: str = "t"
    messages: int = 20
    subscription: str = "s"
    subscription_type: str = "Exclusive"
    consumers: int = 1
    permits: int = 10
    ack_every: int = 1
    is_cumulative: bool = False
    entries_per_connection: int = 0
    client: str = "c"
    when: Moment = START

    def __post_init__(self) -> None:
        """Raises `BKIncorrectParameterException`."""
        Value.__post_init__(self)
        if self.subscription_type == "Exclusive" and self.consumers > 1:
            raise BKIncorrectParameterException(
                "an Exclusive subscription has one consumer; name another subscription_type"
            )
        if self.entries_per_connection == 1:
            raise BKIncorrectParameterException(
                "entries_per_connection is 1: a consumer that leaves before it acknowledges its"
                " only entry gets it again and again; name 2 or more, or 0 to stay"
            )
        if self.is_cumulative and not self.keeps_order:
            raise BKIncorrectParameterException(
                f"consumers of a {self.subscription_type} subscription acknowledge each message by"
                " itself, not all up to one"
            )

    @property
    def keeps_order(self) -> bool:
        """Whether one consumer at a time gets the messages, in their order."""
        return self.subscription_type in ("Exclusive", "Failover")

    def __str__(self) -> str:
        return f"consume {self.messages} messages of {self.topic}"

    async def run(self, node: ClientNode) -> None:
        """Run the step."""
        taken = _Taken(self)
        consumers = [_Consumer(node, self, number, taken) for number in range(self.consumers)]
        tasks = [node.spawn(consumer.run()) for consumer in consumers]
        await taken.is_all.wait()
        for task, consumer in zip(tasks, consumers, strict=True):
            task.cancel()
            consumer.hang_up()


@dataclass(slots=True)
class _Taken:
    """What all consumers of the step were delivered, and have acknowledged."""

    step: Consume
    names: set[tuple[str, int]] = field(default_factory=set)
    """The messages, by producer and sequence id."""
    unacknowledged: dict[int, list[Position]] = field(default_factory=dict)
    """The entries, by the number of the consumer."""
    quiet_turns: dict[int, int] = field(default_factory=dict)
    """How many times each consumer has found that nothing more comes."""
    is_all: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def has_all_names(self) -> bool:
        """Whether as many different messages were delivered as the step wants."""
        return len(self.names) >= self.step.messages

    def add(self, number: int, position: Position, names: Sequence[tuple[str, int]]) -> None:
        """A consumer was delivered the entry."""
        self.names.update(names)
        self.unacknowledged[number].append(position)
        self.quiet_turns.clear()

    def see(self) -> None:
        """See whether these are all messages."""
        if any(self.unacknowledged.values()):
            return
        quiet = [self.quiet_turns.get(number, 0) for number in range(self.step.consumers)]
        if self.has_all_names or min(quiet) >= _QUIET_TURNS:
            self.is_all.set()


class _Consumer:
    """One consumer: one connection after the other."""

    def __init__(self, node: ClientNode, step: Consume, number: int, taken: _Taken) -> None:
        self._node, self._step, self._number, self._taken = node, step, number, taken
        self._name = f"{node.name}-{number}"
        self._topic = full_name(step.topic)
        self._inbox: asyncio.Queue[tuple[Position, bytes] | None] = asyncio.Queue()
        """Entries that were delivered; None: no more come on this connection."""
        self._free_permits = 0
        self._connection = TopicConnection(node, self._topic, self._received, self._gone)

    async def run(self) -> None:
        """Consume until cancelled."""
        for attempt in count(self._number):
            with suppress(LabkitError, OSError):
                await self._subscribe(attempt)
                await self._consume()
            self.hang_up()
            await asyncio.sleep(_BACKOFF_S)

    def hang_up(self) -> None:
        """Close the connection."""
        self._connection.hang_up()

    # One connection after the other

    async def _subscribe(self, attempt: int) -> None:
        self._inbox, self._taken.unacknowledged[self._number] = asyncio.Queue(), []
        self._taken.quiet_turns.pop(self._number, None)
        await self._connection.open(attempt)
        request = CommandSubscribe(
            topic=self._topic,
            subscription=self._step.subscription,
            subType=self._step.subscription_type,
            consumer_id=self._number,
            request_id=self._connection.next_request_id(),
            consumer_name=self._name,
            initialPosition=CommandSubscribe.Earliest,
        )
        await self._connection.ask(
            request.request_id, BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=request)
        )
        self._free_permits = self._step.permits
        self._give_permits()

    async def _consume(self) -> None:
        """Return when the broker has sent the consumer away, or when it hangs up."""
        entry_count = 0
        while True:
            try:
                async with asyncio.timeout(_IDLE_S):
                    entry = await self._inbox.get()
            except TimeoutError:
                await self._acknowledge()
                await self._ask_for_more()
            else:
                if entry is None:
                    return
                self._take(*entry)
                entry_count += 1
                if entry_count == self._step.entries_per_connection:
                    self._held.pop()
                    await self._acknowledge()
                    return
                if len(self._held) >= self._step.ack_every or self._taken.has_all_names:
                    await self._acknowledge()

    @property
    def _held(self) -> list[Position]:
        return self._taken.unacknowledged[self._number]

    def _take(self, position: Position, data: bytes) -> None:
        messages = decode_messages(data, *position, partition_of(self._topic))
        for message in messages:
            self._node.world.answers.message_delivered(
                self._name,
                self._connection.host,
                self._step.subscription,
                self._topic,
                message,
                in_order=self._step.keeps_order,
            )
        names = [(message.producer_name, message.sequence_id) for message in messages]
        self._taken.add(self._number, position, names)
        self._free_permits += len(messages)
        if self._free_permits * 2 >= self._step.permits:
            self._give_permits()

    async def _acknowledge(self) -> None:
        """Acknowledge the entries that were delivered.  Raises `LookAgainError`, `TimeoutError`."""
        positions, is_cumulative = list(self._held), self._step.is_cumulative
        if not positions:
            return
        request = CommandAck(
            consumer_id=self._number,
            ack_type=CommandAck.Cumulative if is_cumulative else CommandAck.Individual,
            request_id=self._connection.next_request_id(),
            message_id=map(message_id_data, positions[-1:] if is_cumulative else positions),
        )
        answer = await self._connection.ask(
            request.request_id, BaseCommand(type=BaseCommand.ACK, ack=request)
        )
        if answer.ackResponse.HasField("error"):
            raise LookAgainError(answer.ackResponse.message)
        for position in positions:
            self._node.world.answers.entry_acknowledged(
                self._name, self._connection.host, self._topic, self._step.subscription, position
            )
        del self._held[: len(positions)]
        self._taken.see()

    async def _ask_for_more(self) -> None:
        """Note a quiet turn if every message of the topic is acknowledged.  Raises
        `LookAgainError`, `TimeoutError`.
        """
        request = CommandGetLastMessageId(
            consumer_id=self._number, request_id=self._connection.next_request_id()
        )
        answer = await self._connection.ask(
            request.request_id,
            BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID, getLastMessageId=request),
        )
        response = answer.getLastMessageIdResponse
        done = position_of(response.consumer_mark_delete_position)
        self._node.world.answers.up_to_here(self._topic, self._step.subscription, done)
        if done >= position_of(response.last_message_id):
            turns = self._taken.quiet_turns
            turns[self._number] = turns.get(self._number, 0) + 1
            self._taken.see()

    # Frames

    def _give_permits(self) -> None:
        flow = CommandFlow(consumer_id=self._number, messagePermits=self._free_permits)
        self._free_permits = 0
        self._connection.send(BaseCommand(type=BaseCommand.FLOW, flow=flow))

    def _received(self, command: BaseCommand, data: bytes) -> None:
        if command.type == BaseCommand.MESSAGE:
            self._inbox.put_nowait((position_of(command.message.message_id), data))
        elif command.type == BaseCommand.CLOSE_CONSUMER:
            self._gone()

    def _gone(self) -> None:
        self._inbox.put_nowait(None)
