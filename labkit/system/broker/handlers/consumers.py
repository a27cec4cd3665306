"""Consumers on the wire: their commands, and what these do to the topic's subscriptions.

    SUBSCRIBE    -> SUCCESS; from then on FLOW permits, MESSAGE delivers
    ACK          entries, or parts of batches, are done; answered only if the client wants that
    REDELIVER    a negative acknowledgement, a timeout in the client, or an explicit call
    SEEK         -> CLOSE_CONSUMER to all consumers, then SUCCESS; they subscribe again
    UNSUBSCRIBE  -> SUCCESS, and the subscription is deleted

CLOSE_CONSUMER comes before a seek's SUCCESS because a client that stays connected empties its queue
without giving the permits back, so it would receive nothing more.

In Pulsar: `broker/service/ServerCnx.java`.
"""

from collections import Counter
from collections.abc import Awaitable
from typing import NamedTuple

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.errors import BrokerError, refused_names
from labkit.system.broker.handlers.schema_requests import check_consumer_schema
from labkit.system.broker.positions import last_message_id
from labkit.system.broker.protocol.authorization import CONSUME
from labkit.system.broker.protocol.connection import (
    MOST_OF_A_CONNECTION,
    ClientConnection,
    too_many,
)
from labkit.system.broker.protocol.frames import message_id_data, position_of
from labkit.system.broker.protocol.refusals import NO_REPLICATION, NO_TRANSACTIONS
from labkit.system.broker.subscription import Subscription
from labkit.system.broker.topics import BrokerTopic
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandSubscribe,
    Schema,
    ServerError,
)
from labkit.system.topic.names import check_name, partition_of

_MOST_RANGES = 1000
_MOST_WORDS = 1024
"""Words in the acknowledgement of a batch, each for 64 messages."""


class Subscribed(NamedTuple):
    """A client's consumer, its subscription, and the topic, which this broker serves."""

    topic: BrokerTopic
    subscription: Subscription
    consumer: Consumer

    def leave(self) -> None:
        """Called when the consumer is closed, or its client is gone."""
        self.topic.subscriptions.leave(self.subscription, self.consumer)


