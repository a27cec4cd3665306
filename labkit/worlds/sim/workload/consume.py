"""Pulsar consumers in the simulated world, and the step that runs them.

A consumer behaves like the official clients: it looks up the topic, subscribes, grants permits for
as many messages as it can hold, and acknowledges entries or parts of batches. The consumer may
request redelivery of unacknowledged messages, or reset the subscription to the first message. After
any failure, the consumer opens a new connection and forgets its unacknowledged messages, which the
broker then redelivers.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from labkit.system.broker.protocol.frames import message_id_data, position_of
from labkit.system.model.errors import BKIncorrectParameterException, LabkitError
from labkit.system.model.message_id import EARLIEST
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, MessageIdData
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.cursors.formats import from_java_longs, to_java_longs
from labkit.system.topic.messages import Message, decode_messages
from labkit.system.topic.names import full_name, partition_of
from labkit.system.trace.answers import (
    AllAcknowledged,
    EntryAcknowledged,
    MessageDelivered,
    StartedOver,
)
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.nodes.results import content_of
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment
from labkit.worlds.sim.workload import consumer_commands as commands
from labkit.worlds.sim.workload.delivered import DeliveredMessages
from labkit.worlds.sim.workload.topic_connection import RetryLookupError, TopicConnection

_BACKOFF_S = 0.1
_IDLE_S = 1.0
"""How long a consumer waits for a message before it asks whether there are more messages."""


@dataclass(frozen=True, slots=True, repr=False)
class Consume(Value):
    """Consume messages of a topic through the cluster's brokers, and acknowledge them.

    The step ends when `messages` different messages have been delivered and acknowledged, or when
    the topic has had no further messages for several seconds. The step runs `consumers` consumers
    of the `subscription`, each with its own connection and `permits`. After every `ack_every`
    entries, a consumer acknowledges each of them individually or, with `is_cumulative`, everything
    up to the last one. With `acks_parts`, it first acknowledges the first half of each batch.

    After `entries_per_connection` entries (0: never), a consumer disconnects without acknowledging
    the last one, then reconnects. After every `redeliver_every` entries (0: never), it requests
    redelivery of all unacknowledged entries, or only of the last entry if the subscription delivers
    to several consumers. After `start_over_after` entries (0: never), the subscription is reset to
    the first message once. `start_over_by` specifies how: with `seek`, or with `unsubscribe` and a
    new subscription of the same name.

    A `reader` has a non-durable subscription. After any failure, it resumes after the last message
    that was delivered to it.
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
        Value.__post_init__(self)
        if self.subscription_type == "Exclusive" and self.consumers > 1:
            raise BKIncorrectParameterException(
                "an Exclusive subscription allows only one consumer; choose another"
                " subscription_type"
            )
        if self.reader and self.subscription_type != "Exclusive":
            raise BKIncorrectParameterException(
                f"a reader needs an Exclusive subscription, got {self.subscription_type}"
            )
        if self.entries_per_connection == 1:
            raise BKIncorrectParameterException(
                "entries_per_connection must not be 1: a consumer that disconnects before it"
                " acknowledges its only entry would receive it forever; use 2 or more, or 0 to"
                " stay connected"
            )
        if self.start_over_after and self.start_over_by == "unsubscribe" and self.consumers > 1:
            raise BKIncorrectParameterException(
                "only a subscription's sole consumer can delete it; use a single consumer, or"
                " start_over_by='seek'"
            )
        if 0 < self.redeliver_every <= self.ack_every:
            raise BKIncorrectParameterException(
                f"redeliver_every ({self.redeliver_every}) must be greater than ack_every"
                f" ({self.ack_every}), or 0 for never: a consumer that requests redelivery"
                " before it acknowledges any entries would receive them forever"
            )
        if self.is_cumulative and not self.keeps_order:
            raise BKIncorrectParameterException(
                f"a {self.subscription_type} subscription does not support cumulative"
                " acknowledgement"
            )

    @property
    def keeps_order(self) -> bool:
        """Whether messages are delivered in order, to one consumer at a time."""
        return self.subscription_type in ("Exclusive", "Failover")

    def __str__(self) -> str:
        return f"consume {self.messages} messages of {self.topic}"

    async def run(self, node: ClientNode) -> None:
        delivered = DeliveredMessages(self.messages, self.consumers, self.start_over_after)
        consumers = [_Consumer(node, self, number, delivered) for number in range(self.consumers)]
        tasks = [node.spawn(consumer.run()) for consumer in consumers]
        await delivered.is_complete.wait()
        for task, consumer in zip(tasks, consumers, strict=True):
            task.cancel()
            consumer.hang_up()


