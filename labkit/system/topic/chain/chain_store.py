"""Stores a chain of ledgers in the metadata store, and creates and deletes its ledgers.

The chain's node is authoritative. A ledger is created before it is added to the chain, and removed
from the chain before it is deleted. A crash in between can thus leak a ledger to which no chain
refers, but a chain refers to missing ledgers only while its topic is being deleted (`deletion`).

In Pulsar: `managed-ledger/.../ManagedLedgerImpl.java`, `MetaStoreImpl.java`.
"""

from typing import ClassVar

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.store import (
    MAX_NODE_BYTES,
    MetadataUnavailableError,
    NodeTooLargeError,
    NoNodeError,
    OnChange,
)
from labkit.system.model.errors import (
    BKMetadataVersionException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    LabkitError,
)
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.topic.chain.formats import (
    decode_chain,
    decode_properties,
    decode_terminated,
    encode_chain,
    is_marked_for_deletion,
    with_property,
    with_terminated,
)
from labkit.system.topic.chain.guarded_node import GuardedNode, fenced_error
from labkit.system.topic.chain.ledger_chain import LedgerChain, LedgerInfo, Position
from labkit.system.topic.chain.ledgers import create_ledger, try_to_delete_ledger
from labkit.system.topic.chain.retention import ledgers_to_delete
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.names import managed_ledger_name

_RESERVED = 10_000
"""Bytes of the node that must remain free when a ledger is added. They are needed for the ledger's
counts when it is closed, and for properties of the chain, such as the deletion mark.
"""


async def read_chain(
    client: BookKeeper, path: str, on_change: OnChange | None = None
) -> tuple[list[LedgerInfo], int]:
    """Return the chain and its node's version, or [] and -1 if the node does not exist. Call
    `on_change` when the node is changed or deleted. Raises `DamagedNodeError` if the chain cannot
    be decoded.
    """
    try:
        data, version = await client.store.get(path, on_change)
    except NoNodeError:
        return [], -1
    return decode_chain(data), version


class ManagedLedgerTerminatedError(LabkitError): ...


class MarkedForDeletionError(LabkitError):
    """The deletion of the topic has begun, so it cannot be opened."""


