"""New ledger ids: numbers that the store gives to sequential nodes.

    <id folder>/ID-<10 digits>              short ids, below 2147483647
    idgen-long/HOB-<10 digits>/ID-<10 digits>   long ids: the first number is the high 32 bits

The node is deleted at once; its number is never given again.  A cluster draws short ids while some
are left and `idgen-long` does not exist; where long ids are allowed, the first client that finds no
short id left makes that node, and from then on all ids are long.

In BookKeeper: `meta/ZkLedgerIdGenerator.java`, `meta/LongZkLedgerIdGenerator.java`.
"""

from contextlib import suppress

from labkit.system.metadata.ledger_layout import SHORT_ID_LIMIT, LedgerLayout
from labkit.system.metadata.store import MetadataStore, NodeExistsError, NoNodeError
from labkit.system.model.errors import BKLedgerIdOverflowException

_HIGH_BITS = "HOB-"
_FIRST_HIGH = 1


class LedgerIdGenerator:
    """Draws ids for new ledgers of a cluster with that root and layout."""

    def __init__(self, store: MetadataStore, root: str, layout: LedgerLayout) -> None:
        self._store = store
        self._short_prefix = f"{root}{layout.id_folder}/ID-"
        self._long_folder = f"{root}/idgen-long"
        self._long_ids_allowed = layout.long_ids
        self._is_long = False

    async def next_id(self) -> int:
        """An id that no ledger of this cluster had or has.

        Raises `BKLedgerIdOverflowException` when a layout with short ids alone has none left.
        """
        if self._long_ids_allowed and not self._is_long:
            self._is_long = await self._store.exists(self._long_folder)
        if self._is_long:
            return await self._next_long_id()
        ledger_id = await self._draw(self._short_prefix)
        if ledger_id is not None:
            return ledger_id
        if not self._long_ids_allowed:
            raise BKLedgerIdOverflowException(
                f"all ledger ids below {SHORT_ID_LIMIT} are used up, and the cluster's layout has"
                " no longer ones"
            )
        # Made once and never removed: a cluster that draws long ids must not draw short ones again.
        with suppress(NodeExistsError):
            await self._store.create(self._long_folder, b"")
        return await self._next_long_id()

    async def _next_long_id(self) -> int:
        names = await self._store.children(self._long_folder)
        # The folders below the highest are used up: each client goes on where the others are.
        high = max((int(name.removeprefix(_HIGH_BITS)) for name in names), default=_FIRST_HIGH)
        while True:
            low = await self._draw(f"{self._long_folder}/{_HIGH_BITS}{high:010d}/ID-")
            if low is not None:
                return high << 32 | low
            high += 1

    async def _draw(self, prefix: str) -> int | None:
        """The next number of that kind; None when all are used up."""
        path = await self._store.create(prefix, b"", ephemeral=True, sequential=True)
        # Ephemeral, so that it is gone with the session if this client dies here.
        with suppress(NoNodeError):
            await self._store.delete(path)
        number = int(path.removeprefix(prefix))
        return number if 0 <= number < SHORT_ID_LIMIT else None
