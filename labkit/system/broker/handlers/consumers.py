"""Handlers for consumer commands.

    SUBSCRIBE    -> SUCCESS; then FLOW grants permits and MESSAGE delivers
    ACK          acknowledges entries or messages of batches; a response is sent only if requested
    REDELIVER    a negative acknowledgement, an acknowledgement timeout or an explicit request
    SEEK         -> CLOSE_CONSUMER to all consumers, then SUCCESS; the consumers subscribe again
    UNSUBSCRIBE  -> SUCCESS, and the subscription is deleted

A seek sends CLOSE_CONSUMER before SUCCESS. A client that stayed connected would clear its receive
queue without returning the permits, and would therefore receive nothing more.

In Pulsar: `broker/service/ServerCnx.java`.
"""

from collections.abc import Awaitable
from typing import NamedTuple

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.errors import BrokerError, NotAllowedError
from labkit.system.broker.handlers.schema_requests import check_consumer_schema
from labkit.system.broker.positions import last_message_id
from labkit.system.broker.protocol.authorization import CONSUME
from labkit.system.broker.protocol.connection import (
    MAX_PER_CONNECTION,
    ClientConnection,
    too_many_error,
)
from labkit.system.broker.protocol.frames import message_id_data, position_of
from labkit.system.broker.protocol.unsupported import NO_REPLICATION, NO_TRANSACTIONS
from labkit.system.broker.subscription import Subscription
from labkit.system.broker.topics import BrokerTopic
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandSubscribe,
    Schema,
    ServerError,
)
from labkit.system.topic.names import check_name

_MAX_HASH_RANGES = 1000
_MAX_ACK_SET_WORDS = 1024
"""The maximum number of 64-bit words in the acknowledgement of a batch, one bit per message."""


class AttachedConsumer(NamedTuple):
    topic: BrokerTopic
    subscription: Subscription
    consumer: Consumer

    def leave(self) -> None:
        self.topic.subscriptions.leave(self.subscription, self.consumer)


