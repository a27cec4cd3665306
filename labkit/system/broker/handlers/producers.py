"""The producing half: a client's producers, their messages, their receipts.

Receipts go out in the order of a producer's sends.  When one send fails, the producer is closed at
once and its client notified: it registers again and sends again every message without a receipt.
Messages that it sent before it got the notice are ignored, so no message overtakes another.

In Pulsar: `broker/service/Producer.java`, `broker/service/ServerCnx.java`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from labkit.system.broker.access import ProducerPlace
from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.errors import BrokerError, refused_names
from labkit.system.broker.protocol.authorization import CONSUME, PRODUCE
from labkit.system.broker.protocol.connection import (
    MOST_OF_A_CONNECTION,
    ClientConnection,
    too_many,
)
from labkit.system.broker.protocol.frames import NO_REQUEST, UNSIGNED, encode_frame
from labkit.system.broker.protocol.refusals import (
    NO_REPLICATION,
    NO_TRANSACTIONS,
    final_send_error,
)
from labkit.system.broker.topics import BrokerTopic
from labkit.system.broker.traffic import Traffic
from labkit.system.model.errors import LabkitError
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
from labkit.system.topic.messages import is_whole, replication_clusters
from labkit.system.topic.names import check_name
from labkit.system.topic.producing.deduplication import LARGEST_SEQUENCE_ID
from labkit.system.topic.producing.publishing import ProducerBusyError, Send

_NOT_REPLICATED = "__local__"
"""The name that clients send for "no other cluster"."""


class Producers:
    """The producers of a client's connection, by the ids that the client gives them."""

    def __init__(self, broker: BrokerService, connection: ClientConnection) -> None:
        self.broker = broker
        self.connection = connection
        self.attached: dict[int, Producer] = {}
        self.registering: dict[int, ProducerRegistration] = {}
        """The newest request for each producer id, until it is granted."""
        connection.serve(
            {
                BaseCommand.PRODUCER: self._register,
                BaseCommand.SEND: self._send,
                BaseCommand.CLOSE_PRODUCER: self._close,
            }
        )
        connection.when_closed(self._leave)

    def _register(self, command: BaseCommand, _: bytes) -> Awaitable[None]:
        if len(self.attached) + len(self.registering) >= MOST_OF_A_CONNECTION:
            raise too_many(self.attached, "producers")
        # Kept before anything is awaited: a CLOSE_PRODUCER may come in the same receive.
        return ProducerRegistration(self, command.producer).run()

    def _send(self, command: BaseCommand, message: bytes) -> None:
        request = command.send
        producer = self.attached.get(request.producer_id)
        # A producer sends such messages again, once it has registered again.
        if producer is not None:
            producer.send(request, message)

    def _close(self, command: BaseCommand, _: bytes) -> Awaitable[None]:
        request = command.close_producer
        if (registration := self.registering.get(request.producer_id)) is not None:
            registration.give_up()
        producer = self.attached.get(request.producer_id)
        return self._close_when_settled(producer, request.request_id)

    async def _close_when_settled(self, producer: "Producer | None", request_id: int) -> None:
        if producer is not None:
            await producer.settled()
            producer.leave()
        success = CommandSuccess(request_id=request_id)
        self.connection.send(BaseCommand(type=BaseCommand.SUCCESS, success=success))

    def _leave(self) -> None:
        """Close all producers: the client is gone."""
        # Copies: each one that leaves is removed from its dictionary.
        for registration in list(self.registering.values()):
            registration.give_up()
        for producer in list(self.attached.values()):
            producer.leave()


