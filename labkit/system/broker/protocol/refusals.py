"""Requests that this broker does not serve: each is answered, so that its client need not wait.

A client learns from CONNECTED, or from the first of these answers, which features are missing; its
producers and consumers on the same connection go on.

In Pulsar: `broker/service/ServerCnx.java`, with `transactionCoordinatorEnabled=false`.
"""

from functools import partial

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.connection import ClientConnection, Handlers
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, ServerError

NO_TRANSACTIONS = "transactions are not served here; connect without them"
NO_REPLICATION = "geo-replication is not supported here"
_COORDINATORS = "persistent://pulsar/system/transaction_coordinator_assign"


def check_no_transactions(topic: str) -> None:
    """Raises `BrokerError` for the topic by which a client looks for transactions."""
    if topic.startswith(_COORDINATORS):
        raise BrokerError(ServerError.NotAllowedError, NO_TRANSACTIONS)


def final_send_error(code: ServerError, client_version: str) -> ServerError:
    """Return the code of a SEND_ERROR after which this client gives the message up.

    Pulsar's C++ client, which that for Python is built on, does so for ChecksumError only: after
    any other code it reconnects and sends the message again, forever.
    """
    return ServerError.ChecksumError if client_version.startswith("Pulsar-CPP") else code


def _refuse_transactions(command: BaseCommand, _: bytes) -> None:
    raise BrokerError(ServerError.NotAllowedError, NO_TRANSACTIONS)


def _refuse_watches(command: BaseCommand, _: bytes) -> None:
    raise BrokerError(
        ServerError.NotAllowedError,
        "lists of topics are not watched here; ask for them again, as patterns do every minute",
    )


def _refuse_statistics(connection: ClientConnection, command: BaseCommand, _: bytes) -> None:
    """The C++ client waits for an answer of this type, and takes no other."""
    answer = BaseCommand(type=BaseCommand.CONSUMER_STATS_RESPONSE)
    response = answer.consumerStatsResponse
    response.request_id = command.consumerStats.request_id
    response.error_code = ServerError.NotAllowedError
    response.error_message = "statistics are not kept here"
    connection.send(answer)


_REFUSALS: Handlers = {
    BaseCommand.NEW_TXN: _refuse_transactions,
    BaseCommand.ADD_PARTITION_TO_TXN: _refuse_transactions,
    BaseCommand.ADD_SUBSCRIPTION_TO_TXN: _refuse_transactions,
    BaseCommand.END_TXN: _refuse_transactions,
    BaseCommand.END_TXN_ON_PARTITION: _refuse_transactions,
    BaseCommand.END_TXN_ON_SUBSCRIPTION: _refuse_transactions,
    BaseCommand.TC_CLIENT_CONNECT_REQUEST: _refuse_transactions,
    BaseCommand.WATCH_TOPIC_LIST: _refuse_watches,
    BaseCommand.WATCH_TOPIC_LIST_CLOSE: _refuse_watches,
}


def serve_refusals(connection: ClientConnection) -> None:
    """Answer the requests that this broker does not serve."""
    connection.serve(_REFUSALS)
    connection.serve({BaseCommand.CONSUMER_STATS: partial(_refuse_statistics, connection)})
