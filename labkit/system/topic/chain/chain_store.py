"""A chain of ledgers in the metadata store, and the ledgers themselves.

The chain's node is the truth.  A ledger is created before it joins the chain, and leaves the chain
before it is deleted: a crash in between leaves a ledger that no chain names, which wastes space,
and never a chain that names a missing ledger.

In Pulsar: `managed-ledger/.../ManagedLedgerImpl.java`, `MetaStoreImpl.java`.
"""

from contextlib import suppress
from typing import ClassVar

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.store import (
    LARGEST_NODE,
    MetadataUnavailableError,
    NodeTooLargeError,
    NoNodeError,
)
from labkit.system.model.errors import (
    BKMetadataVersionException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    LabkitError,
)
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.topic.chain.chain import LedgerChain, LedgerInfo, Position
from labkit.system.topic.chain.formats import (
    decode_chain,
    decode_properties,
    decode_terminated,
    encode_chain,
    with_property,
    with_terminated,
)
from labkit.system.topic.chain.guarded_node import GuardedNode, fenced
from labkit.system.topic.chain.retention import ledgers_to_delete
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.names import managed_ledger_name

_RESERVED = 10_000
"""Bytes of the node that a new ledger may not take: the end of that ledger and the chain's
properties, such as the mark of a deletion, need some.
"""


async def read_chain(client: BookKeeper, path: str) -> tuple[list[LedgerInfo], int]:
    """The chain and the version of its node; empty and -1 if there is none yet.

    Raises `DamagedNodeError`.
    """
    try:
        data, version = await client.store.get(path)
    except NoNodeError:
        return [], -1
    return decode_chain(data), version


class ManagedLedgerTerminatedError(LabkitError):
    """The chain is terminated: nothing is ever appended to it again."""


