"""Deduplication: a message is stored only once, even if its producer resends it.

A producer numbers its messages with increasing sequence ids. For each producer, a topic keeps two
marks: the highest pushed and the highest persisted sequence id. Depending on its sequence id,
a send is

    new          above the pushed mark: push it
    a duplicate  not above the persisted mark: it is already stored
    unsure       in between: an earlier attempt has neither succeeded nor failed yet

In the last case, the owner must not store or acknowledge the message, and must not accept any later
message of that producer. Otherwise, message 5 could fail after message 6 has been stored and has
raised the persisted mark to 6. When the producer resends message 5, the owner would then drop it as
a duplicate, although it was never stored.

The marks are rebuilt when a topic is opened. The cursor `pulsar.dedup` stores the marks together
with its position, and the entries after that position are replayed.

In Pulsar: `broker/service/persistent/MessageDeduplication.java`.
"""

import asyncio
from contextlib import suppress
from enum import Enum

from labkit.system.model.errors import BKDigestMatchException
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.messages import decode_metadata
from labkit.system.topic.names import MAX_NAME_BYTES
from labkit.system.trace.recorder import Recorder

CURSOR_NAME = "pulsar.dedup"
MAX_SEQUENCE_ID = 2**63 - 1
"""The largest Java `long`, because a mark is stored as a `long`."""

_SNAPSHOT_INTERVAL_ENTRIES = 1000
_SNAPSHOT_INTERVAL_S = 120.0
_MAX_PRODUCERS = 10_000
_MAX_BYTES = 4 * 1024 * 1024
"""The maximum size of all marks. A snapshot must fit into one entry, because some marks could be
missing if only part of a snapshot were read.
"""
_MARK_OVERHEAD = 24
"""The size of a mark, without the producer's name."""
_PRODUCER_INACTIVITY_S = 360 * 60.0
_REPLAY_ENTRIES = 1000
_REPLAY_BYTES = 4 * 1024 * 1024


class MessageDupStatus(Enum):
    NEW = "new"
    DUPLICATE = "duplicate"
    UNSURE = "unsure"


