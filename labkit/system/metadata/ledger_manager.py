"""Ledger metadata in the tree: new ids, create, read, compare-and-set, delete, list.

In BookKeeper: `meta/LedgerManager.java`, `meta/AbstractZkLedgerManager.java` and its kin.
"""

from collections.abc import AsyncIterator
from contextlib import suppress

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
    """The ledgers of a cluster, as the metadata store knows them, laid out as its LAYOUT says.

    Every call raises `ForeignLayoutError` when that is unknown.
    """

    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self._root = store.place.ledgers_root
        self._layout: LedgerLayout | None = None
        self._ids: LedgerIdGenerator | None = None

    async def layout(self) -> LedgerLayout:
        """The cluster's layout, read until there is one: it never changes."""
        if self._layout is None:
            self._layout = await read_layout(self.store)
        return self._layout or HIERARCHICAL

    async def new_ledger_id(self) -> int:
        """An id that no ledger of this cluster had or has.

        Raises `BKLedgerIdOverflowException`.
        """
        if self._ids is None or self._layout is None:
            self._ids = LedgerIdGenerator(self.store, self._root, await self.layout())
        return await self._ids.next_id()

    async def create(self, ledger_id: int, metadata: LedgerMetadata) -> int:
        """Store a new ledger's metadata; returns the version.

        Called again after a lost answer, it recognises its own ledger by the creation token.
        Raises `BKLedgerExistException` when the ledger is another client's.
        """
        try:
            await self.store.create(await self._path(ledger_id), encode_ledger_metadata(metadata))
        except NodeExistsError:
            return await self._version_of_own(ledger_id, metadata)
        return 0

    async def read(
        self, ledger_id: int, on_change: OnChange | None = None
    ) -> tuple[LedgerMetadata, int]:
        """Metadata and version; `on_change` when they change or the ledger is deleted.

        Raises `BKNoSuchLedgerExistsOnMetadataServerException`, and then watches nothing.
        """
        try:
            data, version = await self.store.get(await self._path(ledger_id), on_change)
        except NoNodeError:
            raise _no_such_ledger(ledger_id) from None
        return decode_ledger_metadata(data), version

    async def write(self, ledger_id: int, metadata: LedgerMetadata, version: int) -> int:
        """Replace the metadata unless another client did; returns the new version.

        Raises `BKMetadataVersionException` when another did: read and decide again.
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
        """Forget the ledger.  Bookies drop its entries later, when they collect garbage.

        Raises `BKNoSuchLedgerExistsOnMetadataServerException`.
        """
        path = await self._path(ledger_id)
        try:
            await self.store.delete(path)
        except NoNodeError:
            raise _no_such_ledger(ledger_id) from None
        await self._delete_empty_parents(path)

    async def ids(self) -> list[int]:
        """Ids of all ledgers, ascending.  Raises `NoClusterError`."""
        return sorted([ledger_id async for ids in self.ranges() for ledger_id in ids])

    async def ids_in(self, instance_id: str) -> list[int]:
        """The same, for a bookie that deletes what is not listed: only from the bookie's cluster.

        Raises `NoClusterError` when the metadata store has another cluster by now, or none: after
        its data was lost, it may have an empty one.
        """
        # The id is checked after the list: a store that lost its data in between fails the check.
        found = await self.ids()
        await check_instance_id(self.store, instance_id)
        return found

    async def ranges(self) -> AsyncIterator[list[int]]:
        """The same in parts: the ids of each node that has ledgers below it, ascending.

        A ledger that exists from beginning to end is among them; one that is created or deleted
        meanwhile may be.  Raises `NoClusterError`.
        """
        # As BookKeeper: a server that is behind lacks the newest ledgers, and a bookie would drop
        # them.
        await self.store.sync()
        for shape in (await self.layout()).shapes:
            async for ids in self._ranges_below(self._root, "", shape):
                yield ids

    async def _version_of_own(self, ledger_id: int, metadata: LedgerMetadata) -> int:
        with suppress(BKNoSuchLedgerExistsOnMetadataServerException):
            found, version = await self.read(ledger_id)
            # A token is random: an equal one can only come from this very attempt.
            if found.c_token and found.c_token == metadata.c_token:
                return version
        raise BKLedgerExistException(f"ledger {ledger_id} exists already")

    async def _ranges_below(
        self, path: str, digits: str, shape: tuple[int, ...]
    ) -> AsyncIterator[list[int]]:
        """Ledgers whose id begins with `digits`, and then has groups of the sizes in `shape`.

        Names of another shape are other things: `cookies`, `idgen`, ...
        """
        try:
            names = await self.store.children(path)
        except NoNodeError:
            if path == self._root:
                raise NoClusterError(f"{self._root} is missing in the metadata store") from None
            # Empty by now: its last ledger was deleted, and the node with it.
            return
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
        # Another ledger below a node keeps that node and all above it.
        with suppress(NotEmptyError):
            while parent != self._root:
                # A client that deletes another ledger may be doing the same.
                with suppress(NoNodeError):
                    await self.store.delete(parent)
                parent = parent.rpartition("/")[0]

    async def _path(self, ledger_id: int) -> str:
        return f"{self._root}/{(await self.layout()).path_of(ledger_id)}"


def _no_such_ledger(ledger_id: int) -> BKNoSuchLedgerExistsOnMetadataServerException:
    return BKNoSuchLedgerExistsOnMetadataServerException(
        f"there is no ledger {ledger_id} in the metadata store: it was deleted or never created"
    )
