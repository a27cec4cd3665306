"""An object store, which stores named snapshots of a state machine, each in a ledger of its own.

A snapshot is too large for one entry, so it is split into chunks. A snapshot exists from the moment
at which its znode refers to its ledger, which has been closed by then. A reader therefore gets
either the complete new snapshot or the previous one.

A ledger to which no znode refers is either garbage or contains a snapshot that is still being
written. `removable` tells the two apart by the version stored in each ledger's metadata.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import BadVersionError, NodeExistsError, NoNodeError
from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException, LabkitError

_PATH = "/snapshots"
Ledger = tuple[int, str, int]
"""A ledger's id, the name of its snapshot, and its version, from 1 on."""
Named = dict[str, tuple[int, int]]
"""The version and the ledger id stored in the znode of each name."""
Removable = Callable[[list[Ledger], Named], list[int]]


def removable(ledgers: list[Ledger], named: Named) -> list[int]:
    """Return the garbage, which consists of every ledger whose snapshot's znode names another
    ledger with the same or a later version.
    """
    return [
        ledger_id
        for ledger_id, name, version in ledgers
        if name in named and named[name][1] != ledger_id and version <= named[name][0]
    ]


class SupersededError(LabkitError):
    """Raised if another client has already stored this version of the snapshot; store the next
    version.
    """


@dataclass(frozen=True, slots=True)
class _Node:
    """The contents of a name's znode, and the version of the znode (-1 if the znode does not
    exist).
    """

    version: int = 0
    ledger_id: int = -1
    node_version: int = -1


class SnapshotStore:
    """Stores snapshots by name. Any number of clients can use the store at the same time."""

    def __init__(self, client: BookKeeper, chunk_bytes: int = 1000) -> None:
        self._client = client
        self._chunk_bytes = chunk_bytes

    async def put(self, name: str, data: bytes) -> int:
        """Store the next version and return the id of its ledger.

        Raises `SupersededError` if another client was faster, and `BKException` if the snapshot
        cannot be stored.
        """
        before = await self._read(name)
        version = before.version + 1
        about = (("snapshot", name.encode()), ("version", b"%d" % version))
        writer = await self._client.create_ledger(3, 3, 2, custom_metadata=about)
        for start in range(0, len(data), self._chunk_bytes):
            await writer.add(data[start : start + self._chunk_bytes])
        await writer.close()
        node = json.dumps({"version": version, "ledger": writer.ledger_id}).encode()
        store, path = self._client.store, f"{_PATH}/{name}"
        try:
            if before.node_version < 0:
                await store.create(path, node)
            else:
                await store.set(path, node, before.node_version)
        except (BadVersionError, NodeExistsError):
            raise SupersededError(
                f"another client has already stored version {version} of {name}"
            ) from None
        return writer.ledger_id

    async def get(self, name: str) -> bytes:
        """Return the latest version. Raises `KeyError` if no snapshot has this name, and
        `BKException` if the snapshot cannot be read.
        """
        node = await self._read(name)
        if node.ledger_id < 0:
            raise KeyError(name)
        reader = await self._client.open_ledger_no_recovery(node.ledger_id)
        return b"".join([entry.payload async for entry in reader.read()])

    async def collect(self, removable: Removable = removable) -> list[int]:
        """Delete the garbage and return the ids of the deleted ledgers."""
        ledgers = await self._ledgers()
        garbage = removable(ledgers, await self._read_named())
        for ledger_id in garbage:
            with suppress(BKNoSuchLedgerExistsOnMetadataServerException):
                await self._client.delete_ledger(ledger_id)
        return garbage

    async def _ledgers(self) -> list[Ledger]:
        found = []
        for ledger_id in await self._client.list_ledgers():
            # Another client may be collecting garbage at the same time.
            with suppress(BKNoSuchLedgerExistsOnMetadataServerException):
                metadata = await self._client.ledger_metadata(ledger_id)
                about = dict(metadata.custom_metadata)
                if "snapshot" in about:
                    found.append((ledger_id, about["snapshot"].decode(), int(about["version"])))
        return found

    async def _read_named(self) -> Named:
        named = {}
        with suppress(NoNodeError):
            for name in await self._client.store.children(_PATH):
                node = await self._read(name)
                named[name] = node.version, node.ledger_id
        return named

    async def _read(self, name: str) -> _Node:
        try:
            data, node_version = await self._client.store.get(f"{_PATH}/{name}")
        except NoNodeError:
            return _Node()
        stored = json.loads(data)
        return _Node(stored["version"], stored["ledger"], node_version)