class Deduplication:
    """Keeps the marks of at most 10,000 producers, and at most 4 MiB of marks. Forgets producers
    that have been disconnected for six hours.
    """

    def __init__(self, ledger: ManagedLedger, cursor: ManagedCursor) -> None:
        """Use `open`."""
        self._ledger = ledger
        self._cursor = cursor
        self._persisted = dict(cursor.properties)
        self._pushed: dict[str, int] = {}
        self._loop = asyncio.get_running_loop()
        self._idle_since = dict.fromkeys(self._persisted, self._loop.time())
        """When each detached producer was last attached, longest idle first."""
        self._attached: dict[str, int] = {}
        self._attached_bytes = 0
        self._stored_up_to: Position | None = None
        self._since_snapshot = 0
        self._due: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, ledger: ManagedLedger, recorder: Recorder) -> "Deduplication":
        """Rebuild the marks from the ledger's entries. The first time, this reads all entries."""
        deduplication = cls(ledger, await ledger.open_cursor(CURSOR_NAME, "earliest"))
        count = await deduplication.replay()
        recorder.record("deduplication.rebuilt", size=count, topic=ledger.name)
        return deduplication

    def last_sequence_id(self, producer: str) -> int:
        """Return the producer's highest pushed sequence id, or -1 if there is none."""
        return self._pushed.get(producer, self._persisted.get(producer, -1))

    def check_send(
        self, producer: str, sequence_id: int, highest_sequence_id: int, *, completes: bool = True
    ) -> MessageDupStatus:
        """Classify a send, and raise the pushed mark if the send is new.

        For a batch, pass the sequence ids of its first and last messages. All chunks of a message
        share one id, and only the chunk that `completes` the message raises the mark.
        """
        if sequence_id <= self._persisted.get(producer, -1):
            return MessageDupStatus.DUPLICATE
        if sequence_id <= self._pushed.get(producer, -1):
            return MessageDupStatus.UNSURE
        if completes:
            self._pushed[producer] = highest_sequence_id
        return MessageDupStatus.NEW

    def record_stored(self, producer: str, highest_sequence_id: int, position: Position) -> None:
        """Record that a completed message and all earlier entries have been stored."""
        self._persisted[producer] = highest_sequence_id
        self._stored_up_to = position
        self._since_snapshot += 1
        if self._since_snapshot >= _SNAPSHOT_INTERVAL_ENTRIES:
            self.snapshot()
        elif self._due is None:
            self._due = self._loop.call_later(_SNAPSHOT_INTERVAL_S, self.snapshot)

    def has_room_for(self, producer: str) -> bool:
        """Return whether this mark and those of all attached producers fit into a snapshot."""
        return self._attached_bytes + _mark_bytes(producer) <= _MAX_BYTES

    def producer_attached(self, producer: str) -> None:
        self._idle_since.pop(producer, None)
        size = self._attached[producer] = _mark_bytes(producer)
        self._attached_bytes += size

    def producer_detached(self, producer: str) -> None:
        self._idle(producer)
        self._attached_bytes -= self._attached.pop(producer, 0)

    def _idle(self, producer: str) -> None:
        self._idle_since.pop(producer, None)
        self._idle_since[producer] = self._loop.time()

    def snapshot(self) -> None:
        """Store the marks with the cursor, so that the next owner replays only later entries."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._since_snapshot = 0
        self._forget_idle()
        if self._stored_up_to is not None:
            self._cursor.acknowledge_up_to(self._stored_up_to, dict(self._persisted))

    async def replay(self) -> int:
        """Update the marks from the entries after the cursor. Return the number of entries."""
        count = 0
        ledger_id, entry_id = self._cursor.mark_delete
        start = ledger_id, entry_id + 1
        while entries := await self._ledger.read(start, _REPLAY_ENTRIES, _REPLAY_BYTES):
            for entry in entries:
                with suppress(BKDigestMatchException):  # Not a message, so not from a producer.
                    self._replay_entry(decode_metadata(entry.data), entry.position)
            count += len(entries)
            ledger_id, entry_id = entries[-1].position
            start = ledger_id, entry_id + 1
        return count

    def _replay_entry(self, metadata: MessageMetadata, position: Position) -> None:
        highest = max(metadata.sequence_id, metadata.highest_sequence_id)
        # The name in a message may differ from the name that the client has registered.
        is_known = isinstance(metadata.producer_name, str) and highest <= MAX_SEQUENCE_ID
        is_known = is_known and len(metadata.producer_name) <= MAX_NAME_BYTES
        if completes_message(metadata) and is_known:
            self._idle(metadata.producer_name)
            self.record_stored(metadata.producer_name, highest, position)

    def _forget_idle(self) -> None:
        horizon = self._loop.time() - _PRODUCER_INACTIVITY_S
        size = sum(map(_mark_bytes, self._persisted))
        for producer, since in list(self._idle_since.items()):
            is_crowded = len(self._persisted) > _MAX_PRODUCERS or size > _MAX_BYTES
            if since > horizon and not is_crowded:
                break
            if self._pushed.get(producer, -1) > self._persisted.get(producer, -1):
                continue  # Without the marks, unconfirmed messages would be treated as new.
            del self._idle_since[producer]
            self._pushed.pop(producer, None)
            if self._persisted.pop(producer, None) is not None:
                size -= _mark_bytes(producer)


def _mark_bytes(producer: str) -> int:
    return len(producer.encode()) + _MARK_OVERHEAD


def completes_message(metadata: MessageMetadata) -> bool:
    """Return whether the entry is not a chunk, or is the last chunk of its message."""
    last_chunk_id = metadata.num_chunks_from_msg - 1
    return not metadata.HasField("chunk_id") or metadata.chunk_id == last_chunk_id
