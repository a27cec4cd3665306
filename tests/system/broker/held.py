"""A broker with an in-memory metadata store, ledgers that the test controls, and clients that
exchange raw frames with the broker.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from labkit.system.broker.broker import Broker
from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.ownership import BrokerAddress
from labkit.system.broker.policies import policies_path
from labkit.system.broker.protocol.authentication import Authenticate
from labkit.system.broker.protocol.frames import body_of, decode_frame, encode_frame
from labkit.system.broker.tenants import new_policies
from labkit.system.broker.topics import BrokerTopic
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import BaseCommand
from labkit.system.topic.append_queue import PendingEntry, group_by_appender
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.messages import OutgoingMessage, encode_message
from labkit.system.trace.recorder import Recorder
from tests.system.client.memory_store import MemoryStore
from tests.until import until

TOPIC = "persistent://public/default/topic"
FIELDS = {field.number: field.name for field in BaseCommand.DESCRIPTOR.fields}
"""The name of the field that holds a command of each type."""


def frame(kind: "BaseCommand.Type", data: bytes = b"", **fields: Any) -> bytes:
    """Return a command with these fields, and the message that follows it."""
    return encode_frame(BaseCommand(type=kind, **{FIELDS[kind]: fields}), data)


def message(sequence_id: int = 0) -> bytes:
    """Return a message as a client sends it after the SEND command."""
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
    """A ledger that stores an entry only when the test calls `store`."""

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
        """Complete the oldest `count` pending entries."""
        stored, self.pending = self.pending[:count], self.pending[count:]
        first = len(self.entries) - len(stored) - len(self.pending)
        for entry_id, entry in enumerate(stored, first):
            entry.entry_id = entry_id
        for appender, entries in group_by_appender(stored):
            appender.entries_stored(7, entries)

    def fail(self, error: LabkitError) -> None:
        """Fail all pending entries."""
        failed, self.pending = self.pending, []
        for appender, entries in group_by_appender(failed):
            appender.entries_failed(entries, error)

    def when_ended(self, action: Callable[[LabkitError], None]) -> None:
        self.tell_ended.append(action)

    async def close(self) -> None:
        self.is_closed = True


class _HeldTopic(BrokerTopic):
    ledger_class = HeldLedger


class HeldBroker(Broker):
    """A broker whose ledgers store entries only when the test allows it."""

    topic_class = _HeldTopic

    def lose_session(self) -> None:
        """End the broker's session with the metadata store; the broker gets a new session."""
        assert isinstance(self.store, _Session)
        self.store.tree.end_session(1)
        for action in self.store.actions:
            action()

    def ledger(self) -> HeldLedger:
        """Return the ledger of the only topic."""
        [topic] = self.topics
        assert isinstance(topic.ledger, HeldLedger)
        return topic.ledger


def held_broker(
    config: BrokerConfig | None = None, authenticate: Authenticate | None = None
) -> HeldBroker:
    """Create a broker without a network."""
    store: Any = _Session()
    network: Any = None
    client = BookKeeper(
        store, network, Recorder("broker", lambda: 0), lambda names, _: names, lambda: 1, lambda: 0
    )
    address = BrokerAddress("127.0.0.1:8080", "pulsar://127.0.0.1:6650")
    return HeldBroker(client, address, config or BrokerConfig(), authenticate)


class FrameClient:
    """The client's end of a simulated connection, together with the connection itself."""

    def __init__(self, broker: Broker) -> None:
        self.paused = False
        self.closed = False
        self.is_writable = True
        self.responses: list[BaseCommand] = []
        self._on_close: list[Callable[[], None]] = []
        self._on_bodies = broker.accept(self)
        self._requests = iter(range(1, 1_000_000))

    # Called by the broker on its end of the connection

    def send(self, bodies: Sequence[bytes]) -> None:
        self.responses += [decode_frame(body)[0] for body in bodies]

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

    # Called by the test on the client's end

    def give(self, *bodies: bytes) -> None:
        """Deliver frames to the broker in one receive."""
        self._on_bodies(bodies)

    def say(self, kind: "BaseCommand.Type", **fields: Any) -> None:
        """Send a command without a message."""
        self.give(frame(kind, **fields))

    def ask(self, kind: "BaseCommand.Type", **fields: Any) -> int:
        """Send a request and return its request id."""
        request_id = next(self._requests)
        self.say(kind, request_id=request_id, **fields)
        return request_id

    async def response(self, kind: "BaseCommand.Type") -> Any:
        """Wait for a command of this kind and return it; drop the commands before it."""
        await until(lambda: any(command.type == kind for command in self.responses), 5)
        while (command := self.responses.pop(0)).type != kind:
            pass
        return body_of(command)

    async def connect(self) -> "FrameClient":
        self.say(BaseCommand.CONNECT, client_version="test", protocol_version=20)
        await self.response(BaseCommand.CONNECTED)
        return self

    async def produce(self, name: str = "", producer_id: int = 1, **fields: Any) -> Any:
        """Look up the topic and register a producer; return the PRODUCER_SUCCESS command."""
        self.ask(BaseCommand.LOOKUP, topic=TOPIC)
        await self.response(BaseCommand.LOOKUP_RESPONSE)
        self.register(name, producer_id, **fields)
        return await self.response(BaseCommand.PRODUCER_SUCCESS)

    def register(self, name: str = "", producer_id: int = 1, **fields: Any) -> None:
        if name:
            fields["producer_name"] = name
        self.ask(BaseCommand.PRODUCER, topic=TOPIC, producer_id=producer_id, **fields)

    def send_messages(self, sequence_ids: Iterable[int]) -> None:
        """Send messages with these sequence ids, which the broker receives together."""
        self.give(*map(sending, sequence_ids))

    async def send_pending(self, broker: HeldBroker, count: int) -> HeldLedger:
        """Send `count` messages, and return the ledger in which they are pending."""
        self.send_messages(range(count))
        await until(lambda: len(broker.ledger().pending) == count)
        return broker.ledger()

    def close_producer(self) -> None:
        self.ask(BaseCommand.CLOSE_PRODUCER, producer_id=1)


def sending(sequence_id: int, data: bytes | None = None) -> bytes:
    """Return a frame with a SEND command and a message."""
    data = message(sequence_id) if data is None else data
    return frame(BaseCommand.SEND, data, producer_id=1, sequence_id=sequence_id)
