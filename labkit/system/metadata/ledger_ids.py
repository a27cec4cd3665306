"""Generates ledger ids from the numbers that the store gives to sequential nodes.

    <id folder>/ID-<10 digits>              short ids, below 2147483647
    idgen-long/HOB-<10 digits>/ID-<10 digits>   long ids: the first number is the high 32 bits

Each node is deleted right after its creation, and its number is never reused. If the layout allows
long ids, the first client that finds the short ids exhausted creates `idgen-long`. From then on,
all ids are long.

In BookKeeper: `meta/ZkLedgerIdGenerator.java`, `meta/LongZkLedgerIdGenerator.java`.
"""

import re
from contextlib import suppress
from functools import partial

from labkit.system.metadata.ledger_layout import SHORT_ID_LIMIT, LedgerLayout
from labkit.system.metadata.store import (
    MetadataStore,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    send_again_if_lost,
)
from labkit.system.model.errors import BKLedgerIdOverflowException

_HIGH_BITS = "HOB-"
_HIGH_BITS_NAME = re.compile(rf"{_HIGH_BITS}(\d{{10}})")
_FIRST_HIGH = 1


class LedgerIdGenerator:
    def __init__(self, store: MetadataStore, root: str, layout: LedgerLayout) -> None:
        self._store = store
        self._short_prefix = f"{root}{layout.id_folder}/ID-"
        self._long_folder = f"{root}/idgen-long"
        self._long_ids_allowed = layout.long_ids
        self._is_long = False

    async def next_id(self) -> int:
        """Raise `BKLedgerIdOverflowException` if all ids that the layout supports are used up."""
        if self._long_ids_allowed and not self._is_long:
            self._is_long = await self._store.exists(self._long_folder)
        if self._is_long:
            return await self._next_long_id()
        ledger_id = await self._draw(self._short_prefix)
        if ledger_id is not None:
            return ledger_id
        if not self._long_ids_allowed:
            raise BKLedgerIdOverflowException(
                f"all ledger ids below {SHORT_ID_LIMIT} are used up, and the cluster's layout does"
                " not support longer ids"
            )
        # This node is never deleted, because a cluster with long ids must not return to short
        # ones.
        with suppress(NodeExistsError):
            await self._store.create(self._long_folder, b"")
        return await self._next_long_id()

    async def _next_long_id(self) -> int:
        names = await self._store.children(self._long_folder)
        # All of these nodes except the highest one are exhausted.
        found = (int(match[1]) for name in names if (match := _HIGH_BITS_NAME.fullmatch(name)))
        high = max(found, default=_FIRST_HIGH)
        while True:
            low = await self._draw(f"{self._long_folder}/{_HIGH_BITS}{high:010d}/ID-")
            if low is not None:
                return high << 32 | low
            high += 1

    async def _draw(self, prefix: str) -> int | None:
        # If the request is sent twice, the first of the two numbers remains unused.
        path = await send_again_if_lost(
            partial(self._store.create, prefix, b"", ephemeral=True, sequential=True)
        )
        # If a node is not deleted here, it is deleted when this client's session ends.
        with suppress(NoNodeError, MetadataUnavailableError):
            await self._store.delete(path)
        number = int(path.removeprefix(prefix))
        return number if 0 <= number < SHORT_ID_LIMIT else None
