"""Namespace policies from the metadata store, which override the broker's configuration.

    /admin/policies/<tenant>/<namespace>     JSON: Pulsar's `Policies`; unsupported keys are
                                             preserved

Topics use deduplicationEnabled, retention_policies and message_ttl_in_seconds; `authorization` uses
auth_policies.

In Pulsar: `common/policies/data/Policies.java`.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from labkit.system.broker.errors import BrokerError
from labkit.system.metadata.json_node import decode_json_object
from labkit.system.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
)
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
    """The settings of a topic; `message_ttl_ms` is 0 if messages do not expire."""

    deduplication_enabled: bool
    message_ttl_ms: int
    managed_ledger: ManagedLedgerConfig


def policies_path(name: str) -> str:
    return f"/admin/policies/{name}"


async def stored_policies(store: MetadataStore, name: str) -> tuple[dict[str, Any], int | None]:
    """Return the policies of a tenant or namespace, and the version of their znode.

    The version is None if there is no znode. Raises `BKMetadataSerializationException`.
    """
    path = policies_path(name)
    try:
        data, version = await store.get(path)
    except NoNodeError:
        return {}, None
    return decode_json_object(data or b"{}", f"the znode {path}"), version


async def namespace_policies(store: MetadataStore, namespace: str) -> dict[str, Any]:
    """Raise `BrokerError` if the namespace does not exist or is being deleted."""
    policies, version = await stored_policies(store, namespace)
    _check_exists(namespace, None if version is None else policies)
    return policies


async def check_namespace_exists(store: MetadataStore, namespace: str) -> None:
    await namespace_policies(store, namespace)


def _check_exists(namespace: str, policies: dict[str, Any] | None) -> None:
    if policies is None or policies.get("deleted"):
        raise BrokerError(
            ServerError.TopicNotFound,
            f"namespace {namespace} does not exist; create it with"
            f" pulsar-admin namespaces create {namespace}",
        )


async def change_policy(
    store: MetadataStore, namespace: str, key: str, change: Callable[[Any], object]
) -> None:
    """Replace a policy with the result of `change`, which is called with the current value.

    None stands for an unset policy. Raises the same exceptions as `namespace_policies` and
    `change`.
    """

    def changed(policies: dict[str, Any] | None) -> dict[str, Any]:
        _check_exists(namespace, policies)
        value = change((policies or {}).get(key))
        others = {name: each for name, each in (policies or {}).items() if name != key}
        return others if value is None else {**others, key: value}

    await change_policies(store, namespace, changed)


async def change_policies(
    store: MetadataStore,
    name: str,
    change: Callable[[dict[str, Any] | None], Mapping[str, Any] | None],
) -> None:
    """Replace a tenant's or namespace's policies with the result of `change`, unless that is None.

    `change` receives the stored policies or None, and is called again if another client has changed
    them in the meantime.
    """
    while True:
        policies, version = await stored_policies(store, name)
        changed = change(None if version is None else policies)
        if changed is None:
            return
        data = json.dumps(changed).encode()
        with suppress(NodeExistsError, BadVersionError, NoNodeError):
            if version is None:
                await store.create(policies_path(name), data)
            else:
                await store.set(policies_path(name), data, version)
            return


async def read_policies(store: MetadataStore, namespace: str, defaults: Policies) -> Policies:
    """Return the settings of a namespace's topics.

    Raises the same exceptions as `namespace_policies`.
    """
    stored = await namespace_policies(store, namespace)
    deduplication_enabled = stored.get(DEDUPLICATION)
    if deduplication_enabled is None:
        deduplication_enabled = defaults.deduplication_enabled
    message_ttl_ms = defaults.message_ttl_ms
    if (ttl_s := stored.get(MESSAGE_TTL)) is not None:
        message_ttl_ms = ttl_s * _SECOND_MS
    managed_ledger = defaults.managed_ledger
    if retention := stored.get(RETENTION):
        managed_ledger = replace(
            managed_ledger,
            retention_time_ms=_scaled(retention["retentionTimeInMinutes"], _MINUTE_MS),
            retention_size_bytes=_scaled(retention["retentionSizeInMB"], _MEBIBYTE),
        )
    return Policies(deduplication_enabled, message_ttl_ms, managed_ledger)


def _scaled(number: int, unit: int) -> int:
    return UNLIMITED if number < 0 else number * unit
