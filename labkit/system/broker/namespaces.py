"""Lists a namespace's topics, so that clients can subscribe to topics by pattern.

As in Pulsar, a partitioned topic is listed as its individual partitions, and clients remove the
suffix. Names that begin with two underscores belong to system topics.

In Pulsar: `broker/namespace/NamespaceService.java` (`getListOfPersistentTopics`).
"""

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.protocol.authorization import CONSUME
from labkit.system.broker.protocol.connection import ClientConnection, ServerHandlers
from labkit.system.metadata.store import MetadataStore, NoNodeError
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, CommandGetTopicsOfNamespace
from labkit.system.topic.names import check_namespace, decode_name


async def topics_of(store: MetadataStore, namespace: str) -> list[str]:
    names = await _names(store, "/managed-ledgers", namespace)
    return [f"persistent://{namespace}/{name}" for name in names if not name.startswith("__")]


async def partitioned_topics_of(store: MetadataStore, namespace: str) -> list[str]:
    names = await _names(store, "/admin/partitioned-topics", namespace)
    return [f"persistent://{namespace}/{name}" for name in names]


async def _names(store: MetadataStore, root: str, namespace: str) -> list[str]:
    try:
        children = await store.children(f"{root}/{namespace}/persistent")
    except NoNodeError:
        return []
    return sorted(decode_name(child) for child in children)


async def _topics_of_namespace(
    broker: BrokerService, connection: ClientConnection, command: BaseCommand, _: bytes
) -> None:
    request = command.getTopicsOfNamespace
    check_namespace(request.namespace)
    if (authorization := broker.authorization) is not None:
        await authorization.check_namespace(connection.role, request.namespace, CONSUME)
    response = BaseCommand(type=BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE)
    response.getTopicsOfNamespaceResponse.request_id = request.request_id
    if request.mode != CommandGetTopicsOfNamespace.NON_PERSISTENT:
        names = await topics_of(broker.store, request.namespace)
        response.getTopicsOfNamespaceResponse.topics.extend(names)
    connection.send(response)


NAMESPACE_HANDLERS: ServerHandlers = {BaseCommand.GET_TOPICS_OF_NAMESPACE: _topics_of_namespace}
