"""Ledger metadata in the tree: new ids, create, read, compare-and-set, delete, list.

In BookKeeper: `meta/HierarchicalLedgerManager.java`, `meta/ZkLedgerIdGenerator.java`.
"""

import re

from labkit.metadata.cluster import ROOT
from labkit.metadata.store import BadVersionError, MetadataStore, NodeExistsError, NoNodeError
from labkit.model.errors import (
    BKLedgerExistException,
    BKMetadataVersionException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.model.ledger import LedgerMetadata, decode_ledger_metadata, encode_ledger_metadata

_SHORT_ID_LIMIT = 2**31 - 1


def ledger_path(ledger_id: int) -> str:
    """A ledger's node: 10 digits split 2-4-4; 19 digits split 3-4-4-4-4 from 2147483647 on."""
    if ledger_id < _SHORT_ID_LIMIT:
        digits = f"{ledger_id:010d}"
        return f"{ROOT}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger_id:019d}"
    parts = [digits[:3], *(digits[at : at + 4] for at in (3, 7, 11))]
    return f"{ROOT}/{'/'.join(parts)}/L{digits[15:]}"


class LedgerManager:
    """The ledgers of a cluster, as the metadata store knows them."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def new_ledger_id(self) -> int:
        """An id that no ledger of this cluster had or has."""
        path = await self._store.create(f"{ROOT}/idgen/ID-", b"", ephemeral=True, sequential=True)
        await self._store.delete(path)
        return int(path[-10:])

    async def create(self, ledger_id: int, metadata: LedgerMetadata) -> int:
        """Make the ledger known; returns the version.  Raises `BKLedgerExistException`."""
        try:
            await self._store.create(ledger_path(ledger_id), encode_ledger_metadata(metadata))
        except NodeExistsError:
            raise BKLedgerExistException(f"ledger {ledger_id} exists already") from None
        return 0

    async def read(self, ledger_id: int) -> tuple[LedgerMetadata, int]:
        """Metadata and version.  Raises `BKNoSuchLedgerExistsOnMetadataServerException`."""
        try:
            data, version = await self._store.get(ledger_path(ledger_id))
        except NoNodeError:
            raise _no_such_ledger(ledger_id) from None
        return decode_ledger_metadata(data), version

    async def write(self, ledger_id: int, metadata: LedgerMetadata, version: int) -> int:
        """Replace the metadata if nobody else did; returns the new version.

        Raises `BKMetadataVersionException` when somebody did: read again and decide anew.
        """
        try:
            data = encode_ledger_metadata(metadata)
            return await self._store.set(ledger_path(ledger_id), data, version)
        except BadVersionError:
            raise BKMetadataVersionException(
                f"somebody changed the metadata of ledger {ledger_id} since version {version}"
            ) from None
        except NoNodeError:
            raise _no_such_ledger(ledger_id) from None

    async def delete(self, ledger_id: int) -> None:
        """Forget the ledger.  Bookies drop its entries later, when they collect garbage."""
        try:
            await self._store.delete(ledger_path(ledger_id))
        except NoNodeError:
            raise _no_such_ledger(ledger_id) from None

    async def ids(self) -> list[int]:
        """Ids of all ledgers, ascending."""
        return sorted(await self._ids_below(ROOT, ""))

    async def _ids_below(self, path: str, digits: str) -> list[int]:
        found: list[int] = []
        for name in await self._store.children(path):
            if name.startswith("L") and name[1:].isdigit():
                found.append(int(digits + name[1:]))
            elif re.fullmatch(r"\d{2,3}" if not digits else r"\d{4}", name):
                found += await self._ids_below(f"{path}/{name}", digits + name)
        return found


def _no_such_ledger(ledger_id: int) -> BKNoSuchLedgerExistsOnMetadataServerException:
    return BKNoSuchLedgerExistsOnMetadataServerException(
        f"there is no ledger {ledger_id} in the metadata store: it was deleted or never created"
    )
