"""A namespace's settings that override the broker's configuration, kept in the metadata store.

    /admin/policies/<tenant>/<namespace>     JSON; a topic uses deduplicationEnabled and
                                             retention_policies, clients use auth_policies
                                             (`authorization`); other keys are kept

In Pulsar: `common/policies/data/Policies.java`.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

from labkit.metadata.store import MetadataStore, NoNodeError
from labkit.topic.config import UNLIMITED, ManagedLedgerConfig

_MINUTE_MS = 60 * 1000
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Policies:
    """The settings of a topic."""

    deduplication_enabled: bool
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


async def read_policies(store: MetadataStore, namespace: str, defaults: Policies) -> Policies:
    """The settings of a namespace's topics."""
    wanted, _ = await stored_policies(store, namespace)
    deduplication_enabled = wanted.get("deduplicationEnabled")
    if deduplication_enabled is None:
        deduplication_enabled = defaults.deduplication_enabled
    managed_ledger = defaults.managed_ledger
    if retention := wanted.get("retention_policies"):
        managed_ledger = replace(
            managed_ledger,
            retention_time_ms=_scaled(retention["retentionTimeInMinutes"], _MINUTE_MS),
            retention_size_bytes=_scaled(retention["retentionSizeInMB"], _MEBIBYTE),
        )
    return Policies(deduplication_enabled, managed_ledger)


def _scaled(number: int, unit: int) -> int:
    return UNLIMITED if number < 0 else number * unit
