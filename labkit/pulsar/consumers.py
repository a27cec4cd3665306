"""Consumers on the wire: what their commands ask of the topic's subscriptions.

    SUBSCRIBE    -> SUCCESS; from then on FLOW permits, MESSAGE delivers
    ACK          entries, or parts of batches, are done; answered only if the client wants that
    REDELIVER    a negative acknowledgement, a timeout of the client's, or the explicit call
    SEEK         -> CLOSE_CONSUMER to all consumers, then SUCCESS; they subscribe again
    UNSUBSCRIBE  -> SUCCESS, and the subscription is gone with all it knew

CLOSE_CONSUMER comes before a seek's SUCCESS because a client that is not sent away empties its
queue and gives no permits back for it, so that it would receive nothing more.

In Pulsar: `broker/service/ServerCnx.java`.
"""

from collections.abc import Awaitable
from typing import NamedTuple

from labkit.model.proto.pulsar_pb2 import BaseCommand, CommandAck, CommandSubscribe, ServerError
from labkit.pulsar.authorization import CONSUME
from labkit.pulsar.connection import MOST_OF_A_CONNECTION, Connection, Handlers, too_many
from labkit.pulsar.dispatch.consumer import Consumer
from labkit.pulsar.errors import BrokerError, refused_names
from labkit.pulsar.frames import message_id_data, position_of
from labkit.pulsar.positions import last_message_id
from labkit.pulsar.refusals import NO_TRANSACTIONS
from labkit.pulsar.subscription import Subscription
from labkit.pulsar.topics import BrokerTopic
from labkit.topic.names import check_name, partition_of

_MOST_RANGES = 1000
_MOST_WORDS = 1024
"""Of a batch's acknowledgement, each for 64 messages."""


class Subscribed(NamedTuple):
    """A client's consumer, of a subscription of a topic that this broker serves."""

    topic: BrokerTopic
    subscription: Subscription
    consumer: Consumer

    def leave(self) -> None:
        """The consumer is closed, or its client gone."""
        self.topic.subscriptions.leave(self.subscription, self.consumer)


def leave_all(connection: Connection) -> None:
    """The connection is gone: so are its consumers."""
    for subscribed in list(connection.consumers.values()):
        subscribed.leave()
    connection.consumers.clear()


def _find(connection: Connection, consumer_id: int) -> Subscribed:
    if consumer_id not in connection.consumers:
        raise BrokerError(
            ServerError.ConsumerNotFound,
            f"this connection has no consumer {consumer_id}; subscribe again",
        )
    return connection.consumers[consumer_id]


def _succeed(connection: Connection, request_id: int) -> None:
    command = BaseCommand(type=BaseCommand.SUCCESS)
    command.success.request_id = request_id
    connection.send(command)


def _subscribe(connection: Connection, command: BaseCommand, _: bytes) -> Awaitable[None]:
    with refused_names():
        check_name(command.subscribe.subscription, "subscription")
    if len(command.subscribe.keySharedMeta.hashRanges) > _MOST_RANGES:
        raise BrokerError(
            ServerError.ConsumerAssignError, f"more than {_MOST_RANGES} hash ranges of a consumer"
        )
    if len(connection.consumers) + len(connection.subscribing) >= MOST_OF_A_CONNECTION:
        raise too_many(connection.consumers, "consumers")
    # Noted before anything is awaited: a CLOSE_CONSUMER may come in the same receive.
    connection.subscribing[command.subscribe.consumer_id] = command.subscribe.request_id
    return _join(connection, command.subscribe)


async def _join(connection: Connection, request: CommandSubscribe) -> None:
    try:
        await _join_unless_there(connection, request)
    finally:
        if connection.subscribing.get(request.consumer_id) == request.request_id:
            del connection.subscribing[request.consumer_id]


async def _join_unless_there(connection: Connection, request: CommandSubscribe) -> None:
    before = connection.consumers.get(request.consumer_id)
    if before is None or before.consumer not in before.subscription.consumers:
        await connection.check_may(request.topic, CONSUME, subscription=request.subscription)
        if not request.force_topic_creation:
            await connection.broker.check_exists(request.topic)
        topic = await connection.broker.topic(request.topic)
        if request.HasField("schema"):
            await connection.broker.schemas.register(topic.name, request.schema)
        subscribed = Subscribed(topic, *await topic.subscriptions.subscribe(connection, request))
        wanted = connection.subscribing.get(request.consumer_id) == request.request_id
        if connection.closed or not wanted:
            subscribed.leave()  # The client has given up.
            return
        connection.consumers[request.consumer_id] = subscribed
    _succeed(connection, request.request_id)


