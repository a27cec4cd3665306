"""Responses to unsupported requests, so that clients do not wait forever.

Producers and consumers on the same connection are not affected.

In Pulsar: `broker/service/ServerCnx.java`, with `transactionCoordinatorEnabled=false`.
"""

from labkit.system.broker.errors import NotAllowedError
from labkit.system.broker.protocol.connection import ClientConnection, ServerHandlers
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandConsumerStatsResponse,
    ServerError,
)

NO_TRANSACTIONS = "transactions are not supported; disable them in the client"
NO_REPLICATION = "geo-replication is not supported"
_COORDINATOR_TOPIC = "persistent://pulsar/system/transaction_coordinator_assign"


def check_no_transactions(topic: str) -> None:
    """Raise `BrokerError` for the topic that clients look up to find a transaction coordinator."""
    if topic.startswith(_COORDINATOR_TOPIC):
        raise NotAllowedError(NO_TRANSACTIONS)


def final_send_error(code: ServerError, client_version: str) -> ServerError:
    """Return the SEND_ERROR code that makes this client drop the message.

    Pulsar's C++ client, on which the Python client is built, drops the message only after
    ChecksumError. After any other code, it reconnects and resends the message forever.
    """
    return ServerError.ChecksumError if client_version.startswith("Pulsar-CPP") else code


def _reject_transactions(*_: object) -> None:
    raise NotAllowedError(NO_TRANSACTIONS)


def _reject_watches(*_: object) -> None:
    raise NotAllowedError(
        "topic-list watches are not supported; poll the list, as pattern consumers do every minute"
    )


def _reject_statistics(
    broker: object, connection: ClientConnection, command: BaseCommand, _: bytes
) -> None:
    """Send a response of the type that the C++ client waits for. It ignores all other responses."""
    response = CommandConsumerStatsResponse(
        request_id=command.consumerStats.request_id,
        error_code=ServerError.NotAllowedError,
        error_message="consumer statistics are not supported",
    )
    kind = BaseCommand.CONSUMER_STATS_RESPONSE
    connection.send(BaseCommand(type=kind, consumerStatsResponse=response))


UNSUPPORTED_HANDLERS: ServerHandlers = {
    BaseCommand.NEW_TXN: _reject_transactions,
    BaseCommand.ADD_PARTITION_TO_TXN: _reject_transactions,
    BaseCommand.ADD_SUBSCRIPTION_TO_TXN: _reject_transactions,
    BaseCommand.END_TXN: _reject_transactions,
    BaseCommand.END_TXN_ON_PARTITION: _reject_transactions,
    BaseCommand.END_TXN_ON_SUBSCRIPTION: _reject_transactions,
    BaseCommand.TC_CLIENT_CONNECT_REQUEST: _reject_transactions,
    BaseCommand.WATCH_TOPIC_LIST: _reject_watches,
    BaseCommand.WATCH_TOPIC_LIST_CLOSE: _reject_watches,
    BaseCommand.CONSUMER_STATS: _reject_statistics,
}
