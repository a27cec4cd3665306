"""An offset store, which records how far each consumer group has read, as Pulsar's cursors do.

Each commit is an entry. When a ledger is full, the store creates a new one that starts with the
latest offset of every group, and deletes the old one. The store therefore stays small no matter how
many commits it receives.
"""

import json
from collections.abc import Callable

from labkit.course.runs.uses.ledger_list import LedgerList
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import LabkitError

Record = tuple[str, int | None]
"""A group and its offset; None: the group was removed."""
Newest = Callable[[list[Record]], dict[str, int]]


def newest(records: list[Record]) -> dict[str, int]:
    """Return the latest offset of each group, given all records in the order in which they were
    written.
    """
    offsets: dict[str, int] = {}
    for group, offset in records:
        if offset is None:
            offsets.pop(group, None)
        else:
            offsets[group] = offset
    return offsets


def encode(record: Record) -> bytes:
    return json.dumps(record).encode()


def decode(payload: bytes) -> Record:
    group, offset = json.loads(payload)
    return group, offset


class NotOpenError(LabkitError):
    """Raised if the store has not been opened."""


class OffsetStore:
    """Stores the offsets of all groups. Call `open` before any other method. Only one client can
    write at a time.
    """

    def __init__(
        self, client: BookKeeper, newest: Newest = newest, records_per_ledger: int = 100
    ) -> None:
        self.offsets: dict[str, int] = {}
        self.ledger_id = -1
        self._client = client
        self._newest = newest
        self._limit = records_per_ledger
        self._list = LedgerList(client.store, "/offsets")
        self._writer: LedgerWriter | None = None
        self._count = 0

    async def open(self) -> None:
        """Take over the store from the client that used it before. Raises `BKException`."""
        old = await self._list.read()
        if old:
            # Recover the ledger, so that no further commit of the previous client succeeds.
            reader = await self._client.open_ledger(old[-1])
            self.offsets = self._newest([decode(e.payload) async for e in reader.read()])
        await self._begin(old)

    async def commit(self, group: str, offset: int | None) -> None:
        """Store a group's offset, which may be lower than the previous one; None removes the group.

        Raises `NotOpenError` and `BKException`. After a `BKException`, the offset may or may not
        have been stored.
        """
        if self._writer is None:
            raise NotOpenError("open the store first")
        await self._writer.add(encode((group, offset)))
        if offset is None:
            self.offsets.pop(group, None)
        else:
            self.offsets[group] = offset
        self._count += 1
        if self._count >= self._limit:
            await self._writer.close()
            await self._begin((self.ledger_id,))

    async def _begin(self, old: tuple[int, ...]) -> None:
        """Write the latest offsets to a new ledger, put the new ledger on the list, and then delete
        the old ledgers.
        """
        writer = await self._client.create_ledger(3, 3, 2)
        for record in self.offsets.items():
            await writer.add(encode(record))
        await self._list.replace((writer.ledger_id,))
        self._writer, self.ledger_id, self._count = writer, writer.ledger_id, 0
        for ledger_id in old:
            await self._client.delete_ledger(ledger_id)
