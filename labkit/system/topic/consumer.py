"""Consumers read a topic's messages, in order within each partition.

Entries that have just been confirmed (tailing reads) and entries of closed ledgers (catch-up reads)
are read from bookies in the same way.
"""

import asyncio
from dataclasses import dataclass, replace

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reader import LedgerReader
from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    LabkitError,
)
from labkit.system.topic.chain.chain_store import read_chain
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.messages import Message, decode_messages


@dataclass(slots=True)
class _NextMessage:
    ledger_id: int = -1
    entry_id: int = 0
    batch_index: int = 0


class PartitionConsumer:
    def __init__(self, path: str, partition: int, client: BookKeeper, owner: ManagedLedger) -> None:
        self._path = path
        self._partition = partition
        self._client = client
        self._owner = owner
        self._next = _NextMessage()
        self._reader: LedgerReader | None = None
        self._messages_per_entry = 1
        self._lock = asyncio.Lock()

    async def receive(self, max_messages: int) -> list[Message]:
        """Return the next messages, up to `max_messages`.

        Fewer messages are returned if no more entries are confirmed, or if an entry cannot be read;
        in the latter case, the next call raises the error. Concurrent calls return different
        messages.
        """
        async with self._lock:
            received: list[Message] = []
            start = replace(self._next)
            try:
                while len(received) < max_messages and (reader := await self._reader_with_more()):
                    await self._receive_from(reader, received, max_messages)
            except LabkitError:
                if not received:
                    raise
            except asyncio.CancelledError:
                self._next = start
                raise
            return received

    async def _receive_from(
        self, reader: LedgerReader, received: list[Message], max_messages: int
    ) -> None:
        wanted = -(-(max_messages - len(received)) // self._messages_per_entry)
        last = min(reader.last_add_confirmed, self._next.entry_id + wanted - 1)
        for entry in await reader.read_entries(self._next.entry_id, last):
            if len(received) < max_messages:
                received += self._next_messages(reader, entry.payload, max_messages - len(received))

    def _next_messages(self, reader: LedgerReader, payload: bytes, wanted: int) -> list[Message]:
        """Return messages from the entry at the current position, and advance the position."""
        position = self._next
        messages = decode_messages(payload, reader.ledger_id, position.entry_id, self._partition)
        self._messages_per_entry = max(1, len(messages))
        taken = messages[position.batch_index : position.batch_index + wanted]
        position.batch_index += len(taken)
        if position.batch_index >= len(messages):
            position.entry_id += 1
            position.batch_index = 0
        return taken

    async def _reader_with_more(self) -> LedgerReader | None:
        """Return a reader for the ledger of the next confirmed entry, or None if there is none."""
        reader = self._reader
        if (
            reader is not None
            # `_next` may point into a newer, still empty ledger.
            and reader.ledger_id == self._next.ledger_id
            and self._next.entry_id <= reader.last_add_confirmed
        ):
            return reader
        chain, _ = await read_chain(self._client, self._path)
        for link in chain:
            if link.ledger_id < self._next.ledger_id:
                continue
            try:
                reader = await self._open(link.ledger_id)
            except BKNoSuchLedgerExistsOnMetadataServerException:
                if await self._was_trimmed(link.ledger_id):
                    continue
                raise
            if link.ledger_id > self._next.ledger_id:
                self._next = _NextMessage(link.ledger_id)
            if self._next.entry_id <= reader.last_add_confirmed:
                self._reader = reader
                return reader
        return None

    async def _was_trimmed(self, ledger_id: int) -> bool:
        chain, _ = await read_chain(self._client, self._path)
        return all(link.ledger_id != ledger_id for link in chain)

    async def _open(self, ledger_id: int) -> LedgerReader:
        reader = await self._client.open_ledger_no_recovery(ledger_id)
        writer = self._owner.writer
        if writer is not None and writer.ledger_id == ledger_id:
            # Bookies learn that an entry is confirmed only when they receive the next entry.
            reader.last_add_confirmed = max(reader.last_add_confirmed, writer.last_add_confirmed)
        return reader


class Consumer:
    def __init__(self, partitions: list[PartitionConsumer]) -> None:
        self._partitions = partitions

    async def receive(self, max_messages: int = 1000) -> list[Message]:
        """Return up to `max_messages` messages of one partition, or [] if none are left.

        Partitions take turns. Raises the same exceptions as `LedgerReader.read_entry`.
        """
        if max_messages < 1:
            raise BKIncorrectParameterException(
                f"max_messages must be at least 1, got {max_messages}"
            )
        for _ in range(len(self._partitions)):
            partition = self._partitions.pop(0)
            self._partitions.append(partition)
            received = await partition.receive(max_messages)
            if received:
                return received
        return []