class Producer:
    """A client's producer on a topic."""

    def __init__(
        self, client: Producers, producer_id: int, place: ProducerPlace, topic: BrokerTopic
    ) -> None:
        """Raises `ProducerBusyError` while the topic has a producer of that name."""
        self.name = place.name
        self._client = client
        self._connection = client.connection
        self._backpressure = client.connection.backpressure
        self._max_entry_size = client.broker.config.max_entry_size
        self.producer_id = producer_id
        self.access_mode = place.mode
        self.traffic = Traffic()
        self._place = place
        self._topic = topic
        self._attached = topic.publisher.attach(place.name, self._stored, self._dropped)
        self._pending = self._pending_bytes = 0
        self._settled: asyncio.Future[None] | None = None
        self._is_gone = False
        self._refusal: BaseCommand | None = None
        # One command, refilled for each receipt: creating one takes four times as long.
        self._receipt = BaseCommand(type=BaseCommand.SEND_RECEIPT)
        self._receipt.send_receipt.producer_id = producer_id
        topic.producers[self.name] = self
        client.attached[producer_id] = self
        place.disconnect = self.disconnect

    @property
    def last_sequence_id(self) -> int:
        """The highest sequence id of this producer that the topic knows; -1: none."""
        return self._attached.last_sequence_id

    def send(self, request: CommandSend, message: bytes) -> None:
        """Store a message; its receipt follows."""
        if self._refusal is not None:
            return  # The client sends it again, once it has registered again.
        size = len(message)
        sequence_id, highest = request.sequence_id, request.highest_sequence_id
        if size > self._max_entry_size:
            self._refuse(request, ServerError.NotAllowedError, f"a message of {size} bytes")
        elif sequence_id > LARGEST_SEQUENCE_ID or highest > LARGEST_SEQUENCE_ID:
            self._refuse(request, ServerError.NotAllowedError, "a sequence id below 0")
        elif request.HasField("txnid_least_bits"):
            self._refuse(request, ServerError.NotAllowedError, NO_TRANSACTIONS)
        elif not is_whole(message):
            self._refuse(request, ServerError.ChecksumError, "the message's checksum is wrong")
        elif others := self._other_clusters(message):
            self._refuse(
                request,
                ServerError.NotAllowedError,
                f"replicationClusters names {', '.join(others)}, but {NO_REPLICATION}; send it"
                " without",
            )
        else:
            self._pending += 1
            self._pending_bytes += size
            self._backpressure.add_message(size)
            self._attached.send(
                sequence_id,
                highest,
                message,
                message_count=request.num_messages,
                is_chunk=request.is_chunk,
            )

    def _other_clusters(self, message: bytes) -> list[str]:
        """The clusters that the message is to be replicated to."""
        here = (self._client.broker.cluster, _NOT_REPLICATED)
        return [name for name in replication_clusters(message) if name not in here]

    def leave(self) -> None:
        """Leave the topic, which frees the name.  Messages under way are still stored, but get no
        receipt.
        """
        if not self._is_gone:
            self._is_gone = True
            self._attached.detach()
            del self._topic.producers[self.name], self._client.attached[self.producer_id]
            self._forget(self._pending, self._pending_bytes)
            self._topic.access.leave(self._place)

    def disconnect(self) -> None:
        """Disconnect the producer: its client has to look the topic up again."""
        if not self._is_gone:
            self.leave()
            close = CommandCloseProducer(producer_id=self.producer_id, request_id=NO_REQUEST)
            command = BaseCommand(type=BaseCommand.CLOSE_PRODUCER, close_producer=close)
            self._connection.send(command)

    def probe(self) -> None:
        """Another producer wants its name: check that its client is alive."""
        self._connection.probe()

    async def settled(self) -> None:
        """Return when every message that came has its receipt."""
        if self._pending:
            self._settled = self._settled or asyncio.get_running_loop().create_future()
            await self._settled

    def _stored(self, stored: Sequence[Send]) -> None:
        if self._is_gone:
            return
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
        self._connection.send_frames(frames, 0)
        self._forget(len(stored), size_bytes)
        self._send_refusal()

    def _dropped(self, _: LabkitError) -> None:
        self.disconnect()

    def _refuse(self, request: CommandSend, code: ServerError, text: str) -> None:
        """Refuse a message when all earlier ones have their receipts, and close the producer.

        A client that gets the refusal before these receipts does not drop the message, but sends it
        again.
        """
        error = CommandSendError(
            producer_id=self.producer_id,
            sequence_id=request.sequence_id,
            error=final_send_error(code, self._connection.client_version),
            message=f"{self.name}: {text}",
        )
        self._refusal = BaseCommand(type=BaseCommand.SEND_ERROR, send_error=error)
        self._send_refusal()

    def _send_refusal(self) -> None:
        if self._refusal is not None and not self._pending:
            self._connection.send(self._refusal)
            self.disconnect()

    def _forget(self, count: int, size_bytes: int) -> None:
        self._pending -= count
        self._pending_bytes -= size_bytes
        self._backpressure.remove_messages(count, size_bytes)
        if self._settled is not None and not self._pending:
            settled, self._settled = self._settled, None
            settled.set_result(None)


