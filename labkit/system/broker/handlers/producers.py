"""Handlers for producer commands, which register producers, store messages and send receipts.

When a send fails, the producer is closed immediately and its client is notified. The client then
registers the producer again, and resends every message for which it has no receipt. Messages that
the client sent before the notification arrived are ignored, so no message overtakes another.

In Pulsar: `broker/service/Producer.java`, `broker/service/ServerCnx.java`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from labkit.system.broker.access import AccessRequest
from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.errors import BrokerError, NotAllowedError
from labkit.system.broker.protocol.authorization import CONSUME, PRODUCE
from labkit.system.broker.protocol.connection import (
    MAX_PER_CONNECTION,
    ClientConnection,
    too_many_error,
)
from labkit.system.broker.protocol.frames import NO_REQUEST, UNSIGNED, encode_frame
from labkit.system.broker.protocol.unsupported import (
    NO_REPLICATION,
    NO_TRANSACTIONS,
    final_send_error,
)
from labkit.system.broker.topics import BrokerTopic
from labkit.system.broker.traffic import Traffic
from labkit.system.model.errors import BKDigestMatchException, LabkitError
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandCloseProducer,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendError,
    CommandSuccess,
    ServerError,
)
from labkit.system.topic.messages import (
    decode_metadata,
    has_valid_checksum,
    replication_clusters,
    text_of,
)
from labkit.system.topic.names import check_name
from labkit.system.topic.producing.deduplication import MAX_SEQUENCE_ID, completes_message
from labkit.system.topic.producing.publishing import ProducerBusyError, Send

_NOT_REPLICATED = "__local__"
"""The cluster name with which clients request no replication."""


class Producers:
    def __init__(self, broker: BrokerService, connection: ClientConnection) -> None:
        self.broker = broker
        self.connection = connection
        self.producers_by_id: dict[int, Producer] = {}
        self.pending_registrations: dict[int, ProducerRegistration] = {}
        """The latest pending request for each producer id."""
        connection.register_handlers(
            {
                BaseCommand.PRODUCER: self._register,
                BaseCommand.SEND: self._send,
                BaseCommand.CLOSE_PRODUCER: self._close,
            }
        )
        connection.when_closed(self._on_connection_closed)

    def _register(self, command: BaseCommand, _: bytes) -> Awaitable[None]:
        if len(self.producers_by_id) + len(self.pending_registrations) >= MAX_PER_CONNECTION:
            raise too_many_error(self.producers_by_id, "producers")
        # Do this before the first await, because a CLOSE_PRODUCER may already have arrived.
        return ProducerRegistration(self, command.producer).run()

    def _send(self, command: BaseCommand, message: bytes) -> None:
        request = command.send
        producer = self.producers_by_id.get(request.producer_id)
        # A disconnected producer resends its messages after it has registered again.
        if producer is not None:
            producer.send(request, message)

    def _close(self, command: BaseCommand, _: bytes) -> Awaitable[None]:
        request = command.close_producer
        if (registration := self.pending_registrations.get(request.producer_id)) is not None:
            registration.cancel()
        producer = self.producers_by_id.get(request.producer_id)
        return self._close_after_receipts(producer, request.request_id)

    async def _close_after_receipts(self, producer: "Producer | None", request_id: int) -> None:
        if producer is not None:
            await producer.wait_until_settled()
            producer.leave()
        success = CommandSuccess(request_id=request_id)
        self.connection.send(BaseCommand(type=BaseCommand.SUCCESS, success=success))

    def _on_connection_closed(self) -> None:
        # Iterate over copies, because `cancel` and `leave` remove items from the dictionaries.
        for registration in list(self.pending_registrations.values()):
            registration.cancel()
        for producer in list(self.producers_by_id.values()):
            producer.leave()


class Producer:
    def __init__(
        self, client: Producers, producer_id: int, access_request: AccessRequest, topic: BrokerTopic
    ) -> None:
        """Raise `ProducerBusyError` if the topic already has a producer with that name."""
        self.name = access_request.name
        self._client = client
        self.connection = client.connection
        self._backpressure = client.connection.backpressure
        self._max_entry_size = client.broker.config.max_entry_size
        self.producer_id = producer_id
        self.access_mode = access_request.mode
        self.traffic = Traffic()
        self._access_request = access_request
        self._topic = topic
        self.publication = topic.publisher.attach(
            access_request.name, self._on_stored, self.disconnect
        )
        self._pending_sends = self._pending_bytes = 0
        self._settled: asyncio.Future[None] | None = None
        self._has_left = False
        self._rejection: BaseCommand | None = None
        # Reuse one command for all receipts, because creating one takes four times as long.
        self._receipt = BaseCommand(type=BaseCommand.SEND_RECEIPT)
        self._receipt.send_receipt.producer_id = producer_id
        topic.producers[self.name] = self
        client.producers_by_id[producer_id] = self
        access_request.disconnect = self.disconnect

    def send(self, request: CommandSend, message: bytes) -> None:
        if self._rejection is not None:
            return  # The client resends the message after it has registered again.
        try:
            self._check(request, message)
            completes = not request.is_chunk or completes_message(decode_metadata(message))
        except BrokerError as error:
            self._reject(request, error.code, str(error))
        except BKDigestMatchException as error:
            self._reject(request, ServerError.ChecksumError, str(error))
        else:
            self._pending_sends += 1
            self._pending_bytes += len(message)
            self._backpressure.add_message(len(message))
            self.publication.send(
                request.sequence_id,
                request.highest_sequence_id,
                message,
                message_count=request.num_messages,
                completes=completes,
            )

    def _check(self, request: CommandSend, message: bytes) -> None:
        """Raise `BrokerError` or `BKDigestMatchException` if the message cannot be stored."""
        if len(message) > self._max_entry_size:
            raise NotAllowedError(
                f"message of {len(message)} bytes exceeds the limit of {self._max_entry_size}"
            )
        if max(request.sequence_id, request.highest_sequence_id) > MAX_SEQUENCE_ID:
            raise NotAllowedError("sequence ids must not be negative")
        if request.HasField("txnid_least_bits"):
            raise NotAllowedError(NO_TRANSACTIONS)
        if not has_valid_checksum(message):
            raise BrokerError(ServerError.ChecksumError, "message checksum mismatch")
        here = (self._client.broker.cluster, _NOT_REPLICATED)
        clusters = map(text_of, replication_clusters(message))
        if others := [name for name in clusters if name not in here]:
            raise NotAllowedError(
                f"replicationClusters contains {', '.join(others)}, but {NO_REPLICATION}: unset it"
            )

    def leave(self) -> None:
        """Free the producer's name. Pending messages are still stored, but get no receipts."""
        if not self._has_left:
            self._has_left = True
            self.publication.detach()
            del self._topic.producers[self.name], self._client.producers_by_id[self.producer_id]
            self._remove_pending(self._pending_sends, self._pending_bytes)
            self._topic.access.release(self._access_request)

    def disconnect(self) -> None:
        if not self._has_left:
            self.leave()
            close = CommandCloseProducer(producer_id=self.producer_id, request_id=NO_REQUEST)
            command = BaseCommand(type=BaseCommand.CLOSE_PRODUCER, close_producer=close)
            self.connection.send(command)

    async def wait_until_settled(self) -> None:
        if self._pending_sends:
            self._settled = self._settled or asyncio.get_running_loop().create_future()
            await self._settled

    def _on_stored(self, stored: Sequence[Send]) -> None:
        command, frames, size_bytes, message_count = self._receipt, [], 0, 0
        receipt = command.send_receipt
        message_id = receipt.message_id
        for each in stored:
            receipt.sequence_id = each.sequence_id
            receipt.highest_sequence_id = each.highest_sequence_id
            ledger_id, entry_id = each.position
            message_id.ledgerId, message_id.entryId = ledger_id & UNSIGNED, entry_id & UNSIGNED
            frames.append(encode_frame(command))
            size_bytes += len(each.data)
            message_count += each.message_count
        self.traffic.add(message_count, size_bytes)
        self._topic.incoming.add(message_count, size_bytes)
        self.connection.send_frames(frames, 0)
        self._remove_pending(len(stored), size_bytes)
        self._send_rejection()

    def _reject(self, request: CommandSend, code: ServerError, text: str) -> None:
        """Reject a message, and close the producer once all earlier receipts have been sent.

        If the client received the rejection before these receipts, it would resend the message
        instead of dropping it.
        """
        error = CommandSendError(
            producer_id=self.producer_id,
            sequence_id=request.sequence_id,
            error=final_send_error(code, self.connection.client_version),
            message=f"{self.name}: {text}",
        )
        self._rejection = BaseCommand(type=BaseCommand.SEND_ERROR, send_error=error)
        self._send_rejection()

    def _send_rejection(self) -> None:
        if self._rejection is not None and not self._pending_sends:
            self.connection.send(self._rejection)
            self.disconnect()

    def _remove_pending(self, count: int, size_bytes: int) -> None:
        self._pending_sends -= count
        self._pending_bytes -= size_bytes
        self._backpressure.remove_messages(count, size_bytes)
        if self._settled is not None and not self._pending_sends:
            settled, self._settled = self._settled, None
            settled.set_result(None)


