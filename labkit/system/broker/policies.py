"""A namespace's settings that override the broker's configuration, kept in the metadata store.

    /admin/policies/<tenant>/<namespace>     JSON: Pulsar's `Policies`; keys without effect here
                                             are kept

A topic uses deduplicationEnabled, retention_policies, message_ttl_in_seconds and backlog_quota_map,
clients use auth_policies (`authorization`).

In Pulsar: `common/policies/data/Policies.java`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from labkit.system.broker.errors import BrokerError
from labkit.system.metadata.store import BadVersionError, MetadataStore, NoNodeError
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.config import UNLIMITED, ManagedLedgerConfig

_MINUTE_MS = 60 * 1000
_SECOND_MS = 1000
_MEBIBYTE = 1024 * 1024

RETENTION = "retention_policies"
DEDUPLICATION = "deduplicationEnabled"
MESSAGE_TTL = "message_ttl_in_seconds"


@dataclass(frozen=True, slots=True)
class Policies:
    """The settings of a topic; messages older than `message_ttl_ms` expire, with 0 none does."""

    deduplication_enabled: bool
    message_ttl_ms: int
    managed_ledger: ManagedLedgerConfig


def policies_path(name: str) -> str:
    """The node that holds the policies of a `tenant/namespace`, or of a tenant."""
    return f"/admin/policies/{name}"


async def stored_policies(store: MetadataStore, name: str) -> tuple[dict[str, Any], int | None]:
    """The policies of a namespace, or of a tenant, and their node's version; None: no node."""
    try:
        data, version = await store.get(policies_path(name))
    except NoNodeError:
        return {}, None
    return json.loads(data or b"{}"), version


async def namespace_policies(store: MetadataStore, namespace: str) -> dict[str, Any]:
    """Return the stored policies.  Raises `BrokerError` if the namespace does not exist."""
    return (await _existing(store, namespace))[0]


async def check_namespace_exists(store: MetadataStore, namespace: str) -> None:
    """Raises `BrokerError` if the namespace does not exist, or is being deleted."""
    await _existing(store, namespace)


async def _existing(store: MetadataStore, namespace: str) -> tuple[dict[str, Any], int]:
    policies, version = await stored_policies(store, namespace)
    if version is None or policies.get("deleted"):
        raise BrokerError(
            ServerError.TopicNotFound,
            f"the namespace {namespace} does not exist; create it, as with"
            f" pulsar-admin namespaces create {namespace}",
        )
    return policies, version


async def change_policy(
    store: MetadataStore, namespace: str, key: str, change: Callable[[Any], object]
) -> None:
    """Replace a policy by what `change` makes of its current value; None stands for no policy.

    Raises `BrokerError` if the namespace does not exist, and what `change` raises.
    """
    while True:
        policies, version = await _existing(store, namespace)
        value = change(policies.get(key))
        changed = {name: each for name, each in policies.items() if name != key}
        if value is not None:
            changed[key] = value
        try:
            await store.set(policies_path(namespace), json.dumps(changed).encode(), version)
        except (BadVersionError, NoNodeError):
            continue  # Another change came first: apply this one on top of it.
        return


async def read_policies(store: MetadataStore, namespace: str, defaults: Policies) -> Policies:
    """The settings of a namespace's topics.  Raises `BrokerError` if it does not exist."""
    wanted = await namespace_policies(store, namespace)
    deduplication_enabled = wanted.get(DEDUPLICATION)
    if deduplication_enabled is None:
        deduplication_enabled = defaults.deduplication_enabled
    message_ttl_ms = defaults.message_ttl_ms
    if (ttl_s := wanted.get(MESSAGE_TTL)) is not None:
        message_ttl_ms = ttl_s * _SECOND_MS
    managed_ledger = defaults.managed_ledger
    if retention := wanted.get(RETENTION):
        managed_ledger = replace(
            managed_ledger,
            retention_time_ms=_scaled(retention["retentionTimeInMinutes"], _MINUTE_MS),
            retention_size_bytes=_scaled(retention["retentionSizeInMB"], _MEBIBYTE),
        )
    return Policies(deduplication_enabled, message_ttl_ms, managed_ledger)


def _scaled(number: int, unit: int) -> int:
    return UNLIMITED if number < 0 else number * unit