class ChainStore:
    """A chain as seen by one owner; the owner's calls must not overlap.

    Methods that change the chain raise `ManagedLedgerFencedError` if another owner has changed it,
    and may raise `MetadataUnavailableError`.
    """

    node_class: ClassVar[type[GuardedNode]] = GuardedNode

    def __init__(
        self, name: str, path: str, client: BookKeeper, config: ManagedLedgerConfig
    ) -> None:
        self.chain = LedgerChain()
        self.client = client
        self.config = config
        self._description = f"the chain of {name}"
        self.node = self.node_class(client.store, path, self._description)
        self._managed_ledger = managed_ledger_name(path)
        self.terminated: Position | None = None
        """The last entry of a terminated chain, otherwise None."""
        self._removed: dict[int, None] = {}
        """Ledgers that were removed from the chain and must still be deleted."""

    async def take_over(self) -> None:
        """Recover the last ledger, which fences its writer. Then store the chain, so that the
        previous owner cannot add a ledger or a cursor.

        An empty chain is not stored until its first ledger is added. Raises
        `MarkedForDeletionError`, and the same exceptions as `BookKeeper.open_ledger`.
        """
        await self.node.read()
        if is_marked_for_deletion(self.node.data):
            raise MarkedForDeletionError(
                f"{self._description} is being deleted: delete it again to finish the deletion"
            )
        self.terminated = decode_terminated(self.node.data)
        links = decode_chain(self.node.data)
        self.chain.replace(links)
        if links:
            self.chain.replace([*links[:-1], *await self.recover_last_ledger(links[-1])])
        if links or self.terminated is not None:
            await self.store_closed()

    async def begin_ledger(self) -> LedgerWriter:
        """Create a ledger at the end of the chain, and remove empty ledgers from the chain.

        Raises `NodeTooLargeError` if the chain has too many ledgers for a node,
        `ManagedLedgerTerminatedError` if the chain is terminated, and the same exceptions as
        `BookKeeper.create_ledger`.
        """
        self.check_not_terminated()
        writer = await create_ledger(
            self.client, self.config, "managed-ledger", managed_ledger=self._managed_ledger
        )
        try:
            links = [*self._nonempty_links(), LedgerInfo(writer.ledger_id)]
            await self._store(links, _RESERVED)
        except MetadataUnavailableError:
            raise  # The chain may refer to the new ledger.
        except LabkitError:
            # The chain does not refer to the new ledger, so no other owner will delete it.
            await try_to_delete_ledger(self.client, writer.ledger_id)
            raise
        return writer

    async def close_last_ledger(self, writer: LedgerWriter) -> LedgerMetadata:
        """Close the last ledger, unless it is already closed."""
        try:
            await writer.close()
        except BKMetadataVersionException:
            pass  # Another client has closed it, and the writer has read the metadata.
        except BKNoSuchLedgerExistsOnMetadataServerException:
            raise fenced_error(f"{self._description}, and deleted its last ledger") from None
        return writer.metadata

    def record_closed(self, ledger_id: int, metadata: LedgerMetadata) -> None:
        self.chain.replace(
            [*self.chain.stored_ledgers[:-1], self._closed_link(ledger_id, metadata)]
        )

    async def store_closed(self) -> None:
        """Store the chain, whose ledgers must all be closed."""
        await self._store(self._nonempty_links())

    @property
    def properties(self) -> dict[str, str]:
        return decode_properties(self.node.data)

    async def set_property(self, name: str, value: str) -> None:
        await self.node.write(with_property(self.node.data, name, value))

    def check_not_terminated(self) -> None:
        if self.terminated is not None:
            raise ManagedLedgerTerminatedError(
                f"{self._description} is terminated: no entries can be appended"
            )

    async def terminate(self, last: Position) -> Position:
        """Mark the chain as terminated, unless it already is. Return its last entry."""
        if self.terminated is not None:
            return self.terminated
        links = self._nonempty_links()
        await self._write(with_terminated(encode_chain(links, self.node.data), last), links)
        self.terminated = last
        return last

    async def trim(self, slowest: Position | None) -> list[int]:
        """Remove the ledgers chosen by `ledgers_to_delete`, and return their ids."""
        now_ms = self.client.wall_clock_ms()
        deleted = ledgers_to_delete(self.chain.stored_ledgers, slowest, now_ms, self.config)
        if deleted:
            await self._store(
                [link for link in self.chain.stored_ledgers if link.ledger_id not in deleted]
            )
        return deleted

    async def delete_removed_ledgers(self) -> None:
        # Iterate over a copy, because the loop removes deleted ledgers.
        for ledger_id in list(self._removed):
            # If this fails, the next call retries.
            if await try_to_delete_ledger(self.client, ledger_id):
                self._removed.pop(ledger_id, None)

    # Rules

    async def recover_last_ledger(self, last: LedgerInfo) -> list[LedgerInfo]:
        """Recover the last ledger, which fences its writer. Return [] if it was deleted."""
        try:
            metadata = (await self.client.open_ledger(last.ledger_id)).metadata
        except BKNoSuchLedgerExistsOnMetadataServerException:
            return []
        return [last if last.closed_at_ms else self._closed_link(last.ledger_id, metadata)]

    def _closed_link(self, ledger_id: int, metadata: LedgerMetadata) -> LedgerInfo:
        entry_count, now_ms = metadata.last_entry_id + 1, self.client.wall_clock_ms()
        return LedgerInfo(ledger_id, entry_count, metadata.length, now_ms)

    def _nonempty_links(self) -> list[LedgerInfo]:
        return [link for link in self.chain.stored_ledgers if link.entry_count]

    async def _store(self, links: list[LedgerInfo], reserved: int = 0) -> None:
        """Store the chain. The caller must later call `delete_removed_ledgers`."""
        data = encode_chain(links, self.node.data)
        if len(data) > MAX_NODE_BYTES - reserved:
            raise NodeTooLargeError(
                f"{self._description} would have {len(links)} ledgers, too many for a node: reduce"
                " retention so that some are deleted, or delete the topic"
            )
        await self._write(data, links)

    async def _write(self, data: bytes, links: list[LedgerInfo]) -> None:
        await self.node.write(data)
        kept = [link.ledger_id for link in links]
        known = [link.ledger_id for link in self.chain.stored_ledgers]
        self._removed.update((each, None) for each in known if each not in kept)
        self.chain.replace(links)
