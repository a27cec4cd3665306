"""The commands of the dispatchers' scripts: one subscription on an in-memory topic.

    ledgers 3 0 3        begin with ledgers 10, 11 and 12, which have this many entries
    batches 10 10        begin with entries that are batches of this many messages
    undecodable 1        begin with an entry that is not a message, and this many others
    keys a b             choose a key for each of these consumers, which join in this order
    keyed a b b          begin with an entry for each key
    shared, key_shared, exclusive, failover
                         the type of the subscription
    join a               connect a consumer, with `permits=2` or `priority=1`; `deaf`: its client
                         does not read
    leave a, read a      disconnect it, or let its client read
    flow a 5             give it permits
    ack a 0 12:1         let it acknowledge entries of ledger 10, or of the named ledger
    redeliver a 1        let it request entries again (none: all of them), with `epoch=4`
    append a             store another entry
    acknowledged 0       acknowledge an entry before the dispatcher starts
    left 0 3 5           acknowledge all messages of a batch except these
    skip 1               acknowledge everything up to an entry, as an administrator does
    fail, succeed        let reads fail from now on, or succeed
    hold, release        let reads wait, or end
    retry, wake          call these methods of the dispatcher
    trim                 delete the first ledger
    waiting, pending a, permits a, mark_delete, reads
                         print the dispatcher's state, and how many entries each read since the
                         last time was to return
    wait 1

Every line of commands is followed by what each client has received.
"""

import asyncio

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.dispatcher import Dispatcher
from labkit.system.broker.dispatch.key_shared import AutoSplitRanges, KeySharedSelector
from labkit.system.broker.dispatch.multiple import MultipleConsumersDispatcher
from labkit.system.broker.dispatch.shared import SharedSelector
from labkit.system.broker.dispatch.single_active import SingleActiveDispatcher
from labkit.system.broker.errors import BrokerError
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, ServerError
from labkit.system.topic.chain.chain_reader import StoredEntry
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.trace.recorder import Recorder
from tests.scripts import Commands
from tests.system.broker.in_memory import Client, MemoryLedger, batch, key_of, message, surroundings


class _HeldLedger(MemoryLedger):
    """A ledger whose reads end only when `is_open` is set."""

    def __init__(self, *ledgers: list[bytes]) -> None:
        super().__init__(*ledgers)
        self.wanted: list[int] = []
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def read(self, start: Position, max_entries: int, max_bytes: int) -> list[StoredEntry]:
        self.wanted.append(max_entries)
        found = await super().read(start, max_entries, max_bytes)
        await self.is_open.wait()
        return found


