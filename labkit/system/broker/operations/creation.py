"""An administrator's requests to a broker: create, grow, delete, inspect topics.

Partitions and policies are in the metadata store, and any broker may change them. Requests about
the topic itself go to the broker that serves it.

In Pulsar: `broker/admin/impl/PersistentTopicsBase.java`, `NamespacesBase.java`.
"""

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.errors import BrokerError
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.names import (
    managed_ledger_path,
    partition_of,
    partitions_path,
)


async def create_topic(broker: BrokerService, topic: str) -> None:
    """Create a topic without partitions, which this broker serves, or one partition.

    Raises `BrokerError` if there is a topic of that name, with partitions or without.
    """
    for path in (managed_ledger_path(topic), partitions_path(topic)):
        if await broker.store.exists(path):
            raise BrokerError(ServerError.NotAllowedError, f"the topic {topic} exists")
    if partition_of(topic) >= 0:
        await broker.create(topic)
    await broker.topic(topic)
