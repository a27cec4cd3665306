"""A cluster's own nodes, made once, and again when all its data are discarded.

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
    """What was asked would destroy a cluster that bookies serve."""


class NoClusterError(MetadataUnavailableError):
    """The metadata store has no cluster at its place, or another than before.  Ledgers and bookies
    that it does not list may still exist: delete and mark nothing.
    """


async def init_cluster(
    store: MetadataStore, instance_id: str, layout: LedgerLayout | None = None
) -> str:
    """Make the cluster's nodes where they are missing; returns the instance id that holds.

    `instance_id` is a fresh UUID, used if the cluster has none yet; so is the layout: the one asked
    for, or the one that the store's place names, or hierarchical.  Raises `ForeignLayoutError` for
    a cluster whose layout is another than the one asked for, or unknown.
    """
    place = store.place
    if layout is not None and place.layout not in (None, layout):
        raise ForeignLayoutError(f"the layout {layout.name} is asked for, and not that of {place}")
    for path, data in (
        (f"{place.ledgers_root}/LAYOUT", (layout or place.layout or HIERARCHICAL).encode()),
        (f"{place.ledgers_root}/INSTANCEID", instance_id.encode()),
        (place.available, b""),
        (place.read_only, b""),
    ):
        # Another bookie was first, or the cluster is an old one.
        with suppress(NodeExistsError):
            await store.create(path, data)
    found = await read_layout(store)
    if layout is not None and found is not None and layout != found:
        raise ForeignLayoutError(
            f"the cluster's layout is {found.name}, not {layout.name}; it cannot be changed"
        )
    return await read_instance_id(store)


async def read_layout(store: MetadataStore) -> LedgerLayout | None:
    """How the cluster lays out its ledgers; None while LAYOUT is missing.

    Raises `ForeignLayoutError`, also when the store's place names another layout.
    """
    try:
        data, _ = await store.get(f"{store.place.ledgers_root}/LAYOUT")
    except NoNodeError:
        return None
    layout = decode_ledger_layout(data)
    if store.place.layout not in (None, layout):
        raise ForeignLayoutError(
            f"the cluster's layout is {layout.name}, and {store.place} asks for another; write"
            " zk+null:// for the one that the cluster has"
        )
    return layout


async def read_instance_id(store: MetadataStore) -> str:
    """The cluster's instance id.  Raises `NoNodeError` when there is no cluster."""
    try:
        data, _ = await store.get(f"{store.place.ledgers_root}/INSTANCEID")
    except NoNodeError:
        raise NoNodeError(
            f"no BookKeeper cluster at {store.place}: INSTANCEID is missing; start a bookie first"
        ) from None
    return data.decode()


async def check_instance_id(store: MetadataStore, instance_id: str) -> None:
    """Raise `NoClusterError` unless the metadata store still has the cluster with that id."""
    try:
        found = await read_instance_id(store)
    except NoNodeError as error:
        raise NoClusterError(str(error)) from None
    if found != instance_id:
        raise NoClusterError(
            f"the cluster at {store.place} is another one: its instance id is {found}, and was"
            f" {instance_id}"
        )


async def init_new_cluster(
    store: MetadataStore, instance_id: str, layout: LedgerLayout | None = None
) -> None:
    """As `init_cluster`, but only where there is none.  Raises `ClusterInUseError`."""
    root = store.place.ledgers_root
    if await store.exists(root):
        raise ClusterInUseError(f"there is a cluster already: {root} exists")
    await init_cluster(store, instance_id, layout)


async def format_cluster(
    store: MetadataStore, instance_id: str, layout: LedgerLayout | None = None
) -> None:
    """Delete all ledgers, cookies and marks of a cluster, if there is one, and begin a new one.

    The entries are lost: the old bookies' directories no longer belong to any cluster.  Raises
    `ClusterInUseError` while bookies are registered.
    """
    root = store.place.ledgers_root
    try:
        # With the cookies gone no old bookie starts, even if this is interrupted.
        names = sorted(await store.children(root), key=lambda name: name != "cookies")
    except NoNodeError:
        names = []
    for folder in (store.place.available, store.place.read_only):
        if await _registered(store, folder):
            raise ClusterInUseError(f"bookies are registered below {folder}: stop them all first")
    for name in names:
        if name != "available":
            await _delete_tree(store, f"{root}/{name}")
    await init_cluster(store, instance_id, layout)


async def _registered(store: MetadataStore, folder: str) -> bool:
    try:
        return any(name != "readonly" for name in await store.children(folder))
    except NoNodeError:
        return False


async def _delete_tree(store: MetadataStore, path: str) -> None:
    """Nodes added concurrently are deleted too; it only takes longer."""
    with suppress(NoNodeError):
        for name in await store.children(path):
            await _delete_tree(store, f"{path}/{name}")
        try:
            await store.delete(path)
        except NotEmptyError:
            await _delete_tree(store, path)