class ChainStore:
    """The chain of one owner, who calls one thing after the other.

    What changes the chain may raise `ManagedLedgerFencedError`, when another owner has changed it,
    and `MetadataUnavailableError`.
    """

    node_class: ClassVar[type[GuardedNode]] = GuardedNode

    def __init__(
        self, name: str, path: str, client: BookKeeper, config: ManagedLedgerConfig
    ) -> None:
        self.chain = LedgerChain()
        """The chain as this owner knows it, with the confirmed entries of the open ledger."""
        self.client = client
        self.config = config
        self._what = f"the chain of {name}"
        self._node = self.node_class(client.store, path, self._what)
        self._custom_metadata = (
            ("application", b"pulsar"),
            ("component", b"managed-ledger"),
            ("pulsar/managed-ledger", managed_ledger_name(path).encode()),
        )
        self.terminated: Position | None = None
        """The last entry of a terminated chain; None: entries may still be appended."""
        self._dropped: dict[int, None] = {}
        """Ledgers that have left the chain and must still be deleted."""

    async def take_over(self) -> None:
        """Read the chain, and recover its last ledger, which stops its writer.

        The chain is stored again at once, so that the previous owner cannot begin a new ledger.

        Raises what `BookKeeper.open_ledger` raises.
        """
        await self._node.read()
        self.terminated = decode_terminated(self._node.data)
        links = decode_chain(self._node.data)
        self.chain.replace(links)
        if links:
            self.chain.replace([*links[:-1], *await self.recovered(links[-1])])
            await self.store_closed()

    async def begin_ledger(self) -> LedgerWriter:
        """Begin a ledger at the end of the chain; empty ledgers leave the chain.

        Raises what `BookKeeper.create_ledger` raises, and `NodeTooLargeError`, after which the
        chain's node is unchanged: the topic has too many ledgers, and retention must delete some.
        """
        config = self.config
        writer = await self.client.create_ledger(
            config.ensemble_size,
            config.write_quorum,
            config.ack_quorum,
            custom_metadata=self._custom_metadata,
        )
        try:
            links = [*self._without_empty_ones(), LedgerInfo(writer.ledger_id)]
            await self._store(links, _RESERVED)
        except MetadataUnavailableError:
            raise  # The chain may name it.
        except LabkitError:
            # The chain does not name it, so no other owner will delete it.
            with suppress(MetadataUnavailableError):
                await self.client.delete_ledger(writer.ledger_id)
            raise
        return writer

    async def seal(self, writer: LedgerWriter) -> LedgerMetadata:
        """Close the chain's last ledger, or learn where another client closed it.

        Raises what `LedgerWriter.close` raises.
        """
        try:
            await writer.close()
        except BKMetadataVersionException:
            pass  # The writer has read its metadata.
        except BKNoSuchLedgerExistsOnMetadataServerException:
            raise fenced(f"{self._what}, and deleted its last ledger") from None
        return writer.metadata

    def sealed(self, ledger_id: int, metadata: LedgerMetadata) -> None:
        """Note that the last ledger is closed."""
        self.chain.replace([*self.chain.links[:-1], self._closed_link(ledger_id, metadata)])

    async def store_closed(self) -> None:
        """Store the chain as it is, without an open ledger."""
        await self._store(self._without_empty_ones())

    @property
    def properties(self) -> dict[str, str]:
        """What is stored with the chain, by name."""
        return decode_properties(self._node.data)

    async def set_property(self, name: str, value: str) -> None:
        """Store a property with the chain."""
        await self._node.write(with_property(self._node.data, name, value))

    def check_takes_entries(self) -> None:
        """Raises `ManagedLedgerTerminatedError`."""
        if self.terminated is not None:
            raise ManagedLedgerTerminatedError(f"{self._what} is terminated: it takes no entries")

    async def terminate(self, last: Position) -> Position:
        """Store the chain, of which every ledger is closed, with the mark that it ends after this
        entry.  Returns the entry, or the one after which the chain was terminated before.
        """
        if self.terminated is not None:
            return self.terminated
        links = self._without_empty_ones()
        await self._write(with_terminated(encode_chain(links, self._node.data), last), links)
        self.terminated = last
        return last

    async def trim(self, slowest: Position | None) -> list[int]:
        """Remove the ledgers that retention does not keep; `slowest` as for `ledgers_to_delete`."""
        now_ms = self.client.wall_clock_ms()
        going = ledgers_to_delete(self.chain.links, slowest, now_ms, self.config)
        if going:
            await self._store([link for link in self.chain.links if link.ledger_id not in going])
        return going

    async def delete_dropped(self) -> None:
        """Delete the ledgers that have left the chain."""
        # A copy: the loop removes what it has deleted.
        for ledger_id in list(self._dropped):
            with suppress(BKNoSuchLedgerExistsOnMetadataServerException):
                try:
                    await self.client.delete_ledger(ledger_id)
                except MetadataUnavailableError:
                    continue  # The next call tries again.
            self._dropped.pop(ledger_id, None)

    # Rules

    async def recovered(self, last: LedgerInfo) -> list[LedgerInfo]:
        """The last link, after the recovery that stops its writer; nothing if it was deleted."""
        try:
            metadata = (await self.client.open_ledger(last.ledger_id)).metadata
        except BKNoSuchLedgerExistsOnMetadataServerException:
            return []
        return [last if last.closed_at_ms else self._closed_link(last.ledger_id, metadata)]

    def _closed_link(self, ledger_id: int, metadata: LedgerMetadata) -> LedgerInfo:
        entry_count, now_ms = metadata.last_entry_id + 1, self.client.wall_clock_ms()
        return LedgerInfo(ledger_id, entry_count, metadata.length, now_ms)

    def _without_empty_ones(self) -> list[LedgerInfo]:
        return [link for link in self.chain.links if link.entry_count]

    async def _store(self, links: list[LedgerInfo], reserved: int = 0) -> None:
        """Store the chain; ledgers that are no longer in it will be deleted."""
        data = encode_chain(links, self._node.data)
        if len(data) > LARGEST_NODE - reserved:
            raise NodeTooLargeError(
                f"{self._what} has {len(links)} ledgers, and more do not fit into a node: let"
                " retention delete some, or delete the topic"
            )
        await self._write(data, links)

    async def _write(self, data: bytes, links: list[LedgerInfo]) -> None:
        await self._node.write(data)
        kept = [link.ledger_id for link in links]
        known = [link.ledger_id for link in self.chain.links]
        self._dropped.update((each, None) for each in known if each not in kept)
        self.chain.replace(links)