class _DeliveredEntry(NamedTuple):
    """A delivered entry.

    `arrived_at` is the number of results that were recorded before the entry arrived. `remaining`
    is a bit set that contains the messages of the batch that were delivered (None: all of them).
    `epoch` is the number of redelivery requests before the delivery.
    """

    arrived_at: int
    position: Position
    data: bytes
    remaining: int | None
    epoch: int


class _Consumer:
    def __init__(
        self, node: ClientNode, step: Consume, number: int, delivered: DeliveredMessages
    ) -> None:
        self._step, self._number, self._delivered = step, number, delivered
        self._results = node.world.results
        self._name = f"{node.name}-{number}"
        self._topic = full_name(step.topic)
        self._inbox: asyncio.Queue[_DeliveredEntry | None] = asyncio.Queue()
        """Delivered entries. None follows the last entry of a connection that has ended."""
        self._connection_count = 0
        self._free_permits = 0
        self._epoch = 0
        self._last = EARLIEST
        """The last message delivered to a reader. Its next connection starts after this message."""
        self._resume_after = EARLIEST
        """The last message that was delivered before this connection was opened. The message is
        ignored if it is redelivered together with its entry.
        """
        self._connection = TopicConnection(node, self._topic, self._on_command, self._on_gone)

    async def run(self) -> None:
        for attempt in count(self._number):
            with suppress(LabkitError, OSError):
                await self._subscribe(attempt)
                await self._process_messages()
            self.hang_up()
            await asyncio.sleep(_BACKOFF_S)

    def hang_up(self) -> None:
        self._connection.hang_up()

    # One connection after another

    async def _subscribe(self, attempt: int) -> None:
        self._inbox, self._delivered.unacknowledged[self._number] = asyncio.Queue(), []
        self._delivered.quiet_turns.pop(self._number, None)
        self._connection_count += 1
        await self._connection.open(attempt)
        arguments = self._number, self._name, self._topic, self._step.subscription
        if self._step.reader:
            self._resume_after = self._last
            command = commands.read(*arguments, self._resume_after)
        else:
            command = commands.subscribe(*arguments, self._step.subscription_type)
        await self._connection.ask(command)
        self._free_permits, self._epoch = self._step.permits, 0
        self._give_permits()

    async def _process_messages(self) -> None:
        entry_count = 0
        while True:
            try:
                async with asyncio.timeout(_IDLE_S):
                    entry = await self._inbox.get()
            except TimeoutError:
                await self._acknowledge()
                await self._check_for_more()
            else:
                if entry is None:
                    return
                if entry.epoch < self._epoch:
                    self._return_permits(len(self._messages_of(entry)))
                    continue
                entry_count += 1
                await self._take(entry)
                if self._delivered.is_time_to_start_over():
                    await self._start_over()
                    return
                if entry_count == self._step.entries_per_connection:
                    self._unacknowledged.pop()
                    await self._acknowledge()
                    return
                if self._step.redeliver_every and entry_count % self._step.redeliver_every == 0:
                    self._request_redelivery()
                is_due = len(self._unacknowledged) >= self._step.ack_every
                if is_due or self._delivered.has_enough_messages:
                    await self._acknowledge()

    @property
    def _unacknowledged(self) -> list[Position]:
        return self._delivered.unacknowledged[self._number]

    def _messages_of(self, entry: _DeliveredEntry) -> list[Message]:
        messages = decode_messages(entry.data, *entry.position, partition_of(self._topic))
        if entry.remaining is None:
            return messages
        return [each for each in messages if entry.remaining >> each.message_id.batch_index & 1]

    async def _take(self, entry: _DeliveredEntry) -> None:
        delivered = self._messages_of(entry)
        messages = [each for each in delivered if each.message_id > self._resume_after]
        for message in messages:
            message_id = self._last = message.message_id
            self._results.record(
                MessageDelivered,
                came=entry.arrived_at,
                consumer=self._name,
                broker=self._connection.host,
                subscription=self._step.subscription,
                in_order=self._step.keeps_order,
                durable=not self._step.reader,
                key=message.key if self._step.subscription_type == "Key_Shared" else "",
                connection=self._connection_count,
                message=content_of(self._topic, message),
                ledger=message_id.ledger_id,
                entry=message_id.entry_id,
                batch_index=message_id.batch_index,
            )
        names = [(message.producer_name, message.sequence_id) for message in messages]
        self._delivered.add(self._number, entry.position, names)
        self._return_permits(len(delivered))
        if self._step.acks_parts and len(messages) > 1:
            await self._acknowledge_half(entry.position, messages)

    # Acknowledgements

    async def _acknowledge_half(self, position: Position, messages: Sequence[Message]) -> None:
        indexes = [message.message_id.batch_index for message in messages]
        first = indexes[: len(indexes) // 2]
        remaining = sum(1 << index for index in indexes if index not in first)
        part = message_id_data(position, partition_of(self._topic))
        part.ack_set.extend(to_java_longs(remaining))
        requested_at = await self._send_acknowledgement([part])
        if self._step.is_cumulative:
            self._on_acknowledged(requested_at, self._unacknowledged[:-1])
        for index in first:
            self._record_acknowledgement(requested_at, position, index)

    async def _acknowledge(self) -> None:
        positions = list(self._unacknowledged)
        if not positions:
            return
        acknowledged = positions[-1:] if self._step.is_cumulative else positions
        requested_at = await self._send_acknowledgement(list(map(message_id_data, acknowledged)))
        self._on_acknowledged(requested_at, positions)
        self._delivered.check_complete()

    async def _send_acknowledgement(self, message_ids: Sequence[MessageIdData]) -> int:
        """Send the acknowledgement, and return the number of events that preceded it."""
        requested_at = self._results.event_count
        command = commands.acknowledge(
            self._number, message_ids, is_cumulative=self._step.is_cumulative
        )
        response = await self._connection.ask(command)
        if response.ackResponse.HasField("error"):
            raise RetryLookupError(response.ackResponse.message)
        return requested_at

    def _on_acknowledged(self, requested_at: int, positions: Sequence[Position]) -> None:
        for position in positions:
            self._record_acknowledgement(requested_at, position)
        del self._unacknowledged[: len(positions)]

    def _record_acknowledgement(
        self, requested_at: int, position: Position, batch_index: int = -1
    ) -> None:
        who = self._name, self._connection.host, self._topic, self._step.subscription
        self._results.record(EntryAcknowledged, requested_at, *who, *position, batch_index)

    # Redelivery

    def _request_redelivery(self) -> None:
        """Request redelivery of all entries, or only of the last entry if consumers share the
        subscription.
        """
        if self._step.keeps_order:
            self._epoch += 1
            self._unacknowledged.clear()
            self._connection.send(commands.redeliver(self._number, [], self._epoch))
        elif self._unacknowledged:
            self._connection.send(commands.redeliver(self._number, [self._unacknowledged.pop()], 0))

    async def _start_over(self) -> None:
        make = commands.START_OVER[self._step.start_over_by]
        self._results.record(StartedOver, self._topic, self._step.subscription, is_done=False)
        await self._connection.ask(make(self._number))
        self._last = EARLIEST
        self._results.record(StartedOver, self._topic, self._step.subscription, is_done=True)

    async def _check_for_more(self) -> None:
        """Ask for the last message of the topic. If every message has been acknowledged, count a
        quiet turn.
        """
        requested_at = self._results.event_count
        response = await self._connection.ask(commands.get_last_message_id(self._number))
        last = response.getLastMessageIdResponse
        done = position_of(last.consumer_mark_delete_position)
        who = self._connection.host, self._topic, self._step.subscription
        self._results.record(AllAcknowledged, requested_at, *who, *done)
        if done >= position_of(last.last_message_id):
            turns = self._delivered.quiet_turns
            turns[self._number] = turns.get(self._number, 0) + 1
            self._delivered.check_complete()

    # Frames

    def _return_permits(self, count: int) -> None:
        self._free_permits += count
        if self._free_permits * 2 >= self._step.permits:
            self._give_permits()

    def _give_permits(self) -> None:
        self._connection.send(commands.flow(self._number, self._free_permits))
        self._free_permits = 0

    def _on_command(self, command: BaseCommand, data: bytes) -> None:
        if command.type == BaseCommand.MESSAGE:
            message = command.message
            remaining = from_java_longs(message.ack_set) if message.ack_set else None
            arrived_at = len(self._results.recorded)
            position = position_of(message.message_id)
            self._inbox.put_nowait(
                _DeliveredEntry(arrived_at, position, data, remaining, message.consumer_epoch)
            )
        elif command.type == BaseCommand.CLOSE_CONSUMER:
            self._on_gone()

    def _on_gone(self) -> None:
        self._inbox.put_nowait(None)
