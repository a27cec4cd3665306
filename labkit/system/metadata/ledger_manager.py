"""Stores ledger metadata, and generates ledger ids.

In BookKeeper: `meta/LedgerManager.java`, `meta/AbstractZkLedgerManager.java` and its subclasses.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

from labkit.system.metadata.cluster import NoClusterError, check_instance_id, read_layout
from labkit.system.metadata.ledger_ids import LedgerIdGenerator
from labkit.system.metadata.ledger_layout import HIERARCHICAL, LedgerLayout
from labkit.system.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OnChange,
    send_again_if_lost,
)
from labkit.system.model.errors import (
    BKLedgerExistException,
    BKMetadataVersionException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.system.model.ledger import (
    LedgerMetadata,
    decode_ledger_metadata,
    encode_ledger_metadata,
)


class LedgerManager:
    """Creates, reads, updates, deletes and lists the metadata of ledgers.

    Every method raises `ForeignLayoutError` if labkit does not support the cluster's layout.
    """

    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self._root = store.location.ledgers_root
        self._layout: LedgerLayout | None = None
        self._ids: LedgerIdGenerator | None = None

    async def layout(self) -> LedgerLayout:
        """Return the cluster's layout, or the default layout if there is no LAYOUT znode yet."""
        if self._layout is None:
            self._layout = await read_layout(self.store)
        return self._layout or HIERARCHICAL

    async def new_ledger_id(self) -> int:
        """Return an id that no ledger of this cluster has ever had.

        Raises `BKLedgerIdOverflowException`.
        """
        if self._ids is None or self._layout is None:
            self._ids = LedgerIdGenerator(self.store, self._root, await self.layout())
        return await self._ids.next_id()

    async def create(self, ledger_id: int, metadata: LedgerMetadata) -> int:
        """Store the metadata of a new ledger, and return its version.

        If a lost response causes the request to be sent twice, the creation token shows whether
        this client has created the ledger. Raises `BKLedgerExistException` if another client has.
        """
        path, data = await self._path(ledger_id), encode_ledger_metadata(metadata)
        try:
            await send_again_if_lost(partial(self.store.create, path, data))
        except NodeExistsError:
            return await self._version_of_own(ledger_id, metadata)
        return 0

    async def read(
        self, ledger_id: int, on_change: OnChange | None = None
    ) -> tuple[LedgerMetadata, int]:
        """Return the metadata and its version. Call `on_change` when the metadata is changed or
        deleted.

        Raises `BKNoSuchLedgerExistsOnMetadataServerException`; in this case, no watch is set.
        """
        try:
            data, version = await self.store.get(await self._path(ledger_id), on_change)
        except NoNodeError:
            raise _no_such_ledger(ledger_id) from None
        return decode_ledger_metadata(data), version

    async def write(self, ledger_id: int, metadata: LedgerMetadata, version: int) -> int:
        """Replace the metadata if it still has this version. Return the new version.

        Raises `BKMetadataVersionException` if another client has changed it.
        """
        try:
            data = encode_ledger_metadata(metadata)
            return await self.store.set(await self._path(ledger_id), data, version)
        except BadVersionError:
            raise BKMetadataVersionException(
                f"another client changed the metadata of ledger {ledger_id} since version {version}"
            ) from None
        except NoNodeError:
            raise _no_such_ledger(ledger_id) from None

    async def delete(self, ledger_id: int) -> None:
        """Delete the ledger's metadata. Bookies delete its entries when they collect garbage.

        Raises `BKNoSuchLedgerExistsOnMetadataServerException`.
        """
        path = await self._path(ledger_id)
        try:
            await self.store.delete(path)
        except NoNodeError:
            raise _no_such_ledger(ledger_id) from None
        await self._delete_empty_parents(path)

    async def ids(self) -> list[int]:
        """Return all ids in ascending order. Raises `NoClusterError`."""
        return sorted([ledger_id async for ids in self.ranges() for ledger_id in ids])

    async def ids_in(self, instance_id: str) -> list[int]:
        """Return the ids of all existing ledgers, so that a bookie can delete its copies of any
        others.

        Raises `NoClusterError` if the metadata store belongs to a different cluster, for example
        because its data was lost.
        """
        # Check the instance id after listing the ledgers, because the store may lose its data just
        # before they are listed.
        found = await self.ids()
        await check_instance_id(self.store, instance_id)
        return found

    async def ranges(self) -> AsyncIterator[list[int]]:
        """Yield the ids of all ledgers in ascending order, as one list for each parent node.

        Ledgers created or deleted in the meantime may be missing. Raises `NoClusterError`.
        """
        # Otherwise, a ZooKeeper server that lags behind could omit new ledgers, and bookies would
        # delete them.
        await self.store.sync()
        for shape in (await self.layout()).shapes:
            async for ids in self._ranges_below(self._root, "", shape):
                yield ids

    async def _version_of_own(self, ledger_id: int, metadata: LedgerMetadata) -> int:
        with suppress(BKNoSuchLedgerExistsOnMetadataServerException):
            found, version = await self.read(ledger_id)
            # Tokens are random, so if they are equal, this client has created the ledger.
            if found.c_token and found.c_token == metadata.c_token:
                return version
        raise BKLedgerExistException(f"ledger {ledger_id} already exists")

    async def _ranges_below(
        self, path: str, digits: str, shape: tuple[int, ...]
    ) -> AsyncIterator[list[int]]:
        """Yield the ids that consist of `digits`, followed by groups of digits with the sizes in
        `shape`.

        Nodes with other names, such as `cookies`, are not ledgers.
        """
        try:
            names = await self.store.children(path)
        except NoNodeError:
            if path == self._root:
                raise NoClusterError(f"{self._root} is missing from the metadata store") from None
            return  # The node was deleted together with the last ledger below it.
        size, *inner = shape
        if not inner:
            leaves = [name[1:] for name in names if name.startswith("L")]
            yield [int(digits + leaf) for leaf in leaves if len(leaf) == size and leaf.isdecimal()]
            return
        for name in names:
            if len(name) == size and name.isdecimal():
                async for ids in self._ranges_below(f"{path}/{name}", digits + name, tuple(inner)):
                    yield ids

    async def _delete_empty_parents(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        with suppress(NotEmptyError):
            while parent != self._root:
                with suppress(NoNodeError):  # Another client has already deleted it.
                    await self.store.delete(parent)
                parent = parent.rpartition("/")[0]

    async def _path(self, ledger_id: int) -> str:
        return f"{self._root}/{(await self.layout()).path_of(ledger_id)}"


def _no_such_ledger(ledger_id: int) -> BKNoSuchLedgerExistsOnMetadataServerException:
    return BKNoSuchLedgerExistsOnMetadataServerException(
        f"ledger {ledger_id} does not exist in the metadata store: it was deleted or never created"
    )
