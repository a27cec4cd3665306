"""A managed ledger in memory, and connections that keep what they are sent: for dispatchers alone.

Cursors and the order of positions are the real ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.dispatcher import DispatchContext
from labkit.system.broker.dispatch.hashes import hash_of_key
from labkit.system.broker.dispatch.key_shared import AutoSplitRanges, StickyRanges
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.protocol.frames import position_of
from labkit.system.model.errors import BKReadException
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, CommandMessage
from labkit.system.topic.chain.acknowledged import CursorState
from labkit.system.topic.chain.chain import LedgerChain, LedgerInfo, Position
from labkit.system.topic.chain.chain_reader import StoredEntry
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.messages import (
    OutgoingMessage,
    encode_batch,
    encode_in_batch,
    encode_message,
)
from labkit.system.trace.recorder import Recorder


def surroundings(
    now_ms: Callable[[], int] = lambda: 0, *, pause_ms: int = 0, recorder: Recorder | None = None
) -> DispatchContext:
    """A topic's, whose clock stands still; failed reads are tried again after `pause_ms`."""
    recorder = recorder or Recorder("broker", lambda: 0)
    return DispatchContext("topic", now_ms, recorder, pause_ms, 4 * pause_ms)


def message(key: str = "", sequence_id: int = 0) -> bytes:
    """An entry that is one message."""
    return encode_message(OutgoingMessage(b"x", key, 0, (), sequence_id), "producer", 1)


def batch(count: int, key: str = "") -> bytes:
    """An entry of `count` messages."""
    messages = [OutgoingMessage(b"x", key, 0, (), number) for number in range(count)]
    return encode_batch(messages[0], [encode_in_batch(m) for m in messages], "producer", 1)


def key_of(choice: AutoSplitRanges | StickyRanges, owner: object) -> str:
    """A key that belongs to the consumer."""
    return next(
        key for key in map(str, range(1000)) if choice.owner_of(hash_of_key(key.encode())) is owner
    )


class MemoryLedger(ManagedLedger):
    """A managed ledger in memory, as far as a dispatcher needs one."""

    def __init__(self, *ledgers: Sequence[bytes]) -> None:
        """Ids begin with 10; the last ledger is open."""
        self._ledgers = {10 + at: list(entries) for at, entries in enumerate(ledgers)}
        links = [LedgerInfo(i, len(e), 1, 1) for i, e in self._ledgers.items()]
        links[-1] = LedgerInfo(links[-1].ledger_id)
        self.chain = LedgerChain(links)
        self.chain.open_entry_count = len(ledgers[-1])
        self.reads: list[Position] = []
        self.fails = False
        self.before_read: Callable[[], None] = lambda: None

    @property
    def ledgers(self) -> tuple[LedgerInfo, ...]:
        return self.chain.ledgers

    @property
    def last_confirmed(self) -> Position:
        return self.chain.last_before((99, 0)) or self.chain.start

    def append(self, data: bytes) -> Position:  # type: ignore[override]
        last = max(self._ledgers)
        self._ledgers[last].append(data)
        self.chain.open_entry_count += 1
        return last, self.chain.open_entry_count - 1

    async def read(self, start: Position, max_entries: int, max_bytes: int) -> list[StoredEntry]:
        self.reads.append(start)
        self.before_read()
        if self.fails:
            raise BKReadException("no bookie answers")
        found: list[StoredEntry] = []
        position = self.chain.first_from(start)
        while position is not None and len(found) < max_entries:
            found.append(StoredEntry(position, self._ledgers[position[0]][position[1]]))
            position = self.chain.first_from((position[0], position[1] + 1))
        return found

    def next_position(self, position: Position) -> Position:
        return self.chain.next_position(position)

    def previous_position(self, position: Position) -> Position:
        return self.chain.previous_position(position)

    def cursor(self, mark_delete: Position = (10, -1)) -> ManagedCursor:
        """One that begins behind the position."""
        return ManagedCursor(
            "sub", CursorState(mark_delete), self.chain, None, 1000, lambda error: None
        )


@dataclass
class Client:
    """The other end of a consumer's connection."""

    commands: list[BaseCommand] = field(default_factory=list)
    consumers: dict[int, object] = field(default_factory=dict)
    is_writable: bool = True

    def send(self, command: BaseCommand, message: bytes = b"") -> None:
        sent = BaseCommand()
        sent.CopyFrom(command)
        self.commands.append(sent)

    def probe(self) -> None:
        """It is there."""

    @property
    def received(self) -> list[CommandMessage]:
        return [c.message for c in self.commands if c.type == BaseCommand.MESSAGE]

    @property
    def positions(self) -> list[Position]:
        return [position_of(message.message_id) for message in self.received]

    @property
    def told_active(self) -> list[bool]:
        kind = BaseCommand.ACTIVE_CONSUMER_CHANGE
        return [c.active_consumer_change.is_active for c in self.commands if c.type == kind]

    def consumer(
        self,
        name: str = "c",
        *,
        permits: int = 1000,
        priority: int = 0,
        ranges: Sequence[tuple[int, int]] = (),
        partition: int = -1,
    ) -> Consumer:
        """A consumer that this client has, with permits given."""
        consumer = Consumer(
            cast(ClientConnection, self),
            1,
            name,
            partition,
            lambda _: None,
            priority=priority,
            hash_ranges=ranges,
        )
        consumer.permits = permits
        return consumer
