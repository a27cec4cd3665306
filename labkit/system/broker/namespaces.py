"""Topics of a namespace, for clients that subscribe to a pattern.

A partitioned topic is listed by its partitions, as Pulsar does; clients strip the suffix.  Names
that begin with two underscores are the system's own.

In Pulsar: `broker/namespace/NamespaceService.java` (`getListOfPersistentTopics`).
"""

from functools import partial

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.errors import refused_names
from labkit.system.broker.protocol.authorization import CONSUME
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.metadata.store import MetadataStore, NoNodeError
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, CommandGetTopicsOfNamespace
from labkit.system.topic.names import check_namespace, decoded


async def topics_of(store: MetadataStore, namespace: str) -> list[str]:
    """Full names of the topics and partitions of `tenant/namespace` that have been used, sorted.

    Raises `BrokerError`.
    """
    names = await _names(store, "/managed-ledgers", namespace)
    return [f"persistent://{namespace}/{name}" for name in names if not name.startswith("__")]


async def partitioned_topics_of(store: MetadataStore, namespace: str) -> list[str]:
    """Full names of the partitioned topics, without their partitions, sorted.

    Raises `BrokerError`.
    """
    names = await _names(store, "/admin/partitioned-topics", namespace)
    return [f"persistent://{namespace}/{name}" for name in names]


async def _names(store: MetadataStore, root: str, namespace: str) -> list[str]:
    with refused_names():
        check_namespace(namespace)
    try:
        children = await store.children(f"{root}/{namespace}/persistent")
    except NoNodeError:
        return []
    return sorted(decoded(child) for child in children)


async def _topics_of_namespace(
    broker: BrokerService, connection: ClientConnection, command: BaseCommand, _: bytes
) -> None:
    request = command.getTopicsOfNamespace
    with refused_names():
        check_namespace(request.namespace)
    if (authorization := broker.authorization) is not None:
        await authorization.check_namespace(connection.role, request.namespace, CONSUME)
    answer = BaseCommand(type=BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE)
    answer.getTopicsOfNamespaceResponse.request_id = request.request_id
    if request.mode != CommandGetTopicsOfNamespace.NON_PERSISTENT:
        names = await topics_of(broker.store, request.namespace)
        answer.getTopicsOfNamespaceResponse.topics.extend(names)
    connection.send(answer)


def serve_namespaces(broker: BrokerService, connection: ClientConnection) -> None:
    """Answer a client that asks for the topics of a namespace."""
    answer = partial(_topics_of_namespace, broker, connection)
    connection.serve({BaseCommand.GET_TOPICS_OF_NAMESPACE: answer})
