"""Lookups: how many partitions a topic has, and which broker serves it.

A client asks any broker.  A topic that no broker serves goes to the broker that its bundle selects,
so that bundles are spread over the live brokers; the selected broker takes the topic when it is
asked.

In Pulsar: `broker/lookup/TopicLookupBase.java`, `broker/namespace/NamespaceService.java`.
"""

from functools import partial

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.authorization import CONSUME, PRODUCE
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.protocol.refusals import check_no_transactions
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
    ServerError,
)


async def _partitioned_metadata(
    broker: BrokerService, connection: ClientConnection, command: BaseCommand, _: bytes
) -> None:
    request = command.partitionMetadata
    answer = CommandPartitionedTopicMetadataResponse(request_id=request.request_id)
    try:
        connection.check_identified()
        check_no_transactions(request.topic)
        await connection.check_may(request.topic, PRODUCE, CONSUME)
        answer.partitions = await broker.partition_count(
            request.topic, create=request.metadata_auto_creation_enabled
        )
        answer.response = CommandPartitionedTopicMetadataResponse.Success
    except LabkitError as error:
        answer.response = CommandPartitionedTopicMetadataResponse.Failed
        answer.error, answer.message = connection.refusal(error)
    connection.send(
        BaseCommand(
            type=BaseCommand.PARTITIONED_METADATA_RESPONSE, partitionMetadataResponse=answer
        )
    )


async def _lookup(
    broker: BrokerService, connection: ClientConnection, command: BaseCommand, _: bytes
) -> None:
    request = command.lookupTopic
    answer = CommandLookupTopicResponse(request_id=request.request_id)
    try:
        connection.check_identified()
        _check_listener(request.advertised_listener_name)
        await connection.check_may(request.topic, PRODUCE, CONSUME)
        there, serves = await broker.find(request.topic, authoritative=request.authoritative)
        kind = CommandLookupTopicResponse
        answer.response = kind.Connect if serves else kind.Redirect
        answer.authoritative = True
        answer.brokerServiceUrl = there.service_url
        if there.service_url_tls:
            answer.brokerServiceUrlTls = there.service_url_tls
    except LabkitError as error:
        answer.response = CommandLookupTopicResponse.Failed
        answer.error, answer.message = connection.refusal(error)
    connection.send(BaseCommand(type=BaseCommand.LOOKUP_RESPONSE, lookupTopicResponse=answer))


def _check_listener(name: str) -> None:
    if name:
        raise BrokerError(
            ServerError.NotAllowedError,
            f"no broker here has a listener {name!r}; connect without a name of a listener",
        )


def serve_lookups(broker: BrokerService, connection: ClientConnection) -> None:
    """Answer a client's requests for the places of topics."""
    connection.serve(
        {
            BaseCommand.PARTITIONED_METADATA: partial(_partitioned_metadata, broker, connection),
            BaseCommand.LOOKUP: partial(_lookup, broker, connection),
        }
    )
