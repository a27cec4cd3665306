"""Lists a namespace's topics, so that clients can subscribe to topics by pattern.

As in Pulsar, a partitioned topic is listed as its individual partitions; clients strip the suffix.
Names that begin with two underscores belong to system topics.

In Pulsar: `broker/namespace/NamespaceService.java` (`getListOfPersistentTopics`).
"""

from functools import partial

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.errors import invalid_names_as_broker_errors
from labkit.system.broker.protocol.authorization import CONSUME
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.metadata.store import MetadataStore, NoNodeError
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, CommandGetTopicsOfNamespace
from labkit.system.topic.names import check_namespace, decode_name


async def topics_of(store: MetadataStore, namespace: str) -> list[str]:
    """Return the sorted full names of topics and partitions. Raises `BrokerError` if `namespace`
    is not a valid `tenant/namespace`.
    """
    names = await _names(store, "/managed-ledgers", namespace)
    return [f"persistent://{namespace}/{name}" for name in names if not name.startswith("__")]


async def partitioned_topics_of(store: MetadataStore, namespace: str) -> list[str]:
    """Return the sorted full names of partitioned topics.

    Raises the same exceptions as `topics_of`.
    """
    names = await _names(store, "/admin/partitioned-topics", namespace)
    return [f"persistent://{namespace}/{name}" for name in names]


async def _names(store: MetadataStore, root: str, namespace: str) -> list[str]:
    with invalid_names_as_broker_errors():
        check_namespace(namespace)
    try:
        children = await store.children(f"{root}/{namespace}/persistent")
    except NoNodeError:
        return []
    return sorted(decode_name(child) for child in children)


async def _topics_of_namespace(
    broker: BrokerService, connection: ClientConnection, command: BaseCommand, _: bytes
) -> None:
    request = command.getTopicsOfNamespace
    with invalid_names_as_broker_errors():
        check_namespace(request.namespace)
    if (authorization := broker.authorization) is not None:
        await authorization.check_namespace(connection.role, request.namespace, CONSUME)
    response = BaseCommand(type=BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE)
    response.getTopicsOfNamespaceResponse.request_id = request.request_id
    if request.mode != CommandGetTopicsOfNamespace.NON_PERSISTENT:
        names = await topics_of(broker.store, request.namespace)
        response.getTopicsOfNamespaceResponse.topics.extend(names)
    connection.send(response)


def register_namespace_handlers(broker: BrokerService, connection: ClientConnection) -> None:
    response = partial(_topics_of_namespace, broker, connection)
    connection.register_handlers({BaseCommand.GET_TOPICS_OF_NAMESPACE: response})
