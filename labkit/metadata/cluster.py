"""A cluster's own nodes, made once.

In BookKeeper: `discover/ZKRegistrationManager.initNewCluster`, `meta/LedgerLayout.java`.
"""

from contextlib import suppress

from labkit.metadata.store import MetadataStore, NodeExistsError, NoNodeError
from labkit.model.errors import LabkitError

ROOT = "/ledgers"
LAYOUT = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"


class ForeignLayoutError(LabkitError):
    """The cluster lays its ledgers out in a way that labkit does not know."""


async def init_cluster(store: MetadataStore, instance_id: str) -> str:
    """Make the cluster's nodes where they are missing; returns the instance id that holds.

    `instance_id` is a fresh UUID, used if the cluster has none yet.  Raises `ForeignLayoutError`.
    """
    for path, data in (
        (f"{ROOT}/LAYOUT", LAYOUT),
        (f"{ROOT}/INSTANCEID", instance_id.encode()),
        (f"{ROOT}/available", b""),
        (f"{ROOT}/available/readonly", b""),
    ):
        # Another bookie was first, or the cluster is an old one.
        with suppress(NodeExistsError):
            await store.create(path, data)
    layout, _ = await store.get(f"{ROOT}/LAYOUT")
    if layout.strip() != LAYOUT:
        raise ForeignLayoutError(
            f"{ROOT}/LAYOUT says {layout.decode(errors='replace')!r};"
            " labkit knows the hierarchical ledger manager only"
        )
    return await read_instance_id(store)


async def read_instance_id(store: MetadataStore) -> str:
    """The cluster's instance id.  Raises `NoNodeError` when there is no cluster."""
    try:
        data, _ = await store.get(f"{ROOT}/INSTANCEID")
    except NoNodeError:
        raise NoNodeError(
            f"no BookKeeper cluster there: {ROOT}/INSTANCEID is missing; start a bookie first"
        ) from None
    return data.decode()
