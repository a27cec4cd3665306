"""An object store: snapshots of a state machine, each a ledger, found by name.

A snapshot is too large for an entry, so it is cut into chunks.  It exists from the moment when its
node in the metadata store names its ledger, and that ledger is closed by then: a reader gets a
snapshot whole, or the one before it.

A ledger that no node names is a snapshot being written, or garbage.  Which of the two, `removable`
tells from the version that each ledger carries in its metadata.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import BadVersionError, NodeExistsError, NoNodeError
from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException, LabkitError

Ledger = tuple[int, str, int]
"""A ledger's id, the name of its snapshot, and which version it is, from 1 on."""
Named = dict[str, tuple[int, int]]
"""For each name the version and the ledger that its node names."""
Removable = Callable[[list[Ledger], Named], list[int]]


def removable(ledgers: list[Ledger], named: Named) -> list[int]:
    """The ledgers that are garbage: another one has their version, or a newer one."""
    return [
        ledger_id
        for ledger_id, name, version in ledgers
        if name in named and named[name][1] != ledger_id and version <= named[name][0]
    ]


class SupersededError(LabkitError):
    """Another client has stored this version of the snapshot: make the next one."""


@dataclass(frozen=True, slots=True)
class _Node:
    """What a name's node says, and the node's own version; -1 while there is none."""

    version: int = 0
    ledger_id: int = -1
    node_version: int = -1


class SnapshotStore:
    """Snapshots by name.  Any number of clients may use it at the same time."""

    def __init__(
        self, client: BookKeeper, chunk_bytes: int = 1000, path: str = "/snapshots"
    ) -> None:
        self._client = client
        self._chunk_bytes = chunk_bytes
        self._path = path

    async def put(self, name: str, data: bytes) -> int:
        """Store the next version; returns its ledger's id.

        Raises `SupersededError` when another client was quicker, and `BKException`.
        """
        before = await self._read(name)
        version = before.version + 1
        about = (("snapshot", name.encode()), ("version", b"%d" % version))
        writer = await self._client.create_ledger(3, 3, 2, custom_metadata=about)
        for start in range(0, len(data), self._chunk_bytes):
            await writer.add(data[start : start + self._chunk_bytes])
        await writer.close()
        node = json.dumps({"version": version, "ledger": writer.ledger_id}).encode()
        store, path = self._client.store, f"{self._path}/{name}"
        try:
            if before.node_version < 0:
                await store.create(path, node)
            else:
                await store.set(path, node, before.node_version)
        except (BadVersionError, NodeExistsError):
            raise SupersededError(f"version {version} of {name} is another client's") from None
        return writer.ledger_id

    async def get(self, name: str) -> bytes:
        """The newest version.  Raises `KeyError` when there is none, and `BKException`."""
        node = await self._read(name)
        if node.ledger_id < 0:
            raise KeyError(name)
        reader = await self._client.open_ledger_no_recovery(node.ledger_id)
        return b"".join([entry.payload async for entry in reader.read()])

    async def collect(self, removable: Removable = removable) -> list[int]:
        """Delete what is garbage; returns the ledgers' ids."""
        ledgers = await self._ledgers()
        garbage = removable(ledgers, await self._named())
        for ledger_id in garbage:
            with suppress(BKNoSuchLedgerExistsOnMetadataServerException):
                await self._client.delete_ledger(ledger_id)
        return garbage

    async def _ledgers(self) -> list[Ledger]:
        found = []
        for ledger_id in await self._client.list_ledgers():
            # Another client may collect at the same time.
            with suppress(BKNoSuchLedgerExistsOnMetadataServerException):
                metadata = await self._client.ledger_metadata(ledger_id)
                about = dict(metadata.custom_metadata)
                if "snapshot" in about:
                    found.append((ledger_id, about["snapshot"].decode(), int(about["version"])))
        return found

    async def _named(self) -> Named:
        named = {}
        with suppress(NoNodeError):
            for name in await self._client.store.children(self._path):
                node = await self._read(name)
                named[name] = node.version, node.ledger_id
        return named

    async def _read(self, name: str) -> _Node:
        try:
            data, node_version = await self._client.store.get(f"{self._path}/{name}")
        except NoNodeError:
            return _Node()
        said = json.loads(data)
        return _Node(said["version"], said["ledger"], node_version)
