"""Deduplication: a message that a producer sends again is stored once.

A producer numbers its messages with sequence ids that grow.  For each producer of a topic there are
two marks, and a send is judged by them:

    above pushed                    new: it is pushed now
    up to persisted                 a duplicate: it is stored already
    between persisted and pushed    unsure: it is under way, and how it ends is not known yet

An owner that is unsure must neither store the message nor acknowledge it, and must take nothing
later of that producer: a later message would raise the marks over one that was never stored, which
would then pass for a duplicate and be lost.

The marks are rebuilt when a topic is opened.  The cursor `pulsar.dedup` holds them as they were at
its position, stored together with it; the entries after it are read again.  So they always say what
is stored, and not what the previous owner had received.

In Pulsar: `broker/service/persistent/MessageDeduplication.java`.
"""

import asyncio
from contextlib import suppress
from enum import Enum

from labkit.system.model.errors import BKDigestMatchException
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.messages import decode_metadata
from labkit.system.topic.names import LONGEST_NAME
from labkit.system.trace.recorder import Recorder

CURSOR_NAME = "pulsar.dedup"
LARGEST_SEQUENCE_ID = 2**63 - 1
"""Java's largest long; a mark has room for no more."""

_SNAPSHOT_INTERVAL_ENTRIES = 1000
_SNAPSHOT_INTERVAL_S = 120.0
_MAX_PRODUCERS = 10_000
_MOST_BYTES = 4 * 1024 * 1024
"""Of the marks: a snapshot must fit into one entry, since no part of it may be missing."""
_MARK_OVERHEAD = 24
"""Bytes that a mark takes besides its producer's name."""
_PRODUCER_INACTIVITY_S = 360 * 60.0
_REPLAY_ENTRIES = 1000
_REPLAY_BYTES = 4 * 1024 * 1024


class MessageDupStatus(Enum):
    """The judgement of a send."""

    NEW = "new"
    DUPLICATE = "duplicate"
    UNSURE = "unsure"


