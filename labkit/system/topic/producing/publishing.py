"""Publishing: messages of producers become entries, and each producer gets its receipts in order.

    sent        judged by deduplication, queued
    pushed      all that is queued goes to the managed ledger at once
    stored      confirmed: the producer's oldest sends that are stored get their receipts
    failed      producers no longer get receipts

A push may last: between two of its entries the managed ledger may have to begin the next ledger,
and the first ones may be stored, or fail, meanwhile.  That takes effect when the push is over,
because only then its sends count as pushed:

                      stored or failed                 takes effect
    pushed before     at any time                      in the loop's next turn
    in this push      before the push is over          after the push

A producer whose send fails must not have a later one stored: it sends again all that has no
receipt, so the later one would stand before it, or, with deduplication, hide it for good.  Hence
the first failure ends everything here: all producers are dropped, and what they send is ignored,
as they will send it again.  The topic is then opened as by a new owner: recovery finds which of the
entries in doubt are stored, and deduplication reads the same entries.

In Pulsar: `broker/service/Producer.java`, `broker/service/persistent/PersistentTopic.java`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from labkit.system.metadata.store import MetadataStore
from labkit.system.model.errors import LabkitError
from labkit.system.topic.append_queue import PendingEntry
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.messages import decode_metadata
from labkit.system.topic.producing.deduplication import (
    Deduplication,
    MessageDupStatus,
    completes_message,
)
from labkit.system.trace.recorder import Recorder

NO_POSITION: Position = (-1, -1)
"""Of a duplicate: it is stored, and where is not remembered."""

_NAMES = "/counters/producer-name"


class ProducerBusyError(LabkitError):
    """A producer of that name is attached to the topic already, or no more can be."""


class SendInDoubtError(LabkitError):
    """The same message is under way from before: send it again in a moment."""


class Send(PendingEntry):
    """An entry of a producer, with the sequence ids of its first and its last message.

    Once it `is_stored` it has a `position`, and gets its receipt when all earlier ones have theirs.
    """

    __slots__ = (
        "completes",
        "highest_sequence_id",
        "is_stored",
        "message_count",
        "position",
        "producer",
        "sequence_id",
    )

    def __init__(
        self,
        producer: "AttachedProducer",
        sequence_id: int,
        highest_sequence_id: int,
        data: bytes,
        message_count: int,
        completes: bool,
    ) -> None:
        super().__init__(data, producer.publisher)
        self.producer = producer
        self.sequence_id = sequence_id
        self.highest_sequence_id = highest_sequence_id
        self.message_count = message_count
        self.completes = completes
        self.position = NO_POSITION
        self.is_stored = False


OnReceipts = Callable[[Sequence[Send]], None]
OnFailure = Callable[[LabkitError], None]


class TopicPublisher:
    """Everything sent to a topic, on its way into the ledger.

    `on_failed` is called once, when the producers were dropped: close the topic, and open it again
    at the next lookup.
    """

    def __init__(
        self,
        ledger: ManagedLedger,
        deduplication: Deduplication | None,
        recorder: Recorder,
        on_failed: OnFailure,
    ) -> None:
        self.deduplication = deduplication
        self.takes_sends = True
        """Whether sends are stored; otherwise they are ignored."""
        self.ledger = ledger
        self._recorder = recorder
        self._on_failed = on_failed
        self._attached: dict[str, AttachedProducer] = {}
        self._queue: list[Send] = []
        self._pushing: asyncio.Task[None] | None = None
        self._in_push: set[Send] = set()
        self._after_push: list[Callable[[], None]] = []
        """What to do, once the push is over, about its sends that are stored or failed by then."""
        self._pushed_count = 0
        """How many sends are pushed and neither stored nor failed."""
        self._due: dict[AttachedProducer, None] = {}
        """The producers whose next receipts may be due in this turn."""
        self._has_failed = False
        self._loop = asyncio.get_running_loop()
        self._settled = asyncio.Event()
        self._settled.set()

    def attach(
        self, name: str, on_receipts: OnReceipts, on_dropped: OnFailure
    ) -> "AttachedProducer":
        """Let a producer send.  Raises `ProducerBusyError`.

        `on_receipts` gets what is stored, in the order of the sends and once in a turn.
        `on_dropped` says that there will be no more: the client must look the topic up again, and
        send again what has no receipt.
        """
        if name in self._attached:
            raise ProducerBusyError(f"{self.ledger.name} has a producer {name} that is connected")
        if self.deduplication is not None and not self.deduplication.has_room_for(name):
            raise ProducerBusyError(
                f"{self.ledger.name} has too many producers with long names: deduplication cannot"
                " store what it knows of one more; close some, or take shorter names"
            )
        producer = self._attached[name] = AttachedProducer(self, name, on_receipts, on_dropped)
        if self.deduplication is not None:
            self.deduplication.attached(name)
        return producer

    def stop(self) -> None:
        """Ignore all further sends: the topic is about to be closed."""
        self.takes_sends = False

    async def settled(self) -> None:
        """Wait until each send that was taken is stored and has its receipt, or all have failed."""
        await self._settled.wait()

    def fail(self, error: LabkitError) -> None:
        """Drop all producers: an entry is not stored, or another broker serves the topic now, so
        nothing sent later may be stored.

        What is stored by now gets its receipts.
        """
        if self._has_failed:
            return
        self._has_failed = True
        self.stop()
        self._queue.clear()
        self._give_receipts()
        # After the receipts, as a dropped producer sends again all that has none; over a copy, as
        # each drop takes its producer out.
        for producer in list(self._attached.values()):
            producer.drop(error)
        self._settled.set()
        self._on_failed(error)

    # Sends

    def take(self, send: Send) -> None:
        """Queue a send.  What is sent in this turn is pushed together."""
        self._queue.append(send)
        if self._pushing is None:
            self._settled.clear()
            self._pushing = self._loop.create_task(self._push())

    def remove(self, producer: "AttachedProducer") -> None:
        """Detach the producer, which frees its name."""
        if self._attached.get(producer.name) is producer:
            del self._attached[producer.name]
            if self.deduplication is not None:
                self.deduplication.detached(producer.name)

    async def _push(self) -> None:
        while self._queue:
            # What is sent while the ledger is full goes together in the next round.
            sends, self._queue = self._queue, []
            self._in_push = set(sends)
            try:
                await self.ledger.append_entries(sends)
            except LabkitError as error:
                self.fail(error)
                break
            finally:
                self._in_push = set()
            self._pushed_count += len(sends)
            actions, self._after_push = self._after_push, []
            for action in actions:
                self._loop.call_soon(action)
        self._pushing = None

    def entries_stored(self, ledger_id: int, entries: Sequence[Send]) -> None:
        """For the managed ledger."""
        self._settle(entries, partial(self._stored, ledger_id))

    def entries_failed(self, entries: Sequence[Send], error: LabkitError) -> None:
        """For the managed ledger."""
        self._settle(entries, partial(self._failed, error))

    def _settle(self, entries: Sequence[Send], action: Callable[[Sequence[Send]], None]) -> None:
        """Call `action` with the entries: with those of the push under way when it is over."""
        pushed = [send for send in entries if send not in self._in_push]
        in_push = [send for send in entries if send in self._in_push]
        if pushed:
            self._loop.call_soon(action, pushed)
        if in_push:
            self._after_push.append(partial(action, in_push))

    def _failed(self, error: LabkitError, sends: Sequence[Send]) -> None:
        self._pushed_count -= len(sends)
        self.fail(error)

    def _stored(self, ledger_id: int, sends: Sequence[Send]) -> None:
        self._pushed_count -= len(sends)
        if self._has_failed:
            return  # The topic's next owner, who may serve it already, finds out what is stored.
        for send in sends:
            send.position, send.is_stored = (ledger_id, send.entry_id), True
        if self.deduplication is not None:
            for send in sends:
                if send.completes:
                    name, highest = send.producer.name, send.highest_sequence_id
                    self.deduplication.stored(name, highest, send.position)
        if self._recorder.listening:
            self._record(sends)
        for producer in dict.fromkeys(send.producer for send in sends):
            self.schedule_receipts(producer)

    def _record(self, stored: Sequence[Send]) -> None:
        for send in stored:
            ledger_id, entry_id = send.position
            self._recorder.record(
                "batch.stored", ledger_id, entry_id, size=send.message_count, note=self.ledger.name
            )

    def schedule_receipts(self, producer: "AttachedProducer") -> None:
        """Look, later in this turn, whether its oldest sends are due for their receipts."""
        if not self._due:
            self._loop.call_soon(self._give_receipts)
        self._due[producer] = None

    def _give_receipts(self) -> None:
        due, self._due = self._due, {}
        for producer in due:
            producer.give_receipts()
        if not self._queue and self._pushing is None and not self._pushed_count:
            self._settled.set()


class AttachedProducer:
    """A producer of the topic, as long as its client is connected."""

    def __init__(
        self,
        publisher: TopicPublisher,
        name: str,
        on_receipts: OnReceipts,
        on_dropped: OnFailure,
    ) -> None:
        """Use `TopicPublisher.attach`."""
        self.name = name
        self.is_attached = True
        self.publisher = publisher
        self._on_receipts = on_receipts
        self._on_dropped = on_dropped
        self.pending_sends: deque[Send] = deque()
        """Sends without a receipt, oldest first."""

    @property
    def last_sequence_id(self) -> int:
        """The sequence id that the producer goes on from; -1: it begins, or none is remembered."""
        deduplication = self.publisher.deduplication
        return -1 if deduplication is None else deduplication.last_sequence_id(self.name)

    def send(
        self,
        sequence_id: int,
        highest_sequence_id: int,
        data: bytes,
        *,
        message_count: int = 1,
        is_chunk: bool = False,
    ) -> None:
        """Store an entry, with the sequence ids of its first and last message (0: as the first).

        Ignored when the producer was dropped or the topic is being closed: no receipt comes.
        """
        if not self.is_attached or not self.publisher.takes_sends:
            return
        completes = not is_chunk or completes_message(decode_metadata(data))
        highest = highest_sequence_id if highest_sequence_id > sequence_id else sequence_id
        send = Send(self, sequence_id, highest, data, message_count, completes)
        deduplication, status = self.publisher.deduplication, MessageDupStatus.NEW
        if deduplication is not None:
            status = deduplication.judge(self.name, sequence_id, highest, completes=completes)
        if status is MessageDupStatus.UNSURE:
            self.drop(
                SendInDoubtError(
                    f"message {sequence_id} of {self.name} is under way from an earlier connection"
                )
            )
            return
        self.pending_sends.append(send)
        if status is MessageDupStatus.NEW:
            self.publisher.take(send)
        else:
            send.is_stored = True
            self.publisher.schedule_receipts(self)

    def detach(self) -> None:
        """Take the producer out; what it sent is stored nevertheless."""
        self.is_attached = False
        self.publisher.remove(self)

    def drop(self, error: LabkitError) -> None:
        """Take nothing more from it, and report why."""
        if self.is_attached:
            self.detach()
            self._on_dropped(error)

    def give_receipts(self) -> None:
        """Give the receipts that are due: never one before that of an earlier send."""
        receipts, pending = [], self.pending_sends
        while pending and pending[0].is_stored:
            receipts.append(pending.popleft())
        if receipts and self.is_attached:
            self._on_receipts(receipts)


class ProducerNames:
    """Names for producers that bring none: no broker ever gives one twice."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._mine = ""
        self._count = 0

    async def new(self) -> str:
        """The next name.  Raises `MetadataUnavailableError`."""
        if not self._mine:
            # Drawn once: with it names differ from those of other brokers without a call for each.
            path = await self._store.create(f"{_NAMES}/-", b"", ephemeral=True, sequential=True)
            self._mine = str(int(path.rpartition("-")[2]))
        self._count += 1
        return f"labkit-{self._mine}-{self._count - 1}"
