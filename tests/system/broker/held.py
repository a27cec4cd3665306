"""A broker on a store in memory and ledgers that the test fills, and clients as bare frames."""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from labkit.system.broker.broker import Broker
from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.policies import policies_path
from labkit.system.broker.protocol.authentication import Authenticate
from labkit.system.broker.protocol.frames import body_of, decode_frame, encode_frame
from labkit.system.broker.tenants import new_policies
from labkit.system.broker.topics import BrokerTopic
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandCloseProducer,
    CommandConnect,
    CommandLookupTopic,
    CommandProducer,
    CommandSend,
)
from labkit.system.topic.append_queue import PendingEntry, by_appender
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.messages import OutgoingMessage, encode_message
from labkit.system.topic.ownership import BrokerAddress
from labkit.system.trace.recorder import Recorder
from tests.system.client.memory_store import MemoryStore
from tests.until import until

TOPIC = "persistent://public/default/topic"


def message(sequence_id: int = 0) -> bytes:
    """A message as a client sends it behind the command."""
    return encode_message(OutgoingMessage(b"x", "", 0, (), sequence_id), "producer", 1)


class _Session(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        namespace = json.dumps(new_policies("standalone")).encode()
        self.tree.create(policies_path("public/default"), namespace, 0, False)
        self.actions: list[Callable[[], None]] = []

    def on_new_session(self, action: Callable[[], None]) -> None:
        self.actions.append(action)


class HeldLedger(ManagedLedger):
    """Stores an entry when the test says so."""

    async def open(self) -> None:
        self.entries: list[bytes] = []
        self.pending: list[PendingEntry] = []
        self.tell_ended: list[Callable[[LabkitError], None]] = []
        self.is_closed = False
        self.kept: dict[str, str] = {}

    @property
    def properties(self) -> dict[str, str]:
        return self.kept

    async def set_property(self, name: str, value: str) -> None:
        await asyncio.sleep(0)
        self.kept[name] = value

    async def append_entries(self, entries: Sequence[PendingEntry]) -> None:
        self.entries += [entry.data for entry in entries]
        self.pending += entries

    def store(self, count: int) -> None:
        """The oldest `count` are stored."""
        stored, self.pending = self.pending[:count], self.pending[count:]
        first = len(self.entries) - len(stored) - len(self.pending)
        for entry_id, entry in enumerate(stored, first):
            entry.entry_id = entry_id
        for appender, entries in by_appender(stored):
            appender.entries_stored(7, entries)

    def fail(self, error: LabkitError) -> None:
        """None of those that are left is."""
        failed, self.pending = self.pending, []
        for appender, entries in by_appender(failed):
            appender.entries_failed(entries, error)

    def when_ended(self, action: Callable[[LabkitError], None]) -> None:
        self.tell_ended.append(action)

    async def close(self) -> None:
        self.is_closed = True


class _HeldTopic(BrokerTopic):
    ledger_class = HeldLedger


class HeldBroker(Broker):
    """A broker whose ledgers are held."""

    topic_class = _HeldTopic

    def lose_session(self) -> None:
        """The metadata store has ended the broker's session, and it has a new one."""
        assert isinstance(self.store, _Session)
        self.store.tree.end_session(1)
        for action in self.store.actions:
            action()

    def ledger(self) -> HeldLedger:
        """That of the one topic."""
        [topic] = self.topics
        assert isinstance(topic.ledger, HeldLedger)
        return topic.ledger


def held_broker(
    config: BrokerConfig | None = None, authenticate: Authenticate | None = None
) -> HeldBroker:
    """A broker without a network."""
    store: Any = _Session()
    network: Any = None
    client = BookKeeper(
        store, network, Recorder("broker", lambda: 0), lambda names, _: names, lambda: 1, lambda: 0
    )
    address = BrokerAddress("127.0.0.1:8080", "pulsar://127.0.0.1:6650")
    return HeldBroker(client, address, config or BrokerConfig(), authenticate)


class FrameClient:
    """The client's end of a connection, and the wire between."""

    def __init__(self, broker: Broker) -> None:
        self.paused = False
        self.closed = False
        self.is_writable = True
        self.answers: list[BaseCommand] = []
        self._on_close: list[Callable[[], None]] = []
        self._on_bodies = broker.accept(self)
        self._requests = iter(range(1, 1_000_000))

    # The wire, as the broker sees it

    def send(self, bodies: Sequence[bytes]) -> None:
        self.answers += [decode_frame(body)[0] for body in bodies]

    def when_writable(self, on_writable: Callable[[], None]) -> None:
        self.on_writable = on_writable

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            for action in self._on_close:
                action()

    def when_closed(self, on_close: Callable[[], None]) -> None:
        self._on_close.append(on_close)

    # What the client does

    def give(self, *bodies: bytes) -> None:
        """Frames that arrive in one receive."""
        self._on_bodies(bodies)

    def say(self, kind: "BaseCommand.Type", **fields: Any) -> None:
        """A command without a message."""
        self.give(encode_frame(BaseCommand(type=kind, **fields)))

    async def answer(self, kind: "BaseCommand.Type") -> Any:
        """The next command of that kind; what came before it is forgotten."""
        await until(lambda: any(command.type == kind for command in self.answers), 5)
        while (command := self.answers.pop(0)).type != kind:
            pass
        return body_of(command)

    async def connect(self) -> "FrameClient":
        connect = CommandConnect(client_version="test", protocol_version=20)
        self.say(BaseCommand.CONNECT, connect=connect)
        await self.answer(BaseCommand.CONNECTED)
        return self

    async def produce(self, name: str = "", producer_id: int = 1, **fields: Any) -> Any:
        """Look the topic up and register a producer; its PRODUCER_SUCCESS."""
        lookup = CommandLookupTopic(topic=TOPIC, request_id=next(self._requests))
        self.say(BaseCommand.LOOKUP, lookupTopic=lookup)
        await self.answer(BaseCommand.LOOKUP_RESPONSE)
        self.register(name, producer_id, **fields)
        return await self.answer(BaseCommand.PRODUCER_SUCCESS)

    def register(self, name: str = "", producer_id: int = 1, **fields: Any) -> None:
        producer = CommandProducer(
            topic=TOPIC, producer_id=producer_id, request_id=next(self._requests), **fields
        )
        if name:
            producer.producer_name = name
        self.say(BaseCommand.PRODUCER, producer=producer)

    def send_messages(self, sequence_ids: Iterable[int]) -> None:
        """All in one receive."""
        self.give(*map(sending, sequence_ids))

    def close_producer(self) -> None:
        close = CommandCloseProducer(producer_id=1, request_id=next(self._requests))
        self.say(BaseCommand.CLOSE_PRODUCER, close_producer=close)


async def turns() -> None:
    """Let everything happen that can without anybody's doing."""
    for _ in range(50):
        await asyncio.sleep(0)


def sending(sequence_id: int, data: bytes | None = None) -> bytes:
    """A frame with a message."""
    send = CommandSend(producer_id=1, sequence_id=sequence_id)
    return encode_frame(
        BaseCommand(type=BaseCommand.SEND, send=send),
        message(sequence_id) if data is None else data,
    )