class Consumers:
    def __init__(self, broker: BrokerService, connection: ClientConnection) -> None:
        self._broker = broker
        self._connection = connection
        self._consumers_by_id: dict[int, AttachedConsumer] = {}
        self._pending_subscribes: dict[int, int] = {}
        """For each consumer, the request id of its latest pending SUBSCRIBE."""
        connection.register_handlers(
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
        connection.when_writable(self._wake_subscriptions)
        connection.when_closed(self._on_connection_closed)

    def _wake_subscriptions(self) -> None:
        for attached in list(self._consumers_by_id.values()):
            attached.subscription.wake()

    def _on_connection_closed(self) -> None:
        for attached in list(self._consumers_by_id.values()):
            attached.leave()
        self._consumers_by_id.clear()

    def _on_consumer_disconnected(self, consumer_id: int) -> None:
        """Forget the consumer, unless it is a reader on an open topic.

        A reader subscribes again after a seek. If it leaves before doing so, its subscription must
        be deleted.
        """
        attached = self._consumers_by_id[consumer_id]
        if attached.subscription.is_durable or attached.topic.is_ended:
            del self._consumers_by_id[consumer_id]

    def _connected(self, consumer_id: int) -> AttachedConsumer | None:
        """Return None if the consumer does not exist or was disconnected by a seek."""
        attached = self._consumers_by_id.get(consumer_id)
        return attached if attached is not None and attached.consumer.is_connected else None

    def _find(self, consumer_id: int) -> AttachedConsumer:
        attached = self._connected(consumer_id)
        if attached is None:
            raise BrokerError(
                ServerError.ConsumerNotFound,
                f"consumer {consumer_id} does not exist on this connection; subscribe again",
            )
        return attached

    def _send_success(self, request_id: int) -> None:
        command = BaseCommand(type=BaseCommand.SUCCESS)
        command.success.request_id = request_id
        self._connection.send(command)

    def _subscribe(self, command: BaseCommand, _: bytes) -> Awaitable[None]:
        check_name(command.subscribe.subscription, "subscription")
        if command.subscribe.replicate_subscription_state:
            raise NotAllowedError(
                f"replicateSubscriptionState is set, but {NO_REPLICATION}: unset it"
            )
        if len(command.subscribe.keySharedMeta.hashRanges) > _MAX_HASH_RANGES:
            raise BrokerError(
                ServerError.ConsumerAssignError,
                f"a consumer can have at most {_MAX_HASH_RANGES} hash ranges, got"
                f" {len(command.subscribe.keySharedMeta.hashRanges)}",
            )
        if len(self._consumers_by_id) + len(self._pending_subscribes) >= MAX_PER_CONNECTION:
            raise too_many_error(self._consumers_by_id, "consumers")
        # Do this before the first await, because a CLOSE_CONSUMER may already have arrived.
        self._pending_subscribes[command.subscribe.consumer_id] = command.subscribe.request_id
        return self._handle_subscribe(command.subscribe)

    async def _handle_subscribe(self, request: CommandSubscribe) -> None:
        try:
            await self._add_consumer(request)
        finally:
            if self._pending_subscribes.get(request.consumer_id) == request.request_id:
                del self._pending_subscribes[request.consumer_id]

    async def _add_consumer(self, request: CommandSubscribe) -> None:
        # A client may repeat SUBSCRIBE for a consumer that is already subscribed.
        if self._connected(request.consumer_id) is None:
            await self._broker.check_permission(
                self._connection.role, request.topic, CONSUME, subscription=request.subscription
            )
            if not request.force_topic_creation:
                await self._broker.check_exists(request.topic)
            topic = await self._broker.topic(request.topic)
            await check_consumer_schema(self._broker, topic, request.schema)
            attached = AttachedConsumer(
                topic,
                *await topic.subscriptions.subscribe(
                    self._connection, request, self._on_consumer_disconnected
                ),
            )
            attached.consumer.accepts_any_schema = request.schema.type == Schema.AutoConsume
            wanted = self._pending_subscribes.get(request.consumer_id) == request.request_id
            if self._connection.is_closed or not wanted:
                attached.leave()  # The client has cancelled the request.
                return
            if (before := self._consumers_by_id.get(request.consumer_id)) is not None:
                before.leave()  # This is a reader that a seek has disconnected.
            self._consumers_by_id[request.consumer_id] = attached
        self._send_success(request.request_id)
        self._consumers_by_id[request.consumer_id].subscription.notify_if_end_reached()

    def _flow(self, command: BaseCommand, _: bytes) -> None:
        attached = self._connected(command.flow.consumer_id)
        if attached is not None:
            attached.subscription.flow(attached.consumer, command.flow.messagePermits)

    def _acknowledge(self, command: BaseCommand, _: bytes) -> None:
        request = command.ack
        reply = BaseCommand(type=BaseCommand.ACK_RESPONSE)
        reply.ackResponse.consumer_id = request.consumer_id
        try:
            attached = self._find(request.consumer_id)
            if request.HasField("txnid_least_bits"):
                raise NotAllowedError(NO_TRANSACTIONS)
            if request.HasField("validation_error"):
                self._record_discarded(attached, request)
            _apply_acknowledgement(attached, request)
        except BrokerError as error:
            reply.ackResponse.error, reply.ackResponse.message = self._connection.error_response(
                error
            )
        if request.HasField("request_id"):
            reply.ackResponse.request_id = request.request_id
            self._connection.send(reply)

    def _record_discarded(self, attached: AttachedConsumer, request: CommandAck) -> None:
        """Record that the client discarded corrupt messages, which its application never sees."""
        for message_id in request.message_id:
            self._broker.client.recorder.record(
                "entry.discarded",
                *position_of(message_id),
                topic=attached.topic.name,
                subscription=attached.subscription.name,
                explanation=CommandAck.ValidationError.Name(request.validation_error),
            )

    def _redeliver(self, command: BaseCommand, _: bytes) -> None:
        request = command.redeliverUnacknowledgedMessages
        attached = self._connected(request.consumer_id)
        if attached is not None:
            # Messages of the same batch share a position.
            positions = list(dict.fromkeys(position_of(each) for each in request.message_ids))
            attached.subscription.redeliver(attached.consumer, positions, request.consumer_epoch)

    async def _seek(self, command: BaseCommand, _: bytes) -> None:
        request = command.seek
        attached = self._find(request.consumer_id)
        subscriptions = attached.topic.subscriptions
        if request.HasField("message_id"):
            await subscriptions.seek(attached.subscription, position_of(request.message_id))
        else:
            await subscriptions.seek_to_time(attached.subscription, request.message_publish_time)
        self._send_success(request.request_id)

    async def _last_message_id(self, command: BaseCommand, _: bytes) -> None:
        request = command.getLastMessageId
        attached = self._find(request.consumer_id)
        topic = attached.topic
        reply = BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE)
        response = reply.getLastMessageIdResponse
        response.request_id = request.request_id
        response.last_message_id.CopyFrom(await last_message_id(topic.ledger, topic.partition))
        # Without this field, a reader that starts at "latest" would never notice new messages.
        mark_delete = attached.subscription.cursor.mark_delete
        response.consumer_mark_delete_position.CopyFrom(
            message_id_data(mark_delete, topic.partition)
        )
        self._connection.send(reply)

    async def _unsubscribe(self, command: BaseCommand, _: bytes) -> None:
        request = command.unsubscribe
        attached = self._find(request.consumer_id)
        await attached.topic.subscriptions.unsubscribe(
            attached.subscription, attached.consumer, force=request.force
        )
        # The client may have reused this id for a new consumer in the meantime.
        if self._consumers_by_id.get(request.consumer_id) is attached:
            del self._consumers_by_id[request.consumer_id]
        self._send_success(request.request_id)

    def _close(self, command: BaseCommand, _: bytes) -> None:
        consumer_id = command.close_consumer.consumer_id
        self._pending_subscribes.pop(consumer_id, None)
        attached = self._consumers_by_id.pop(consumer_id, None)
        if attached is not None:
            attached.leave()
        self._send_success(command.close_consumer.request_id)


def _apply_acknowledgement(attached: AttachedConsumer, request: CommandAck) -> None:
    if any(len(each.ack_set) > _MAX_ACK_SET_WORDS for each in request.message_id):
        raise NotAllowedError(
            f"a batch of more than {64 * _MAX_ACK_SET_WORDS} messages can only be acknowledged as"
            " a whole"
        )
    acks = [(position_of(each), each.ack_set) for each in request.message_id]
    if request.ack_type == CommandAck.Individual:
        attached.subscription.acknowledge(attached.consumer, acks)
    else:
        for position, ack_set in acks:
            attached.subscription.acknowledge_up_to(position, ack_set)
