"""Consumers of Pulsar's in the simulated world, and the step that runs them.

A consumer does what the official clients do: it looks the topic up, subscribes, gives permits for
as many messages as it takes, and acknowledges entries, or of a batch a part.  It may ask for what
it has not acknowledged once more, or for everything from the first message on.  After any trouble
it begins again with a new connection, and forgets what it has not acknowledged: the broker delivers
that again.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import NamedTuple

from labkit.system.broker.protocol.frames import message_id_data, position_of
from labkit.system.model.errors import BKIncorrectParameterException, LabkitError
from labkit.system.model.message_id import EARLIEST
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, MessageIdData
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.chain.formats import bits_of, words_of
from labkit.system.topic.messages import Message, decode_messages
from labkit.system.topic.names import full_name, partition_of
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment
from labkit.worlds.sim.workload import consumer_commands as commands
from labkit.worlds.sim.workload.delivered import DeliveredMessages
from labkit.worlds.sim.workload.topic_connection import LookAgainError, TopicConnection

_BACKOFF_S = 0.1
_IDLE_S = 1.0
"""How long a consumer waits for a message before it asks whether there are more."""


@dataclass(frozen=True, slots=True, repr=False)
class Consume(Value):
    """Take the messages of a topic from the cluster's brokers, and acknowledge them.

    The step ends when `messages` different ones were delivered and acknowledged, or when the topic
    has no other ones for several seconds.  It runs `consumers` of the `subscription`, each with a
    connection and with `permits`.  A consumer acknowledges after `ack_every` entries: each of them,
    or with `is_cumulative` all up to the last.  With `acks_parts` it acknowledges the first half of
    a batch before.

    After `entries_per_connection` a consumer hangs up, without acknowledging the last one, and
    comes back; 0: it stays.  After each `redeliver_every` entries it asks for what it has not
    acknowledged once more: for the last entry, or, where one consumer gets all, for everything.
    After `start_over_after` entries, once, the subscription goes back to the first message by
    `start_over_by`: a `seek`, or `unsubscribe` and a subscription of the same name.

    A `reader` has a subscription that is not durable: after any trouble it begins behind the last
    message that it was delivered.
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
    acks_parts: bool = False
    redeliver_every: int = 0
    start_over_after: int = 0
    start_over_by: str = "seek"
    reader: bool = False

    def __post_init__(self) -> None:
        """Raises `BKIncorrectParameterException`."""
        Value.__post_init__(self)
        if self.subscription_type == "Exclusive" and self.consumers > 1:
            raise BKIncorrectParameterException(
                "an Exclusive subscription has one consumer; name another subscription_type"
            )
        if self.reader and self.subscription_type != "Exclusive":
            raise BKIncorrectParameterException(
                f"a reader has an Exclusive subscription, not a {self.subscription_type} one"
            )
        if self.entries_per_connection == 1:
            raise BKIncorrectParameterException(
                "entries_per_connection is 1: a consumer that leaves before it acknowledges its"
                " only entry gets it again and again; name 2 or more, or 0 to stay"
            )
        if self.start_over_after and self.start_over_by == "unsubscribe" and self.consumers > 1:
            raise BKIncorrectParameterException(
                "a subscription is deleted by its only consumer; take one, or seek"
            )
        if 0 < self.redeliver_every <= self.ack_every:
            raise BKIncorrectParameterException(
                f"redeliver_every is {self.redeliver_every} and ack_every {self.ack_every}: a"
                " consumer that gives entries back before it acknowledges them gets them again and"
                " again; name a higher redeliver_every, or 0 for never"
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
        taken = DeliveredMessages(self.messages, self.consumers, self.start_over_after)
        consumers = [_Consumer(node, self, number, taken) for number in range(self.consumers)]
        tasks = [node.spawn(consumer.run()) for consumer in consumers]
        await taken.is_all.wait()
        for task, consumer in zip(tasks, consumers, strict=True):
            task.cancel()
            consumer.hang_up()


class _Delivered(NamedTuple):
    """An entry that was delivered.  `came`: the number of answers before it; `left`: of a batch the
    bits of the messages that are delivered, None for all; `epoch`: the number of requests for
    redelivery before it.
    """

    came: int
    position: Position
    data: bytes
    left: int | None
    epoch: int


class _Consumer:
    """One consumer: one connection after the other."""

    def __init__(
        self, node: ClientNode, step: Consume, number: int, taken: DeliveredMessages
    ) -> None:
        self._node, self._step, self._number, self._taken = node, step, number, taken
        self._name = f"{node.name}-{number}"
        self._topic = full_name(step.topic)
        self._inbox: asyncio.Queue[_Delivered | None] = asyncio.Queue()
        """Entries that were delivered; None: no more come on this connection."""
        self._connection_count = 0
        self._free_permits = 0
        self._epoch = 0
        self._last = EARLIEST
        """The last message that was delivered to a reader: its next connection begins behind it."""
        self._behind = EARLIEST
        """The last message before this connection: it comes again, with its entry."""
        self._connection = TopicConnection(node, self._topic, self._received, self._gone)

    async def run(self) -> None:
        for attempt in count(self._number):
            with suppress(LabkitError, OSError):
                await self._subscribe(attempt)
                await self._consume()
            self.hang_up()
            await asyncio.sleep(_BACKOFF_S)

    def hang_up(self) -> None:
        self._connection.hang_up()

    # One connection after the other

    async def _subscribe(self, attempt: int) -> None:
        self._inbox, self._taken.unacknowledged[self._number] = asyncio.Queue(), []
        self._taken.quiet_turns.pop(self._number, None)
        self._connection_count += 1
        await self._connection.open(attempt)
        request_id = self._connection.next_request_id()
        who = self._number, request_id, self._name, self._topic, self._step.subscription
        if self._step.reader:
            self._behind = self._last
            command = commands.read(*who, self._behind)
        else:
            command = commands.subscribe(*who, self._step.subscription_type)
        await self._connection.ask(request_id, command)
        self._free_permits, self._epoch = self._step.permits, 0
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
                if entry.epoch < self._epoch:
                    self._return_permits(len(self._messages_of(entry)))
                    continue
                entry_count += 1
                await self._take(entry)
                if self._taken.starts_over():
                    await self._start_over()
                    return
                if entry_count == self._step.entries_per_connection:
                    self._held.pop()
                    await self._acknowledge()
                    return
                if self._step.redeliver_every and entry_count % self._step.redeliver_every == 0:
                    self._ask_again()
                if len(self._held) >= self._step.ack_every or self._taken.has_all_names:
                    await self._acknowledge()

    @property
    def _held(self) -> list[Position]:
        return self._taken.unacknowledged[self._number]

    def _messages_of(self, entry: _Delivered) -> list[Message]:
        """The messages that are delivered: those of a batch that are not acknowledged."""
        messages = decode_messages(entry.data, *entry.position, partition_of(self._topic))
        if entry.left is None:
            return messages
        return [each for each in messages if entry.left >> each.message_id.batch_index & 1]

    async def _take(self, entry: _Delivered) -> None:
        delivered = self._messages_of(entry)
        messages = [each for each in delivered if each.message_id > self._behind]
        for message in messages:
            self._node.world.answers.message_delivered(
                entry.came,
                self._name,
                self._connection.host,
                self._step.subscription,
                self._topic,
                message,
                in_order=self._step.keeps_order,
                durable=not self._step.reader,
                keeps_keys=self._step.subscription_type == "Key_Shared",
                connection=self._connection_count,
            )
            self._last = message.message_id
        names = [(message.producer_name, message.sequence_id) for message in messages]
        self._taken.add(self._number, entry.position, names)
        self._return_permits(len(delivered))
        if self._step.acks_parts and len(messages) > 1:
            await self._acknowledge_half(entry.position, messages)

    # Acknowledgements

    async def _acknowledge_half(self, position: Position, messages: Sequence[Message]) -> None:
        """Acknowledge the first half of what is left of a batch."""
        indexes = [message.message_id.batch_index for message in messages]
        first = indexes[: len(indexes) // 2]
        left = sum(1 << index for index in indexes if index not in first)
        part = message_id_data(position, partition_of(self._topic))
        part.ack_set.extend(words_of(left))
        asked = await self._ask_to_acknowledge([part])
        if self._step.is_cumulative:
            self._acknowledged(asked, self._held[:-1])
        for index in first:
            self._note_acknowledged(asked, position, index)

    async def _acknowledge(self) -> None:
        """Acknowledge the entries that were delivered.  Raises `LookAgainError`, `TimeoutError`."""
        positions = list(self._held)
        if not positions:
            return
        named = positions[-1:] if self._step.is_cumulative else positions
        asked = await self._ask_to_acknowledge(list(map(message_id_data, named)))
        self._acknowledged(asked, positions)
        self._taken.see()

    async def _ask_to_acknowledge(self, message_ids: Sequence[MessageIdData]) -> int:
        """Returns the number of events before the request."""
        asked = self._node.world.answers.event_count
        request_id = self._connection.next_request_id()
        command = commands.acknowledge(
            self._number, request_id, message_ids, is_cumulative=self._step.is_cumulative
        )
        answer = await self._connection.ask(request_id, command)
        if answer.ackResponse.HasField("error"):
            raise LookAgainError(answer.ackResponse.message)
        return asked

    def _acknowledged(self, asked: int, positions: Sequence[Position]) -> None:
        """Note that the broker has taken the first ones of those that were delivered."""
        for position in positions:
            self._note_acknowledged(asked, position)
        del self._held[: len(positions)]

    def _note_acknowledged(self, asked: int, position: Position, batch_index: int = -1) -> None:
        self._node.world.answers.entry_acknowledged(
            self._name,
            self._connection.host,
            self._topic,
            self._step.subscription,
            asked,
            position,
            batch_index,
        )

    # Messages once more

    def _ask_again(self) -> None:
        """Give back the last entry, or all entries where one consumer gets all."""
        if self._step.keeps_order:
            self._epoch += 1
            self._held.clear()
            self._connection.send(commands.redeliver(self._number, [], self._epoch))
        elif self._held:
            self._connection.send(commands.redeliver(self._number, [self._held.pop()], 0))

    async def _start_over(self) -> None:
        """Let the subscription begin at the first message.  Raises `LookAgainError`,
        `TimeoutError`.
        """
        request_id = self._connection.next_request_id()
        make = commands.START_OVER[self._step.start_over_by]
        note = partial(self._node.world.answers.started_over, self._topic, self._step.subscription)
        note(is_done=False)
        await self._connection.ask(request_id, make(self._number, request_id))
        self._last = EARLIEST
        note(is_done=True)

    async def _ask_for_more(self) -> None:
        """Note a quiet turn if every message of the topic is acknowledged.  Raises
        `LookAgainError`, `TimeoutError`.
        """
        request_id, answers = self._connection.next_request_id(), self._node.world.answers
        asked = answers.event_count
        answer = await self._connection.ask(
            request_id, commands.get_last_message_id(self._number, request_id)
        )
        response = answer.getLastMessageIdResponse
        done = position_of(response.consumer_mark_delete_position)
        host, subscription = self._connection.host, self._step.subscription
        answers.up_to_here(host, self._topic, subscription, asked, done)
        if done >= position_of(response.last_message_id):
            turns = self._taken.quiet_turns
            turns[self._number] = turns.get(self._number, 0) + 1
            self._taken.see()

    # Frames

    def _return_permits(self, count: int) -> None:
        self._free_permits += count
        if self._free_permits * 2 >= self._step.permits:
            self._give_permits()

    def _give_permits(self) -> None:
        self._connection.send(commands.flow(self._number, self._free_permits))
        self._free_permits = 0

    def _received(self, command: BaseCommand, data: bytes) -> None:
        if command.type == BaseCommand.MESSAGE:
            message = command.message
            left = bits_of(message.ack_set) if message.ack_set else None
            came, where = len(self._node.world.answers.noted), position_of(message.message_id)
            self._inbox.put_nowait(_Delivered(came, where, data, left, message.consumer_epoch))
        elif command.type == BaseCommand.CLOSE_CONSUMER:
            self._gone()

    def _gone(self) -> None:
        self._inbox.put_nowait(None)
