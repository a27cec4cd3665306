"""An in-memory managed ledger, and connections that record everything sent to them, for testing
dispatchers in isolation.

Cursors and the order of positions use the real implementations.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import cast

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.dispatcher import DispatchContext
from labkit.system.broker.dispatch.hashes import hash_of_key
from labkit.system.broker.dispatch.key_shared import (
    AutoSplitRanges,
    KeySharedSelector,
    StickyRanges,
)
from labkit.system.broker.dispatch.multiple import MultipleConsumersDispatcher
from labkit.system.broker.dispatch.shared import SharedSelector
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.protocol.frames import position_of
from labkit.system.model.errors import BKReadException
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, CommandMessage
from labkit.system.topic.chain.chain_reader import StoredEntry
from labkit.system.topic.chain.ledger_chain import LedgerChain, LedgerInfo, Position
from labkit.system.topic.cursors.acknowledged import CursorState
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.messages import (
    OutgoingMessage,
    encode_batch,
    encode_in_batch,
    encode_message,
)
from labkit.system.trace.recorder import Recorder
from tests.scripts import ranges


def surroundings(
    now_ms: Callable[[], int] = lambda: 0, *, pause_ms: int = 0, recorder: Recorder | None = None
) -> DispatchContext:
    """Return a topic's dispatch context; failed reads are retried after `pause_ms`."""
    recorder = recorder or Recorder("broker", lambda: 0)
    return DispatchContext("topic", now_ms, recorder, pause_ms, 4 * pause_ms)


def message(key: str = "", sequence_id: int = 0) -> bytes:
    """Return an entry that contains a single message."""
    return encode_message(OutgoingMessage(b"x", key, 0, (), sequence_id), "producer", 1)


def batch(count: int, key: str = "") -> bytes:
    """Return an entry that contains a batch of `count` messages."""
    messages = [OutgoingMessage(b"x", key, 0, (), number) for number in range(count)]
    return encode_batch(messages[0], [encode_in_batch(m) for m in messages], "producer", 1)


async def settle() -> None:
    """Run the event loop until no task can make progress without the test."""
    for _ in range(100):
        await asyncio.sleep(0)


class Dispatchers:
    """Creates dispatchers, which the fixture `dispatchers` stops at the end of the test."""

    def __init__(self) -> None:
        self._made: list[MultipleConsumersDispatcher] = []

    def multiple(
        self,
        ledger: "MemoryLedger",
        selector: SharedSelector | KeySharedSelector | None = None,
        now_ms: Callable[[], int] = lambda: 0,
        recorder: Recorder | None = None,
    ) -> MultipleConsumersDispatcher:
        context = surroundings(now_ms, recorder=recorder)
        made = MultipleConsumersDispatcher(
            ledger, ledger.cursor(), selector or SharedSelector(), context
        )
        self._made.append(made)
        return made

    def stop(self) -> None:
        for dispatcher in self._made:
            dispatcher.stop()


def key_of(choice: AutoSplitRanges | StickyRanges, owner: object) -> str:
    """Return a key that is assigned to the consumer."""
    return next(
        key for key in map(str, range(1000)) if choice.owner_of(hash_of_key(key.encode())) is owner
    )


class MemoryLedger(ManagedLedger):
    """An in-memory managed ledger with the methods that a dispatcher needs."""

    def __init__(self, *ledgers: Sequence[bytes]) -> None:
        """Create one ledger per argument with ids from 10 on; the last ledger is open."""
        self._ledgers = {10 + at: list(entries) for at, entries in enumerate(ledgers)}
        links = [LedgerInfo(i, len(e), 1, 1) for i, e in self._ledgers.items()]
        links[-1] = LedgerInfo(links[-1].ledger_id)
        self.chain = LedgerChain(links)
        self.chain.open_entry_count = len(ledgers[-1])
        self.reads: list[Position] = []
        self.fails = False
        self.before_read: Callable[[], None] = lambda: None

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

    def cursor(
        self, mark_delete: Position = (10, -1), kind: type[ManagedCursor] = ManagedCursor
    ) -> ManagedCursor:
        """Return a new cursor with this mark-delete position."""
        return kind("sub", CursorState(mark_delete), self.chain, None, 1000, lambda error: None)


@dataclass
class Client:
    """The client's end of a consumer's connection."""

    commands: list[BaseCommand] = field(default_factory=list)
    consumers: dict[int, object] = field(default_factory=dict)
    is_writable: bool = True
    probes: int = 0

    def send(self, command: BaseCommand, message: bytes = b"") -> None:
        sent = BaseCommand()
        sent.CopyFrom(command)
        self.commands.append(sent)

    def probe(self) -> None:
        self.probes += 1

    def told(self, about: Callable[[BaseCommand], str]) -> list[str]:
        """Forget the commands and describe them; `{}` in a description stands for the entry ids of
        consecutive commands with that description.
        """
        commands, self.commands = self.commands, []
        return [
            description.format(ranges([each.message.message_id.entryId for each in same]))
            for description, same in groupby(commands, about)
        ]

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
        """Return a consumer of this client that already has permits."""
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
