"""What a namespace wants otherwise than the broker's configuration, as the metadata store keeps it.

    /admin/policies/<tenant>/<namespace>     JSON; for a topic count deduplicationEnabled and
                                             retention_policies, for clients auth_policies
                                             (`authorization`); other keys are left alone

In Pulsar: `common/policies/data/Policies.java`.
"""

import json
from dataclasses import dataclass, replace

from labkit.metadata.store import MetadataStore, NoNodeError
from labkit.topic.config import UNLIMITED, ManagedLedgerConfig

_MINUTE_MS = 60 * 1000
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Policies:
    """What counts for a topic."""

    deduplication_enabled: bool
    managed_ledger: ManagedLedgerConfig


def policies_path(namespace: str) -> str:
    """The node that holds what `tenant/namespace` wants."""
    return f"/admin/policies/{namespace}"


async def read_policies(store: MetadataStore, namespace: str, defaults: Policies) -> Policies:
    """What counts for a namespace's topics."""
    try:
        data, _ = await store.get(policies_path(namespace))
    except NoNodeError:
        return defaults
    wanted = json.loads(data or b"{}")
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
