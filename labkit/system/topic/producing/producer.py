"""labkit's own producer, which sends messages to a topic's partitions, singly or in batches.

In Pulsar: `client/impl/ProducerImpl.java`, `client/impl/BatchMessageContainerImpl.java`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKLedgerClosedException,
    LabkitError,
)
from labkit.system.model.message_id import MessageId
from labkit.system.model.settings import check_ranges, setting
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.messages import (
    OutgoingMessage,
    encode_batch,
    encode_in_batch,
    encode_message,
)

_OVERHEAD = 1024
"""An upper bound for the size of the producer's name, publish time and sequence id."""
_MAX_MESSAGE_SIZE = MAX_PAYLOAD_SIZE - _OVERHEAD
SEND_TIMEOUT_S = 30.0
"""How long a producer waits for an entry to be confirmed, as in Pulsar's clients by default."""


class SendTimeoutError(LabkitError):
    """A message was not confirmed in time. It may still be stored."""


@dataclass(frozen=True, slots=True)
class Batching:
    """Limits of a batch: messages, bytes (including keys, properties and framing), and the delay
    after the first message. The defaults are Pulsar's.
    """

    max_messages: int = setting(1000, at_least=1)
    max_bytes: int = setting(128 * 1024, at_least=1, at_most=_MAX_MESSAGE_SIZE)
    max_delay_ms: int = setting(10, at_least=1)

    def __post_init__(self) -> None:
        check_ranges(self)


class _Batched(NamedTuple):
    message: OutgoingMessage
    part: bytes
    stored: asyncio.Future[MessageId]


class PartitionProducer:
    """Stores messages in one partition in the order in which they were sent."""

    def __init__(
        self,
        name: str,
        partition: int,
        ledger: ManagedLedger,
        batching: Batching | None,
        client: BookKeeper,
    ) -> None:
        self._name = name
        self._partition = partition
        self._ledger = ledger
        self._batching = batching
        self._client = client
        self._batch: list[_Batched] = []
        self._batch_bytes = 0
        self._due: asyncio.TimerHandle | None = None
        self._storing: set[asyncio.Task[tuple[int, int]]] = set()

    def send(self, message: OutgoingMessage) -> asyncio.Future[MessageId]:
        """Store a message in this partition, as described in `Producer.send`."""
        stored: asyncio.Future[MessageId] = asyncio.get_running_loop().create_future()
        if self._batching is None:
            data = encode_message(message, self._name, self._client.wall_clock_ms())
            _check_size(len(data))
            self._start_storing(data, [stored])
        else:
            # Encode now, so that an invalid message fails alone and not with its whole batch.
            part = encode_in_batch(message)
            _check_size(len(part))
            self._add_to_batch(_Batched(message, part, stored), self._batching)
        return stored

    def _add_to_batch(self, item: _Batched, batching: Batching) -> None:
        size = len(item.part)
        if self._batch_bytes + size > batching.max_bytes:
            self.seal_batch()
        self._batch.append(item)
        self._batch_bytes += size
        if len(self._batch) >= batching.max_messages or self._batch_bytes >= batching.max_bytes:
            self.seal_batch()
        elif self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_later(batching.max_delay_ms / 1000, self.seal_batch)

    def seal_batch(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._batch:
            first, parts = self._batch[0].message, [item.part for item in self._batch]
            futures = [item.stored for item in self._batch]
            self._batch, self._batch_bytes = [], 0
            data = encode_batch(first, parts, self._name, self._client.wall_clock_ms())
            self._start_storing(data, futures)

    async def flush(self) -> None:
        self.seal_batch()
        while self._storing:
            await asyncio.wait(self._storing)

    def _start_storing(self, data: bytes, futures: Sequence[asyncio.Future[MessageId]]) -> None:
        # Tasks start in order, and the managed ledger's lock is fair, so entries are pushed in the
        # order in which they were sent.
        task = asyncio.get_running_loop().create_task(self._store(data, len(futures)))
        self._storing.add(task)
        task.add_done_callback(partial(self._resolve, futures))

    async def _store(self, data: bytes, message_count: int) -> tuple[int, int]:
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                stored = await self._ledger.append(data)
                ledger_id, entry_id = await stored
        except TimeoutError:
            raise SendTimeoutError(
                f"an entry of {self._ledger.name} was not confirmed within {SEND_TIMEOUT_S:g} s:"
                " check that enough bookies are running, then send its messages again; they may"
                " already be stored"
            ) from None
        self._client.recorder.record(
            "batch.stored", ledger_id, entry_id, size=message_count, topic=self._ledger.name
        )
        return ledger_id, entry_id

    def _resolve(
        self, futures: Sequence[asyncio.Future[MessageId]], task: asyncio.Task[tuple[int, int]]
    ) -> None:
        self._storing.discard(task)
        waiting = [(index, future) for index, future in enumerate(futures) if not future.done()]
        for index, future in waiting:
            if task.cancelled():
                future.cancel()
            elif (error := task.exception()) is not None:
                future.set_exception(error)
            else:
                batch_index = -1 if self._batching is None else index
                future.set_result(MessageId(*task.result(), self._partition, batch_index))


class Producer:
    """Distributes messages over the partitions of a topic.

    The hash of a message's key selects its partition. Messages without a key are distributed
    round-robin over the partitions, one batch at a time.
    """

    def __init__(
        self, name: str, partitions: Sequence[PartitionProducer], batching: Batching | None
    ) -> None:
        self.name = name
        self._partitions = partitions
        self._messages_per_turn = batching.max_messages if batching else 1
        self._sequence_id = -1
        self._keyless = 0
        self._closed = False

    def send(
        self,
        payload: bytes,
        *,
        key: str = "",
        event_time_ms: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> asyncio.Future[MessageId]:
        """Send a message. The future resolves to the message's id once the message is stored.

        The future fails with `SendTimeoutError` if that takes longer than `SEND_TIMEOUT_S`. Raises
        `BKIncorrectParameterException` if the payload is too large for an entry, and
        `BKLedgerClosedException` after `close`.
        """
        if self._closed:
            raise BKLedgerClosedException(f"producer {self.name} is closed")
        items = tuple((properties or {}).items())
        message = OutgoingMessage(payload, key, event_time_ms, items, self._sequence_id + 1)
        stored = self._choose(key).send(message)
        self._sequence_id += 1
        return stored

    async def flush(self) -> None:
        """Wait until everything sent so far is stored, or has failed."""
        await asyncio.gather(*(partition.flush() for partition in self._partitions))

    async def close(self) -> None:
        self._closed = True
        await self.flush()

    def _choose(self, key: str) -> PartitionProducer:
        if key:
            return self._partitions[java_string_hash(key) % len(self._partitions)]
        turn = self._keyless // self._messages_per_turn
        self._keyless += 1
        return self._partitions[turn % len(self._partitions)]


def _check_size(size: int) -> None:
    if size > _MAX_MESSAGE_SIZE:
        raise BKIncorrectParameterException(
            f"message is too large for an entry: expected at most {_MAX_MESSAGE_SIZE} bytes with"
            f" key and properties, got {size}"
        )


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode` without the sign bit, which is Pulsar's default key hash."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value & 0x7FFFFFFF
