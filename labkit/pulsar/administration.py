"""An administrator's requests to a broker: create, grow, delete, inspect topics.

Partitions and policies are in the metadata store, and any broker may change them. Requests about
the topic itself go to the broker that serves it.

In Pulsar: `broker/admin/impl/PersistentTopicsBase.java`, `NamespacesBase.java`.
"""

import json
from collections.abc import Callable
from typing import Any

from labkit.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
)
from labkit.model.proto.pulsar_pb2 import ServerError
from labkit.pulsar.broker_service import BrokerService
from labkit.pulsar.errors import BrokerError
from labkit.pulsar.policies import policies_path, stored_policies
from labkit.topic.names import (
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


async def read_policy(store: MetadataStore, namespace: str, key: str) -> object:
    """The namespace's policy of that name; None if it has none."""
    policies, _ = await stored_policies(store, namespace)
    return policies.get(key)


async def write_policy(store: MetadataStore, namespace: str, key: str, value: object) -> None:
    """Set a policy; None removes it.  It applies to topics opened from then on."""
    await change_policy(store, namespace, key, lambda _: value)


async def change_policy(
    store: MetadataStore, namespace: str, key: str, change: Callable[[Any], object]
) -> None:
    """Like `write_policy`; `change` gets the current value, None if there is none."""
    while True:
        policies, version = await stored_policies(store, namespace)
        value = change(policies.get(key))
        changed = {name: each for name, each in policies.items() if name != key}
        if value is not None:
            changed[key] = value
        data = json.dumps(changed).encode()
        try:
            if version is None:
                await store.create(policies_path(namespace), data)
            else:
                await store.set(policies_path(namespace), data, version)
        except (NodeExistsError, BadVersionError, NoNodeError):
            continue  # Another change came first: apply this one on top of it.
        return
