"""Stores messages from producers as entries, and sends receipts to each producer in order.

    sent        checked by deduplication, then queued
    appended    all queued sends are passed to the managed ledger in one call
    stored      confirmed; each producer gets receipts for its oldest stored sends
    failed      the producers get no more receipts

After a producer's send has failed, none of its later sends may be stored, because the producer
resends every message without a receipt. Otherwise, the later message would be stored before the
failed one and, with deduplication, the failed one would even be dropped as a duplicate when it is
resent.

Therefore, the first failure stops the publisher: all producers are dropped, and their further sends
are ignored. The topic is then reopened as if by a new owner. Recovery determines which of the
unsettled entries are stored, and deduplication reads the same entries.

In Pulsar: `broker/service/Producer.java`, `broker/service/persistent/PersistentTopic.java`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter

from labkit.system.metadata.store import MetadataStore
from labkit.system.model.errors import LabkitError
from labkit.system.topic.append_queue import PendingEntry
from labkit.system.topic.chain.ledger_chain import NOWHERE, Position
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.producing.deduplication import Deduplication, MessageDupStatus
from labkit.system.trace.events import Fields
from labkit.system.trace.recorder import Recorder

_NAMES = "/counters/producer-name"


class ProducerBusyError(LabkitError):
    """The name is in use on this topic, or there are too many producers."""


@dataclass(slots=True, eq=False)
class Send(PendingEntry):
    """An entry sent by a producer, with the sequence ids of its first and last messages.

    `position` is set when `is_stored` becomes True, but stays `NOWHERE` for a duplicate, because
    the position of the stored message is unknown. The receipt is sent after the receipts for all
    earlier sends.
    """

    producer: "AttachedProducer"
    sequence_id: int
    highest_sequence_id: int
    message_count: int
    completes: bool
    is_appended: bool = False
    """Whether `append_entries` has returned; the publisher reacts to outcomes only afterwards."""
    position: Position = NOWHERE
    is_stored: bool = False


OnReceipts = Callable[[Sequence[Send]], None]


class TopicPublisher:
    """Appends the sends of all producers of a topic to its managed ledger.

    Calls `on_failed` once, after dropping all producers. The topic must then be closed, and
    reopened at the next lookup.
    """

    def __init__(
        self,
        ledger: ManagedLedger,
        deduplication: Deduplication | None,
        recorder: Recorder,
        on_failed: Callable[[LabkitError], None],
    ) -> None:
        self.deduplication = deduplication
        self.accepts_sends = True
        """Whether sends are accepted; if not, they are ignored."""
        self.ledger = ledger
        self._recorder = recorder
        self._on_failed = on_failed
        self._attached: dict[str, AttachedProducer] = {}
        self._queue: list[Send] = []
        self._appending: asyncio.Task[None] | None = None
        self._unsettled_count = 0
        """The number of sends that are neither stored nor failed."""
        self._held: list[Callable[[], None]] = []
        """Reactions to the outcomes of sends that are being appended."""
        self._due: dict[AttachedProducer, None] = {}
        """The producers whose receipts to send in this turn of the event loop."""
        self._has_failed = False
        self._loop = asyncio.get_running_loop()
        self._settled = asyncio.Event()
        self._settled.set()

    def attach(
        self, name: str, on_receipts: OnReceipts, on_dropped: Callable[[], None]
    ) -> "AttachedProducer":
        """Raise `ProducerBusyError` if the name is in use, or the topic has too many producers.

        `on_receipts` is called with the stored sends, in order, and at most once per turn of the
        event loop. After `on_dropped`, the client must resend every message without a receipt.
        """
        if name in self._attached:
            raise ProducerBusyError(f"producer {name} is already connected to {self.ledger.name}")
        if self.deduplication is not None and not self.deduplication.has_room_for(name):
            raise ProducerBusyError(
                f"{self.ledger.name} has too many producers with long names: deduplication cannot"
                " store the sequence id of another one; close some producers, or use shorter names"
            )
        producer = self._attached[name] = AttachedProducer(self, name, on_receipts, on_dropped)
        if self.deduplication is not None:
            self.deduplication.producer_attached(name)
        return producer

    def stop(self) -> None:
        """Ignore all further sends, because the topic is about to be closed."""
        self.accepts_sends = False

    async def wait_until_settled(self) -> None:
        """Wait until every accepted send has received its receipt or failed."""
        await self._settled.wait()

    def fail(self, error: LabkitError) -> None:
        """Send receipts for stored sends, then drop all producers.

        No later send may be stored, because an entry has failed or another broker serves the topic.
        """
        if self._has_failed:
            return
        self._has_failed = True
        self.stop()
        self._queue.clear()
        self._give_receipts()
        # Iterate over a copy, because `drop` removes the producer.
        for producer in list(self._attached.values()):
            producer.drop()
        self._settled.set()
        self._on_failed(error)

    # Sends

    def enqueue(self, send: Send) -> None:
        """Queue a send. All sends of the same turn of the event loop are appended together."""
        self._queue.append(send)
        self._unsettled_count += 1
        self._settled.clear()
        if self._appending is None:
            self._appending = self._loop.create_task(self._append())

    def remove(self, producer: "AttachedProducer") -> None:
        if self._attached.get(producer.name) is producer:
            del self._attached[producer.name]
            if self.deduplication is not None:
                self.deduplication.producer_detached(producer.name)

    async def _append(self) -> None:
        while self._queue:
            sends, self._queue = self._queue, []
            try:
                await self.ledger.append_entries(sends)
            except LabkitError as error:
                self.fail(error)
                break
            for send in sends:
                send.is_appended = True
            held, self._held = self._held, []
            for reaction in held:
                self._loop.call_soon(reaction)
        self._appending = None

    def entries_stored(self, ledger_id: int, entries: Sequence[Send]) -> None:
        for is_appended, sends in groupby(entries, attrgetter("is_appended")):
            self._react(is_appended, partial(self._stored, ledger_id, [*sends]))

    def entries_failed(self, entries: Sequence[Send], error: LabkitError) -> None:
        self._react(entries[0].is_appended, partial(self.fail, error))

    def _react(self, is_appended: bool, reaction: Callable[[], None]) -> None:
        if is_appended:
            self._loop.call_soon(reaction)
        else:
            self._held.append(reaction)

    def _stored(self, ledger_id: int, sends: Sequence[Send]) -> None:
        self._unsettled_count -= len(sends)
        if self._has_failed:
            return  # Recovery will determine which entries were stored.
        for send in sends:
            send.position, send.is_stored = (ledger_id, send.entry_id), True
        if self.deduplication is not None:
            for send in sends:
                if send.completes:
                    name, highest = send.producer.name, send.highest_sequence_id
                    self.deduplication.record_stored(name, highest, send.position)
        if self._recorder.listening:
            for send in sends:
                fields = Fields(size=send.message_count, topic=self.ledger.name)
                self._recorder.record("batch.stored", *send.position, **fields)
        for producer in dict.fromkeys(send.producer for send in sends):
            self.schedule_receipts(producer)

    def schedule_receipts(self, producer: "AttachedProducer") -> None:
        if not self._due:
            self._loop.call_soon(self._give_receipts)
        self._due[producer] = None

    def _give_receipts(self) -> None:
        due, self._due = self._due, {}
        for producer in due:
            producer.send_receipts()
        if not self._unsettled_count:
            self._settled.set()


@dataclass(slots=True, eq=False)
class AttachedProducer:
    """A producer that is attached to a topic. `TopicPublisher.attach` creates it."""

    publisher: TopicPublisher
    name: str
    on_receipts: OnReceipts
    on_dropped: Callable[[], None]
    is_attached: bool = True
    pending_sends: deque[Send] = field(default_factory=deque)
    """Sends without a receipt, oldest first."""

    @property
    def last_sequence_id(self) -> int:
        """The highest sequence id that was sent, whether stored or not; -1 if there is none."""
        deduplication = self.publisher.deduplication
        return -1 if deduplication is None else deduplication.last_sequence_id(self.name)

    def send(
        self,
        sequence_id: int,
        highest_sequence_id: int,
        data: bytes,
        *,
        message_count: int = 1,
        completes: bool = True,
    ) -> None:
        """Store an entry, unless the producer was dropped or the topic is being closed.

        The sequence ids belong to the entry's first and last messages. A highest id of 0 means that
        they are equal. `completes` is False for a chunk that does not complete its message.
        """
        if not self.is_attached or not self.publisher.accepts_sends:
            return
        highest = max(highest_sequence_id, sequence_id)
        send = Send(data, self.publisher, self, sequence_id, highest, message_count, completes)
        deduplication, status = self.publisher.deduplication, MessageDupStatus.NEW
        if deduplication is not None:
            status = deduplication.check_send(self.name, sequence_id, highest, completes=completes)
        if status is MessageDupStatus.UNSURE:
            # An earlier attempt to store the message is still pending. The client will resend it.
            self.drop()
            return
        self.pending_sends.append(send)
        if status is MessageDupStatus.NEW:
            self.publisher.enqueue(send)
        else:
            send.is_stored = True
            self.publisher.schedule_receipts(self)

    def detach(self) -> None:
        """Free the name. All messages sent so far will still be stored."""
        self.is_attached = False
        self.publisher.remove(self)

    def drop(self) -> None:
        if self.is_attached:
            self.detach()
            self.on_dropped()

    def send_receipts(self) -> None:
        """Send receipts for the stored sends that precede the first unstored one."""
        receipts, pending = [], self.pending_sends
        while pending and pending[0].is_stored:
            receipts.append(pending.popleft())
        if receipts and self.is_attached:
            self.on_receipts(receipts)


class ProducerNames:
    """Generates unique producer names for clients that choose none, across all brokers."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._prefix = ""
        self._count = 0

    async def new(self) -> str:
        """Raise `MetadataUnavailableError` if the first name cannot be obtained."""
        if not self._prefix:
            # With the prefix, names are unique without a metadata request for each name.
            path = await self._store.create(f"{_NAMES}/-", b"", ephemeral=True, sequential=True)
            self._prefix = str(int(path.rpartition("-")[2]))
        self._count += 1
        return f"labkit-{self._prefix}-{self._count - 1}"