class ProducerRegistration:
    """A PRODUCER request in progress, until it fails, is cancelled, or its producer is attached.

    A request is cancelled when its client closes the producer or the connection, or sends another
    request with the same producer id. A cancelled request gets no response.
    """

    def __init__(self, client: Producers, request: CommandProducer) -> None:
        """Cancel an earlier pending request with the same producer id."""
        self._client = client
        self._connection = client.connection
        self._request = request
        self._release_access: Callable[[], None] = lambda: None
        if (earlier := client.pending_registrations.get(request.producer_id)) is not None:
            earlier.cancel()
        client.pending_registrations[request.producer_id] = self

    async def run(self) -> None:
        """Register the producer and send the response, or raise the error that rejects it."""
        try:
            await self._run()
        except LabkitError:
            if not self._is_pending:
                return  # The request was cancelled, so its client gets no response.
            self.cancel()
            raise

    def cancel(self) -> None:
        del self._client.pending_registrations[self._request.producer_id]
        self._release_access()

    async def _run(self) -> None:
        connection, request, broker = self._connection, self._request, self._client.broker
        if request.producer_name:
            check_name(request.producer_name, "producer")
        if request.initial_subscription_name:
            check_name(request.initial_subscription_name, "subscription")
        role = connection.role
        await broker.check_permission(role, request.topic, PRODUCE)
        topic = await broker.topic(request.topic)
        version = await broker.schemas.register(topic.name, request.schema)
        if subscription := request.initial_subscription_name:
            await broker.check_permission(role, request.topic, CONSUME, subscription=subscription)
            await topic.subscriptions.create(subscription)
        name = request.producer_name or await broker.producer_names.new()
        if not self._is_pending:
            return
        topic.check_accepts_producers()
        if (earlier := self._client.producers_by_id.get(request.producer_id)) is not None:
            earlier.leave()
        epoch = request.topic_epoch if request.HasField("topic_epoch") else None
        access_request = AccessRequest(name, request.producer_access_mode, epoch, connection.probe)
        self._release_access = partial(topic.access.release, access_request)
        await topic.access.acquire(access_request, partial(self._send_queued, name, version))
        # The topic may have been closed or terminated while this producer was queued.
        topic.check_accepts_producers()
        producer = self._attach(topic, access_request)
        del self._client.pending_registrations[request.producer_id]
        self._send_success(
            producer_name=name,
            last_sequence_id=producer.publication.last_sequence_id,
            schema_version=version,
            topic_epoch=topic.access.epoch,
        )

    def _attach(self, topic: BrokerTopic, access_request: AccessRequest) -> Producer:
        try:
            return Producer(self._client, self._request.producer_id, access_request, topic)
        except ProducerBusyError as error:
            if (other := topic.producers.get(access_request.name)) is not None:
                other.connection.probe()  # This may be the same producer on a stale connection.
            raise BrokerError(ServerError.ProducerBusy, str(error)) from None

    def _send_queued(self, name: str, version: bytes) -> None:
        """Tell the client that its producer is queued, and that another response will follow."""
        self._send_success(producer_name=name, schema_version=version, producer_ready=False)
        self._connection.stop_counting_request()

    def _send_success(self, **fields: Any) -> None:
        success = CommandProducerSuccess(request_id=self._request.request_id, **fields)
        command = BaseCommand(type=BaseCommand.PRODUCER_SUCCESS, producer_success=success)
        self._connection.send(command)

    @property
    def _is_pending(self) -> bool:
        """Whether the request has been neither completed nor cancelled."""
        return self._client.pending_registrations.get(self._request.producer_id) is self
