"""Builds the commands of a Pulsar consumer. `consumer_id` identifies the consumer on its
connection. `TopicConnection.ask` adds the request ids.
"""

from collections.abc import Callable, Mapping, Sequence

from labkit.system.broker.positions import EARLIEST
from labkit.system.broker.protocol.frames import message_id_data
from labkit.system.model.message_id import MessageId
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandFlow,
    CommandGetLastMessageId,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandSubscribe,
    CommandUnsubscribe,
    MessageIdData,
)
from labkit.system.topic.chain.ledger_chain import Position


def subscribe(
    consumer_id: int, consumer_name: str, topic: str, subscription: str, subscription_type: str
) -> BaseCommand:
    """Build a subscribe request. A new subscription starts at the first message."""
    request = CommandSubscribe(
        topic=topic,
        subscription=subscription,
        subType=subscription_type,
        consumer_id=consumer_id,
        consumer_name=consumer_name,
        initialPosition=CommandSubscribe.Earliest,
    )
    return BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=request)


def read(
    consumer_id: int, consumer_name: str, topic: str, subscription: str, start: MessageId
) -> BaseCommand:
    """Build the subscribe request of a reader, which starts at this message and has no durable
    cursor.
    """
    command = subscribe(consumer_id, consumer_name, topic, subscription, "Exclusive")
    command.subscribe.durable = False
    message_id = message_id_data((start.ledger_id, start.entry_id))
    command.subscribe.start_message_id.CopyFrom(message_id)
    return command


def flow(consumer_id: int, permits: int) -> BaseCommand:
    """Build the command that grants the given number of additional permits."""
    request = CommandFlow(consumer_id=consumer_id, messagePermits=permits)
    return BaseCommand(type=BaseCommand.FLOW, flow=request)


def acknowledge(
    consumer_id: int, message_ids: Sequence[MessageIdData], *, is_cumulative: bool
) -> BaseCommand:
    """Build an acknowledgement of these entries or batch parts, or of everything up to them."""
    request = CommandAck(
        consumer_id=consumer_id,
        ack_type=CommandAck.Cumulative if is_cumulative else CommandAck.Individual,
        message_id=message_ids,
    )
    return BaseCommand(type=BaseCommand.ACK, ack=request)


def redeliver(consumer_id: int, positions: Sequence[Position], epoch: int) -> BaseCommand:
    """Build a request to redeliver these entries (empty list: all unacknowledged entries)."""
    request = CommandRedeliverUnacknowledgedMessages(
        consumer_id=consumer_id,
        message_ids=map(message_id_data, positions),
        consumer_epoch=epoch,
    )
    return BaseCommand(
        type=BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES,
        redeliverUnacknowledgedMessages=request,
    )


def get_last_message_id(consumer_id: int) -> BaseCommand:
    """Build a request for the topic's last message id and the subscription's mark-delete point."""
    request = CommandGetLastMessageId(consumer_id=consumer_id)
    return BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID, getLastMessageId=request)


def _seek_to_first(consumer_id: int) -> BaseCommand:
    request = CommandSeek(consumer_id=consumer_id, message_id=message_id_data(EARLIEST))
    return BaseCommand(type=BaseCommand.SEEK, seek=request)


def _unsubscribe(consumer_id: int) -> BaseCommand:
    request = CommandUnsubscribe(consumer_id=consumer_id)
    return BaseCommand(type=BaseCommand.UNSUBSCRIBE, unsubscribe=request)


START_OVER: Mapping[str, Callable[[int], BaseCommand]] = {
    "seek": _seek_to_first,
    "unsubscribe": _unsubscribe,
}
"""The commands that reset a subscription, by name. Each is built from a consumer id."""
