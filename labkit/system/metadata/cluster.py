"""Creates and formats a cluster in the metadata store.

In BookKeeper: `discover/ZKRegistrationManager.java` (`initNewCluster`, `format`),
`meta/ZkLayoutManager.java`.
"""

from contextlib import suppress

from labkit.system.metadata.ledger_layout import (
    HIERARCHICAL,
    ForeignLayoutError,
    LedgerLayout,
    decode_ledger_layout,
)
from labkit.system.metadata.store import (
    MetadataStore,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from labkit.system.model.errors import LabkitError


class ClusterInUseError(LabkitError):
    """The operation would destroy an existing cluster."""


class NoClusterError(MetadataUnavailableError):
    """The metadata store contains no cluster, or a different one than before.

    Ledgers and bookies that the store does not list may still exist. So do not delete or mark
    anything.
    """


async def init_cluster(
    store: MetadataStore, instance_id: str, layout: LedgerLayout | None = None
) -> str:
    """Create the cluster's missing nodes, and return its instance id.

    If the cluster does not have them yet, it gets the instance id `instance_id` (a new UUID) and
    the layout `layout`. The default layout is the one in the metadata store's URI or, if there is
    none, the hierarchical one. Raises `ForeignLayoutError` if the cluster's layout is unknown or
    differs from the requested one.
    """
    location = store.location
    if layout is not None and location.layout not in (None, layout):
        raise ForeignLayoutError(
            f"layout {layout.name} was requested, but {location} specifies another"
        )
    for path, data in (
        (f"{location.ledgers_root}/LAYOUT", (layout or location.layout or HIERARCHICAL).encode()),
        (f"{location.ledgers_root}/INSTANCEID", instance_id.encode()),
        (location.available, b""),
        (location.read_only, b""),
    ):
        with suppress(NodeExistsError):
            await store.create(path, data)
    found = await read_layout(store)
    if layout is not None and found is not None and layout != found:
        raise ForeignLayoutError(
            f"the cluster's layout is {found.name}, not {layout.name}; it cannot be changed"
        )
    return await read_instance_id(store)


async def read_layout(store: MetadataStore) -> LedgerLayout | None:
    """Return the cluster's layout, or None if the node LAYOUT does not exist yet.

    Raises `ForeignLayoutError` if labkit does not support the layout, or if the URI of the metadata
    store specifies a different one.
    """
    try:
        data, _ = await store.get(f"{store.location.ledgers_root}/LAYOUT")
    except NoNodeError:
        return None
    layout = decode_ledger_layout(data)
    if store.location.layout not in (None, layout):
        raise ForeignLayoutError(
            f"the cluster's layout is {layout.name}, but {store.location} specifies another; use"
            " zk+null:// to accept the cluster's layout"
        )
    return layout


async def read_instance_id(store: MetadataStore) -> str:
    """Raise `NoNodeError` if there is no cluster."""
    try:
        data, _ = await store.get(f"{store.location.ledgers_root}/INSTANCEID")
    except NoNodeError:
        raise NoNodeError(
            f"no BookKeeper cluster at {store.location}: INSTANCEID is missing; start a"
            " bookie first"
        ) from None
    return data.decode(errors="replace")


async def check_instance_id(store: MetadataStore, instance_id: str) -> None:
    """Raise `NoClusterError` unless the metadata store still contains the cluster with this id."""
    try:
        found = await read_instance_id(store)
    except NoNodeError as error:
        raise NoClusterError(str(error)) from None
    if found != instance_id:
        raise NoClusterError(
            f"the cluster at {store.location} was replaced: expected instance id {instance_id}, got"
            f" {found}"
        )


async def init_new_cluster(
    store: MetadataStore, instance_id: str, layout: LedgerLayout | None = None
) -> None:
    """Like `init_cluster`, but raise `ClusterInUseError` if a cluster exists."""
    root = store.location.ledgers_root
    if await store.exists(root):
        raise ClusterInUseError(f"a cluster already exists at {root}; choose another path")
    await init_cluster(store, instance_id, layout)


async def format_cluster(
    store: MetadataStore, instance_id: str, layout: LedgerLayout | None = None
) -> None:
    """Delete all ledgers, cookies and marks of the cluster, if there is one, and create a new one.

    All entries are lost. Raises `ClusterInUseError` if bookies are registered.
    """
    root = store.location.ledgers_root
    try:
        # Delete the cookies first, so that no old bookie starts if this is interrupted.
        names = sorted(await store.children(root), key=lambda name: name != "cookies")
    except NoNodeError:
        names = []
    for folder in (store.location.available, store.location.read_only):
        with suppress(NoNodeError):
            if any(name != "readonly" for name in await store.children(folder)):
                raise ClusterInUseError(
                    f"bookies are still registered under {folder}; stop all bookies first"
                )
    for name in names:
        if name != "available":
            await _delete_tree(store, f"{root}/{name}")
    await init_cluster(store, instance_id, layout)


async def _delete_tree(store: MetadataStore, path: str) -> None:
    """Delete a node and its descendants, including any created in the meantime."""
    with suppress(NoNodeError):
        for name in await store.children(path):
            await _delete_tree(store, f"{path}/{name}")
        try:
            await store.delete(path)
        except NotEmptyError:
            await _delete_tree(store, path)
