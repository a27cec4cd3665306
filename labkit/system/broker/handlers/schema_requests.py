"""Handlers for schema commands.

In Pulsar: `broker/service/ServerCnx.java`.
"""

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.protocol.authorization import CONSUME, PRODUCE
from labkit.system.broker.protocol.connection import ClientConnection, ServerHandlers
from labkit.system.broker.schemas.registry import encode_version
from labkit.system.broker.topics import BrokerTopic
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, Schema
from labkit.system.topic.names import full_name


async def _get_schema(
    broker: BrokerService, connection: ClientConnection, command: BaseCommand, _: bytes
) -> None:
    request = command.getSchema
    reply = BaseCommand(type=BaseCommand.GET_SCHEMA_RESPONSE)
    response = reply.getSchemaResponse
    response.request_id = request.request_id
    try:
        await broker.check_permission(connection.role, request.topic, PRODUCE, CONSUME)
        version = request.schema_version if request.HasField("schema_version") else None
        found = await broker.schemas.get(request.topic, version)
        response.schema_version = encode_version(found.number)
        response.schema.CopyFrom(found.schema)
    except LabkitError as error:
        response.error_code, response.error_message = connection.error_response(error)
    connection.send(reply)


async def _get_or_create_schema(
    broker: BrokerService, connection: ClientConnection, command: BaseCommand, _: bytes
) -> None:
    request = command.getOrCreateSchema
    reply = BaseCommand(type=BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE)
    response = reply.getOrCreateSchemaResponse
    response.request_id = request.request_id
    try:
        await broker.check_permission(connection.role, request.topic, PRODUCE)
        await broker.check_exists(request.topic)
        name = full_name(request.topic)
        response.schema_version = await broker.schemas.register(name, request.schema)
    except LabkitError as error:
        response.error_code, response.error_message = connection.error_response(error)
    connection.send(reply)


async def check_consumer_schema(broker: BrokerService, topic: BrokerTopic, schema: Schema) -> None:
    """Check a schema as in `Schemas.check_consumer`."""
    consumers = (
        each for subscription in topic.subscriptions.all for each in subscription.consumers
    )
    has_clients = topic.producers or not all(each.accepts_any_schema for each in consumers)
    has_messages = any(link.entry_count for link in topic.ledger.ledgers)
    is_idle = not has_clients and not has_messages
    await broker.schemas.check_consumer(topic.name, schema, is_idle=is_idle)


SCHEMA_HANDLERS: ServerHandlers = {
    BaseCommand.GET_SCHEMA: _get_schema,
    BaseCommand.GET_OR_CREATE_SCHEMA: _get_or_create_schema,
}