class Consumers:
    """The consumers of a client's connection, by the ids that the client gives them."""

    def __init__(self, broker: BrokerService, connection: ClientConnection) -> None:
        self._broker = broker
        self._connection = connection
        self._subscribed: dict[int, Subscribed] = {}
        self._subscribing: dict[int, int] = {}
        """The newest request to subscribe, until it is granted."""
        self._seeking: Counter[int] = Counter()
        """How many seeks of each consumer are under way."""
        connection.serve(
            {
                BaseCommand.SUBSCRIBE: self._subscribe,
                BaseCommand.FLOW: self._flow,
                BaseCommand.ACK: self._acknowledge,
                BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: self._redeliver,
                BaseCommand.SEEK: self._seek,
                BaseCommand.GET_LAST_MESSAGE_ID: self._last_message_id,
                BaseCommand.UNSUBSCRIBE: self._unsubscribe,
                BaseCommand.CLOSE_CONSUMER: self._close,
            }
        )
        connection.when_writable(self._wake)
        connection.when_closed(self._leave)

    def _wake(self) -> None:
        for subscribed in list(self._subscribed.values()):
            subscribed.subscription.wake()

    def _leave(self) -> None:
        """Close all consumers: the client is gone."""
        for subscribed in list(self._subscribed.values()):
            subscribed.leave()
        self._subscribed.clear()

    def _forget(self, consumer_id: int) -> None:
        """Forget a consumer that was disconnected.  After its own seek it comes back; if not, its
        subscription may have to be deleted with the connection.
        """
        if not self._seeking[consumer_id]:
            self._subscribed.pop(consumer_id, None)

    def _find(self, consumer_id: int) -> Subscribed:
        if consumer_id not in self._subscribed:
            raise _no_consumer(consumer_id)
        return self._subscribed[consumer_id]

    def _succeed(self, request_id: int) -> None:
        command = BaseCommand(type=BaseCommand.SUCCESS)
        command.success.request_id = request_id
        self._connection.send(command)

    def _subscribe(self, command: BaseCommand, _: bytes) -> Awaitable[None]:
        with refused_names():
            check_name(command.subscribe.subscription, "subscription")
        if command.subscribe.replicate_subscription_state:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"replicateSubscriptionState is set, but {NO_REPLICATION}; subscribe without it",
            )
        if len(command.subscribe.keySharedMeta.hashRanges) > _MOST_RANGES:
            raise BrokerError(
                ServerError.ConsumerAssignError,
                f"more than {_MOST_RANGES} hash ranges of a consumer",
            )
        if len(self._subscribed) + len(self._subscribing) >= MOST_OF_A_CONNECTION:
            raise too_many(self._subscribed, "consumers")
        # Noted before anything is awaited: a CLOSE_CONSUMER may come in the same receive.
        self._subscribing[command.subscribe.consumer_id] = command.subscribe.request_id
        return self._join(command.subscribe)

    async def _join(self, request: CommandSubscribe) -> None:
        try:
            await self._add_consumer(request)
        finally:
            if self._subscribing.get(request.consumer_id) == request.request_id:
                del self._subscribing[request.consumer_id]

    async def _add_consumer(self, request: CommandSubscribe) -> None:
        before = self._subscribed.get(request.consumer_id)
        # A client may send SUBSCRIBE again for a consumer that it has: it only gets the answer.
        if before is None or before.consumer not in before.subscription.consumers:
            await self._connection.check_may(
                request.topic, CONSUME, subscription=request.subscription
            )
            if not request.force_topic_creation:
                await self._broker.check_exists(request.topic)
            topic = await self._broker.topic(request.topic)
            await check_consumer_schema(self._broker, topic, request.schema)
            subscribed = Subscribed(
                topic, *await topic.subscriptions.subscribe(self._connection, request, self._forget)
            )
            subscribed.consumer.takes_any_schema = request.schema.type == Schema.AutoConsume
            wanted = self._subscribing.get(request.consumer_id) == request.request_id
            if self._connection.is_closed or not wanted:
                subscribed.leave()  # The client has given up.
                return
            self._subscribed[request.consumer_id] = subscribed
        self._succeed(request.request_id)
        self._subscribed[request.consumer_id].subscription.announce_end()

    def _flow(self, command: BaseCommand, _: bytes) -> None:
        subscribed = self._subscribed.get(command.flow.consumer_id)
        if subscribed is not None:
            subscribed.subscription.flow(subscribed.consumer, command.flow.messagePermits)

    def _acknowledge(self, command: BaseCommand, _: bytes) -> None:
        request = command.ack
        answer = BaseCommand(type=BaseCommand.ACK_RESPONSE)
        answer.ackResponse.consumer_id = request.consumer_id
        try:
            subscribed = self._find(request.consumer_id)
            if not subscribed.consumer.is_connected:
                raise _no_consumer(request.consumer_id)  # It would count behind the seek.
            if request.HasField("txnid_least_bits"):
                raise BrokerError(ServerError.NotAllowedError, NO_TRANSACTIONS)
            if request.HasField("validation_error"):
                self._record_discarded(subscribed, request)
            _apply_acknowledgement(subscribed, request)
        except BrokerError as error:
            answer.ackResponse.error, answer.ackResponse.message = self._connection.refusal(error)
        if request.HasField("request_id"):
            answer.ackResponse.request_id = request.request_id
            self._connection.send(answer)

    def _record_discarded(self, subscribed: Subscribed, request: CommandAck) -> None:
        """Record that the client found damage and went on: its application sees only the gap."""
        recorder = self._broker.client.recorder
        why = CommandAck.ValidationError.Name(request.validation_error)
        for message_id in request.message_id:
            ledger_id, entry_id = position_of(message_id)
            note = f"{subscribed.subscription.name} of {subscribed.topic.name}: {why}"
            recorder.record("entry.discarded", ledger_id, entry_id, note=note)

    def _redeliver(self, command: BaseCommand, _: bytes) -> None:
        request = command.redeliverUnacknowledgedMessages
        subscribed = self._subscribed.get(request.consumer_id)
        if subscribed is not None:
            # Several messages of a batch name the same entry.
            positions = list(dict.fromkeys(position_of(each) for each in request.message_ids))
            subscribed.subscription.redeliver(
                subscribed.consumer, positions, request.consumer_epoch
            )

    async def _seek(self, command: BaseCommand, _: bytes) -> None:
        request = command.seek
        subscribed = self._find(request.consumer_id)
        subscriptions = subscribed.topic.subscriptions
        self._seeking[request.consumer_id] += 1
        try:
            if request.HasField("message_id"):
                position = position_of(request.message_id)
                await subscriptions.seek(subscribed.subscription, position)
            else:
                await subscriptions.seek_to_time(
                    subscribed.subscription, request.message_publish_time
                )
        finally:
            self._seeking[request.consumer_id] -= 1
        self._succeed(request.request_id)

    async def _last_message_id(self, command: BaseCommand, _: bytes) -> None:
        request = command.getLastMessageId
        subscribed = self._find(request.consumer_id)
        topic = subscribed.topic
        partition = partition_of(topic.name)
        answer = BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE)
        response = answer.getLastMessageIdResponse
        response.request_id = request.request_id
        response.last_message_id.CopyFrom(await last_message_id(topic.ledger, partition))
        # Without the mark-delete position a reader from "latest" never learns of a message.
        mark_delete = subscribed.subscription.cursor.mark_delete
        response.consumer_mark_delete_position.CopyFrom(message_id_data(mark_delete, partition))
        self._connection.send(answer)

    async def _unsubscribe(self, command: BaseCommand, _: bytes) -> None:
        request = command.unsubscribe
        subscribed = self._find(request.consumer_id)
        await subscribed.topic.subscriptions.unsubscribe(
            subscribed.subscription, subscribed.consumer, force=request.force
        )
        # The client may have subscribed again with this id in the meantime.
        if self._subscribed.get(request.consumer_id) is subscribed:
            del self._subscribed[request.consumer_id]
        self._succeed(request.request_id)

    def _close(self, command: BaseCommand, _: bytes) -> None:
        consumer_id = command.close_consumer.consumer_id
        self._subscribing.pop(consumer_id, None)
        subscribed = self._subscribed.pop(consumer_id, None)
        if subscribed is not None:
            subscribed.leave()
        self._succeed(command.close_consumer.request_id)


def _no_consumer(consumer_id: int) -> BrokerError:
    return BrokerError(
        ServerError.ConsumerNotFound,
        f"this connection has no consumer {consumer_id}; subscribe again",
    )


def _apply_acknowledgement(subscribed: Subscribed, request: CommandAck) -> None:
    if any(len(each.ack_set) > _MOST_WORDS for each in request.message_id):
        raise BrokerError(
            ServerError.NotAllowedError,
            f"of a batch of more than {64 * _MOST_WORDS} messages no part can be acknowledged",
        )
    acks = [(position_of(each), each.ack_set) for each in request.message_id]
    if request.ack_type == CommandAck.Individual:
        subscribed.subscription.acknowledge(subscribed.consumer, acks)
    else:
        for position, words in acks:
            subscribed.subscription.acknowledge_up_to(position, words)