class DispatchCommands(Commands):
    def __init__(self) -> None:
        super().__init__([])
        loop = asyncio.get_running_loop()
        recorder = Recorder("broker", lambda: round(loop.time() * 1e6))
        recorder.listen(self.rows.extend)
        self._context = surroundings(pause_ms=1000, recorder=recorder)
        self._keys: dict[str, str] = {}
        self._clients: dict[str, Client] = {}
        self._consumers: dict[str, Consumer] = {}

    async def play(self, line: str) -> list[str]:
        await self.run(line)
        # In virtual time, this returns when nothing is left to do but wait.
        await asyncio.sleep(0.001)
        told = [(name, "; ".join(client.told(_about))) for name, client in self._clients.items()]
        return [*self.output(), *(f"{name}: {each}" for name, each in told if each)]

    # The topic

    async def ledgers(self, *counts: int) -> None:
        self._begin(*([message()] * count for count in counts))

    async def batches(self, *counts: int) -> None:
        self._begin([batch(count) for count in counts])

    async def undecodable(self, count: int) -> None:
        self._begin([b"not a message", *([message()] * count)])

    async def keys(self, *names: str) -> None:
        ranges, consumers = AutoSplitRanges(), [Client().consumer(name) for name in names]
        for consumer in consumers:
            ranges.add(consumer)
        self._keys = {consumer.name: key_of(ranges, consumer) for consumer in consumers}

    async def keyed(self, *names: str) -> None:
        self._begin([message(self._keys[name]) for name in names])

    def _begin(self, *ledgers: list[bytes]) -> None:
        self._ledger = _HeldLedger(*ledgers)
        self._cursor = self._ledger.cursor()

    async def append(self, name: str) -> None:
        self._ledger.append(message(self._keys[name]))
        self._dispatcher.wake()

    async def trim(self) -> None:
        count = self._ledger.chain.open_entry_count
        self._ledger.chain.replace(self._ledger.chain.stored_ledgers[1:])
        self._ledger.chain.open_entry_count = count

    async def fail(self) -> None:
        self._ledger.fails = True

    async def succeed(self) -> None:
        self._ledger.fails = False

    async def hold(self) -> None:
        self._ledger.is_open.clear()

    async def release(self) -> None:
        self._ledger.is_open.set()

    # The subscription

    async def shared(self) -> None:
        self._dispatcher: Dispatcher = self._multiple(SharedSelector())

    async def key_shared(self) -> None:
        self._dispatcher = self._multiple(KeySharedSelector(AutoSplitRanges(), keeps_order=True))

    def _multiple(self, selector: SharedSelector | KeySharedSelector) -> Dispatcher:
        return MultipleConsumersDispatcher(self._ledger, self._cursor, selector, self._context)

    async def exclusive(self, *, is_exclusive: bool = True) -> None:
        self._dispatcher = SingleActiveDispatcher(
            self._ledger, self._cursor, self._context, is_exclusive=is_exclusive
        )

    async def failover(self) -> None:
        await self.exclusive(is_exclusive=False)

    async def acknowledged(self, *words: str | int) -> None:
        self._cursor.acknowledge(map(_position, words))

    async def left(self, entry_id: int, *indexes: int) -> None:
        self._cursor.acknowledge_batch((10, entry_id), 128, sum(1 << index for index in indexes))

    async def skip(self, entry_id: int) -> None:
        self._cursor.acknowledge_up_to((10, entry_id))
        self._dispatcher.skip()

    async def retry(self) -> None:
        self._dispatcher.retry()

    async def wake(self) -> None:
        self._dispatcher.wake()

    # Consumers

    async def join(self, name: str, *options: str) -> None:
        given = dict(option.split("=") for option in options if option != "deaf")
        client = self._clients[name] = Client(is_writable="deaf" not in options)
        self._consumers[name] = client.consumer(
            name, permits=int(given.get("permits", 1000)), priority=int(given.get("priority", 0))
        )
        try:
            self._dispatcher.add(self._consumers[name])
        except BrokerError as error:
            self.print_line(f"{ServerError.Name(error.code)}: {error}")

    async def leave(self, name: str) -> None:
        self._dispatcher.remove(self._consumers[name])

    async def read(self, name: str) -> None:
        self._clients[name].is_writable = True
        self._dispatcher.wake()

    async def flow(self, name: str, permits: int) -> None:
        self._consumers[name].permits += permits
        self._dispatcher.retry()

    async def ack(self, name: str, *words: str | int) -> None:
        positions = list(map(_position, words))
        self._cursor.acknowledge(positions)
        self._dispatcher.entries_acknowledged(self._consumers[name], positions)

    async def redeliver(self, name: str, *words: str | int) -> None:
        epochs = [str(word).removeprefix("epoch=") for word in words if "epoch=" in str(word)]
        positions = [_position(word) for word in words if "epoch=" not in str(word)]
        self._dispatcher.redeliver(
            self._consumers[name], positions, int(epochs[0] if epochs else 0)
        )

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # The state

    async def waiting(self) -> None:
        assert isinstance(self._dispatcher, MultipleConsumersDispatcher)
        self.print_line(f"waiting: {_text(sorted(self._dispatcher.waiting))}")

    async def pending(self, name: str) -> None:
        self.print_line(f"pending at {name}: {_text(list(self._consumers[name].pending_acks))}")

    async def permits(self, name: str) -> None:
        self.print_line(f"permits of {name}: {self._consumers[name].permits}")

    async def mark_delete(self) -> None:
        self.print_line(f"mark-delete: {_text([self._cursor.mark_delete])}")

    async def reads(self) -> None:
        wanted, self._ledger.wanted = self._ledger.wanted, []
        self.print_line(f"entries to read: {' '.join(map(str, wanted)) or 'none'}")


def _position(word: str | int) -> Position:
    ledger_id, _, entry_id = str(word).rpartition(":")
    return int(ledger_id or 10), int(entry_id)


def _text(positions: list[Position]) -> str:
    return " ".join(f"{ledger_id}:{entry_id}" for ledger_id, entry_id in positions) or "nothing"


def _about(command: BaseCommand) -> str:
    """Return what a client was told, with `{}` for the ids of entries."""
    if command.type == BaseCommand.ACTIVE_CONSUMER_CHANGE:
        return "active" if command.active_consumer_change.is_active else "not active"
    told = command.message
    redelivery = f", redelivery {told.redelivery_count}" if told.redelivery_count else ""
    epoch = f", epoch {told.consumer_epoch}" if told.HasField("consumer_epoch") else ""
    bits = f", ack set {list(told.ack_set)}" if told.ack_set else ""
    return f"{told.message_id.ledgerId}:{{}}{redelivery}{epoch}{bits}"