class Deduplication:
    """The marks of a topic's producers: at most 10,000 or 4 MiB, none of a producer gone for six
    hours.
    """

    def __init__(self, ledger: ManagedLedger, cursor: ManagedCursor) -> None:
        """Use `open`."""
        self._ledger = ledger
        self._cursor = cursor
        self._persisted = dict(cursor.properties)
        self._pushed: dict[str, int] = {}
        self._loop = asyncio.get_running_loop()
        self._idle_since = dict.fromkeys(self._persisted, self._loop.time())
        """The producers that are not attached, longest idle first."""
        self._attached: dict[str, int] = {}
        self._attached_bytes = 0
        self._stored_up_to: Position | None = None
        self._since_snapshot = 0
        self._due: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, ledger: ManagedLedger, recorder: Recorder) -> "Deduplication":
        """Rebuild the marks from the ledger's entries.

        The first time all entries of the topic are read.  Raises what `ManagedLedger.open_cursor`
        and `read` raise.
        """
        deduplication = cls(ledger, await ledger.open_cursor(CURSOR_NAME, "earliest"))
        count = await deduplication.replay()
        recorder.record("deduplication.rebuilt", size=count, note=ledger.name)
        return deduplication

    def last_sequence_id(self, producer: str) -> int:
        """The highest sequence id pushed, from which the producer goes on; -1: none is known."""
        return self._pushed.get(producer, self._persisted.get(producer, -1))

    def judge(
        self, producer: str, sequence_id: int, highest_sequence_id: int, *, completes: bool = True
    ) -> MessageDupStatus:
        """Judge a send, and note it as pushed if it is new.

        A batch has the sequence ids of its first and its last message.  All chunks of a message
        have the same one, and count when the last `completes` it.
        """
        if sequence_id <= self._persisted.get(producer, -1):
            return MessageDupStatus.DUPLICATE
        if sequence_id <= self._pushed.get(producer, -1):
            return MessageDupStatus.UNSURE
        if completes:
            self._pushed[producer] = highest_sequence_id
        return MessageDupStatus.NEW

    def stored(self, producer: str, highest_sequence_id: int, position: Position) -> None:
        """A send that completes its message is stored there, as are all entries before it."""
        self._persisted[producer] = highest_sequence_id
        self._stored_up_to = position
        self._since_snapshot += 1
        if self._since_snapshot >= _SNAPSHOT_INTERVAL_ENTRIES:
            self.snapshot()
        elif self._due is None:
            self._due = self._loop.call_later(_SNAPSHOT_INTERVAL_S, self.snapshot)

    def has_room_for(self, producer: str) -> bool:
        """Whether the marks of all attached producers and this one fit into a snapshot."""
        return self._attached_bytes + _mark_bytes(producer) <= _MOST_BYTES

    def attached(self, producer: str) -> None:
        """Note that the producer is connected: its marks stay."""
        self._idle_since.pop(producer, None)
        size = self._attached[producer] = _mark_bytes(producer)
        self._attached_bytes += size

    def detached(self, producer: str) -> None:
        """Note that the producer is gone; it may come back."""
        self._idle(producer)
        self._attached_bytes -= self._attached.pop(producer, 0)

    def _idle(self, producer: str) -> None:
        self._idle_since.pop(producer, None)
        self._idle_since[producer] = self._loop.time()

    def snapshot(self) -> None:
        """Let the cursor keep the marks, so that the next owner reads only later entries again."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._since_snapshot = 0
        # Before the marks are stored, or they would grow with every producer that ever was.
        self._forget_idle()
        if self._stored_up_to is not None:
            self._cursor.acknowledge_up_to(self._stored_up_to, dict(self._persisted))

    async def replay(self) -> int:
        """Read the entries after the cursor, and return their number."""
        count = 0
        ledger_id, entry_id = self._cursor.mark_delete
        start = ledger_id, entry_id + 1
        while entries := await self._ledger.read(start, _REPLAY_ENTRIES, _REPLAY_BYTES):
            for entry in entries:
                with suppress(BKDigestMatchException):  # Not a message, so no producer sent it.
                    self._note(decode_metadata(entry.data), entry.position)
            count += len(entries)
            ledger_id, entry_id = entries[-1].position
            start = ledger_id, entry_id + 1
        return count

    def _note(self, metadata: MessageMetadata, position: Position) -> None:
        highest = max(metadata.sequence_id, metadata.highest_sequence_id)
        # A client may write another name into a message than the one that it registered.
        is_known = isinstance(metadata.producer_name, str) and highest <= LARGEST_SEQUENCE_ID
        is_known = is_known and len(metadata.producer_name) <= LONGEST_NAME
        if completes_message(metadata) and is_known:
            self._idle(metadata.producer_name)
            self.stored(metadata.producer_name, highest, position)

    def _forget_idle(self) -> None:
        horizon = self._loop.time() - _PRODUCER_INACTIVITY_S
        size = sum(map(_mark_bytes, self._persisted))
        for producer, since in list(self._idle_since.items()):
            is_crowded = len(self._persisted) > _MAX_PRODUCERS or size > _MOST_BYTES
            if since > horizon and not is_crowded:
                break
            if self._pushed.get(producer, -1) > self._persisted.get(producer, -1):
                continue  # Without its marks, what it has under way would count as new.
            del self._idle_since[producer]
            self._pushed.pop(producer, None)
            if self._persisted.pop(producer, None) is not None:
                size -= _mark_bytes(producer)


def _mark_bytes(producer: str) -> int:
    return len(producer.encode()) + _MARK_OVERHEAD


def completes_message(metadata: MessageMetadata) -> bool:
    """Whether the entry is a whole message or batch, or the last chunk of a message."""
    last_chunk_id = metadata.num_chunks_from_msg - 1
    return not metadata.HasField("chunk_id") or metadata.chunk_id == last_chunk_id