class ProducerRegistration:
    """A request to register a producer, until it is granted, refused or given up."""

    def __init__(self, client: Producers, request: CommandProducer) -> None:
        """A request for a producer replaces the earlier one of the same id."""
        self._client = client
        self._connection = client.connection
        self._request = request
        self._is_over = False
        self._leave: Callable[[], None] = lambda: None
        if (earlier := client.registering.get(request.producer_id)) is not None:
            earlier.give_up()
        client.registering[request.producer_id] = self

    async def run(self) -> None:
        """Raises `BrokerError` when the producer is refused, and what `Broker.topic` raises."""
        try:
            await self._run()
        except LabkitError:
            if not self._is_over:
                self.give_up()
                raise

    def give_up(self) -> None:
        """Drop the request: the client withdrew it, or is gone."""
        self._end()
        self._leave()

    async def _run(self) -> None:
        connection, request, broker = self._connection, self._request, self._client.broker
        with refused_names():
            if request.producer_name:
                check_name(request.producer_name, "producer")
            if request.initial_subscription_name:
                check_name(request.initial_subscription_name, "subscription")
        await connection.check_may(request.topic, PRODUCE)
        topic = await broker.topic(request.topic)
        version = await broker.schemas.register(topic.name, request.schema)
        if subscription := request.initial_subscription_name:
            await connection.check_may(request.topic, CONSUME, subscription=subscription)
            await topic.subscriptions.create(subscription)
        name = request.producer_name or await broker.producer_names.new()
        if self._is_over:
            return
        topic.check_takes_producers()
        if (earlier := self._client.attached.get(request.producer_id)) is not None:
            earlier.leave()
        epoch = request.topic_epoch if request.HasField("topic_epoch") else None
        place = ProducerPlace(name, request.producer_access_mode, epoch, connection.probe)
        self._leave = partial(topic.access.leave, place)
        await topic.access.enter(place, partial(self._answer_queued, name, version))
        # Again: the topic may have been closed or terminated while this producer was queued.
        topic.check_takes_producers()
        producer = self._attach(topic, place)
        self._end()
        self._succeed(
            producer_name=name,
            last_sequence_id=producer.last_sequence_id,
            schema_version=version,
            topic_epoch=topic.access.epoch,
        )

    def _attach(self, topic: BrokerTopic, place: ProducerPlace) -> Producer:
        try:
            return Producer(self._client, self._request.producer_id, place, topic)
        except ProducerBusyError as error:
            if (other := topic.producers.get(place.name)) is not None:
                # The other one may be the same producer, whose old connection is still open.
                other.probe()
            raise BrokerError(ServerError.ProducerBusy, str(error)) from None

    def _answer_queued(self, name: str, version: bytes) -> None:
        """Answer that the producer is queued; its client then waits for a second answer."""
        self._succeed(producer_name=name, schema_version=version, producer_ready=False)
        self._connection.stop_counting_request()

    def _succeed(self, **fields: Any) -> None:
        success = CommandProducerSuccess(request_id=self._request.request_id, **fields)
        command = BaseCommand(type=BaseCommand.PRODUCER_SUCCESS, producer_success=success)
        self._connection.send(command)

    def _end(self) -> None:
        self._is_over = True
        registering = self._client.registering
        # A later request for the same id may have replaced this one.
        if registering.get(self._request.producer_id) is self:
            del registering[self._request.producer_id]
