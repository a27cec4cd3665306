"""Handlers for lookups: how many partitions a topic has, and which broker serves it.

A client can send a lookup to any broker. If no broker owns the topic, the client is redirected to a
broker chosen by the topic's bundle, which spreads the bundles over the live brokers. The chosen
broker acquires the topic when it receives the client's lookup.

In Pulsar: `broker/lookup/TopicLookupBase.java`, `broker/namespace/NamespaceService.java`.
"""

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.errors import NotAllowedError
from labkit.system.broker.protocol.authorization import CONSUME, PRODUCE
from labkit.system.broker.protocol.connection import ClientConnection, ServerHandlers
from labkit.system.broker.protocol.unsupported import check_no_transactions
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
)


async def _partitioned_metadata(
    broker: BrokerService, connection: ClientConnection, command: BaseCommand, _: bytes
) -> None:
    request = command.partitionMetadata
    response = CommandPartitionedTopicMetadataResponse(request_id=request.request_id)
    try:
        connection.check_identified()
        check_no_transactions(request.topic)
        await broker.check_permission(connection.role, request.topic, PRODUCE, CONSUME)
        response.partitions = await broker.partition_count(
            request.topic, create=request.metadata_auto_creation_enabled
        )
        response.response = response.Success
    except LabkitError as error:
        response.response = response.Failed
        response.error, response.message = connection.error_response(error)
    connection.send(
        BaseCommand(
            type=BaseCommand.PARTITIONED_METADATA_RESPONSE, partitionMetadataResponse=response
        )
    )


async def _lookup(
    broker: BrokerService, connection: ClientConnection, command: BaseCommand, _: bytes
) -> None:
    request = command.lookupTopic
    response = CommandLookupTopicResponse(request_id=request.request_id)
    try:
        connection.check_identified()
        if listener := request.advertised_listener_name:
            raise NotAllowedError(
                f"listener {listener!r} does not exist; connect without a listener name"
            )
        await broker.check_permission(connection.role, request.topic, PRODUCE, CONSUME)
        address, serves = await broker.look_up(request.topic, authoritative=request.authoritative)
        response.response = response.Connect if serves else response.Redirect
        response.authoritative = True
        response.brokerServiceUrl = address.service_url
        if address.service_url_tls:
            response.brokerServiceUrlTls = address.service_url_tls
    except LabkitError as error:
        response.response = response.Failed
        response.error, response.message = connection.error_response(error)
    connection.send(BaseCommand(type=BaseCommand.LOOKUP_RESPONSE, lookupTopicResponse=response))


LOOKUP_HANDLERS: ServerHandlers = {
    BaseCommand.PARTITIONED_METADATA: _partitioned_metadata,
    BaseCommand.LOOKUP: _lookup,
}