def _flow(connection: Connection, command: BaseCommand, _: bytes) -> None:
    subscribed = connection.consumers.get(command.flow.consumer_id)
    if subscribed is not None:
        subscribed.subscription.flow(subscribed.consumer, command.flow.messagePermits)


def _acknowledge(connection: Connection, command: BaseCommand, _: bytes) -> None:
    request = command.ack
    answer = BaseCommand(type=BaseCommand.ACK_RESPONSE)
    answer.ackResponse.consumer_id = request.consumer_id
    try:
        subscribed = _find(connection, request.consumer_id)
        if request.HasField("txnid_least_bits"):
            raise BrokerError(ServerError.NotAllowedError, NO_TRANSACTIONS)
        if request.HasField("validation_error"):
            _tell_discarded(connection, subscribed, request)
        _take_acknowledgement(subscribed, request)
    except BrokerError as error:
        answer.ackResponse.error, answer.ackResponse.message = connection.refusal(error)
    if request.HasField("request_id"):
        answer.ackResponse.request_id = request.request_id
        connection.send(answer)


def _tell_discarded(connection: Connection, subscribed: Subscribed, request: CommandAck) -> None:
    """The client found damage and went on: its application sees a gap, and nobody else knows."""
    recorder = connection.broker.client.recorder
    why = CommandAck.ValidationError.Name(request.validation_error)
    for message_id in request.message_id:
        ledger_id, entry_id = position_of(message_id)
        note = f"{subscribed.subscription.name} of {subscribed.topic.name}: {why}"
        recorder.record("entry.discarded", ledger_id, entry_id, note=note)


def _take_acknowledgement(subscribed: Subscribed, request: CommandAck) -> None:
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


def _redeliver(connection: Connection, command: BaseCommand, _: bytes) -> None:
    request = command.redeliverUnacknowledgedMessages
    subscribed = connection.consumers.get(request.consumer_id)
    if subscribed is not None:
        # Several messages of a batch name the same entry.
        positions = list(dict.fromkeys(position_of(each) for each in request.message_ids))
        subscribed.subscription.redeliver(subscribed.consumer, positions, request.consumer_epoch)


async def _seek(connection: Connection, command: BaseCommand, _: bytes) -> None:
    request = command.seek
    subscribed = _find(connection, request.consumer_id)
    subscriptions = subscribed.topic.subscriptions
    try:
        if request.HasField("message_id"):
            position = position_of(request.message_id)
            await subscriptions.seek(subscribed.subscription, position)
        else:
            await subscriptions.seek_to_time(subscribed.subscription, request.message_publish_time)
    finally:
        # Sent away, it comes back; if its client never does, its subscription may have to go.
        connection.consumers.setdefault(request.consumer_id, subscribed)
    _succeed(connection, request.request_id)


async def _last_message_id(connection: Connection, command: BaseCommand, _: bytes) -> None:
    request = command.getLastMessageId
    subscribed = _find(connection, request.consumer_id)
    topic = subscribed.topic
    partition = partition_of(topic.name)
    answer = BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE)
    response = answer.getLastMessageIdResponse
    response.request_id = request.request_id
    response.last_message_id.CopyFrom(await last_message_id(topic.ledger, partition))
    # Without it a reader from "latest" never learns of a message.
    mark_delete = subscribed.subscription.cursor.mark_delete
    response.consumer_mark_delete_position.CopyFrom(message_id_data(mark_delete, partition))
    connection.send(answer)


async def _unsubscribe(connection: Connection, command: BaseCommand, _: bytes) -> None:
    request = command.unsubscribe
    subscribed = _find(connection, request.consumer_id)
    await subscribed.topic.subscriptions.unsubscribe(
        subscribed.subscription, subscribed.consumer, force=request.force
    )
    connection.consumers.pop(request.consumer_id, None)
    _succeed(connection, request.request_id)


def _close(connection: Connection, command: BaseCommand, _: bytes) -> None:
    consumer_id = command.close_consumer.consumer_id
    connection.subscribing.pop(consumer_id, None)
    subscribed = connection.consumers.pop(consumer_id, None)
    if subscribed is not None:
        subscribed.leave()
    _succeed(connection, command.close_consumer.request_id)


CONSUMER_HANDLERS: Handlers = {
    BaseCommand.SUBSCRIBE: _subscribe,
    BaseCommand.FLOW: _flow,
    BaseCommand.ACK: _acknowledge,
    BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: _redeliver,
    BaseCommand.SEEK: _seek,
    BaseCommand.GET_LAST_MESSAGE_ID: _last_message_id,
    BaseCommand.UNSUBSCRIBE: _unsubscribe,
    BaseCommand.CLOSE_CONSUMER: _close,
}
