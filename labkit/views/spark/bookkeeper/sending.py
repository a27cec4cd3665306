"""Sends the rows of a task to topics with Pulsar's own client, and waits until they are stored.

A row with a key goes to the partition that Pulsar's Java client would choose, and a row without
one to the partition of its number modulo the number of partitions.  So a replay makes the same
choices. (The Python client's own choice depends on the time, and it hashes keys differently.)

For exactly once, the broker's deduplication drops what is already stored. A task's producers have
the same name in every attempt, and a message's sequence id consists of

    28 bits   the micro-batch
    25 bits   the row's number in the task, from 1
    10 bits   a digest of all rows of the micro-batch that the task sent to this partition so far

A producer learns the highest stored sequence id when it connects. If that is one of the same
micro-batch, an earlier attempt was interrupted. The rows up to it are sent again without batching,
because the broker drops or stores batches as a whole, and these batches could have other
boundaries. If the replay does not reach exactly that sequence id, the rows are not the same as in
the earlier attempt, so the broker would drop the wrong ones, and the task fails.

If the broker knows no sequence id after the first message, deduplication is disabled.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Condition
from time import monotonic, sleep
from typing import NamedTuple
from zlib import crc32

import pulsar
import pyarrow as pa

from labkit.system.model.errors import BKIncorrectParameterException, LabkitError
from labkit.system.topic.names import full_name
from labkit.system.topic.producing.producer import java_string_hash
from labkit.views.spark.bookkeeper.options import MIB
from labkit.views.spark.bookkeeper.write_options import WriteOptions

_DIGEST_BITS = 10
_ROW_BITS = 25
_BATCH_BITS = 28

_MAX_PENDING = 5000
_MAX_PENDING_BYTES = 32 * MIB
_PAUSE_S = 0.2

_HINTS: dict[type[Exception], str] = {
    pulsar.Timeout: "; is the broker running?",
    pulsar.ConnectError: "; is this the address of a running broker?",
    pulsar.TopicNotFound: "; create the topic, or its namespace",
    pulsar.ProducerBusy: "; an earlier attempt of the task is still running",
}

_hash = lru_cache(100_000)(java_string_hash)


class WriteError(LabkitError):
    """Rows could not be written."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task of a micro-batch; every attempt has the same `producer` name."""

    producer: str
    batch_id: int

    def __post_init__(self) -> None:
        if self.batch_id >> _BATCH_BITS:
            raise WriteError(
                f"batch {self.batch_id} is too large for a sequence id; use a new checkpoint"
            )


class Message(NamedTuple):
    value: bytes | None
    key: str | None
    event_time_ms: int | None
    properties: dict[str, str] | None
    topic: str


def messages_of(batch: pa.RecordBatch, topic: str) -> Iterator[Message]:
    """Yield the rows; `topic` is "" if the rows name their topics. Raises `WriteError`."""

    def column(name: str) -> list[object]:
        found = batch.schema.get_field_index(name)
        return [None] * batch.num_rows if found < 0 else _converted(name, batch.column(found))

    topics = [topic] * batch.num_rows if topic else column("topic")
    columns = (*map(column, ("value", "key", "event_time", "properties")), topics)
    for row in zip(*columns, strict=True):
        message = Message(*row)
        if message.topic is None:
            raise WriteError("column 'topic' is null in a row; each row needs a topic")
        if message.event_time_ms is not None and message.event_time_ms < 0:
            raise WriteError("column 'event_time' contains a time before 1970")
        if message.properties and None in message.properties.values():
            raise WriteError(f"column 'properties' contains null: {message.properties}")
        yield message


def _converted(name: str, column: pa.Array) -> list[object]:
    if name == "value":
        column = column.cast(pa.binary())
    if name == "event_time" and pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    values: list[object] = column.to_pylist(
        maps_as_pydicts="strict" if name == "properties" else None
    )
    return values


class Sender:
    """Sends the messages of a task; use it in a `with` block.

    Without an `attempt`, every message is stored at least once, and with one exactly once.
    """

    def __init__(self, options: WriteOptions, attempt: Attempt | None) -> None:
        self._options = options
        self._attempt = attempt
        self._client = pulsar.Client(
            options.service_url,
            operation_timeout_seconds=options.retry_s,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        self.receipts = _Receipts(options.retry_s)
        self._partitions: dict[str, list[str]] = {}
        self._producers: dict[str, _PartitionProducer] = {}
        self._count = 0

    def __enter__(self) -> "Sender":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def send(self, message: Message) -> None:
        """Raise `WriteError`, also if an earlier message was not stored."""
        partitions = self._partitions.get(message.topic) or self._find_partitions(message.topic)
        turn = _hash(message.key) if message.key else self._count
        topic = partitions[turn % len(partitions)]
        self._count += 1
        producer = self._producers.get(topic)
        if producer is None:
            producer = self._producers[topic] = _PartitionProducer(self, topic, self._attempt)
        producer.send(message, self._count)

    def finish(self) -> None:
        """Wait until everything is stored. Raises `WriteError`."""
        self.receipts.wait_for_all()
        for producer in self._producers.values():
            producer.check_replayed()

    def open_producer(self, topic: str, *, batching: bool) -> pulsar.Producer:
        """Connect a producer; wait while an earlier attempt still uses its name."""

        def connect() -> pulsar.Producer:
            return self._client.create_producer(
                topic,
                self._attempt.producer if self._attempt else None,
                # After a timeout the client would send later messages first, and the broker would
                # then drop the message when it is sent again.
                send_timeout_millis=0,
                max_pending_messages=_MAX_PENDING + 1,
                batching_enabled=batching,
            )

        deadline = monotonic() + self._options.retry_s
        while True:
            try:
                return connect()
            except pulsar.ProducerBusy as error:
                if monotonic() > deadline:
                    raise self._error(topic, error) from None
            except pulsar.PulsarException as error:
                raise self._error(topic, error) from None
            sleep(_PAUSE_S)

    def _find_partitions(self, name: str) -> list[str]:
        try:
            partitions = self._client.get_topic_partitions(full_name(name))
        except BKIncorrectParameterException as error:
            raise WriteError(f"column 'topic': {error}") from None
        except pulsar.PulsarException as error:
            raise self._error(name, error) from None
        self._partitions[name] = partitions
        return partitions

    def _error(self, topic: str, error: Exception) -> WriteError:
        hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), "")
        return WriteError(f"cannot write to {topic} at {self._options.service_url}: {error}{hint}")


class _PartitionProducer:
    """Sends to one partition, or to a topic without partitions."""

    def __init__(self, sender: Sender, topic: str, attempt: Attempt | None) -> None:
        self._sender = sender
        self._topic = topic
        self._attempt = attempt
        self._digest = 0
        self._settles_at: int | None = None
        """Messages up to this sequence id are sent without batching; -1 is the first message."""
        self._producer = sender.open_producer(topic, batching=True)
        if attempt is not None:
            self._find_earlier_attempt(attempt, self._producer.last_sequence_id())

    def _find_earlier_attempt(self, attempt: Attempt, stored: int) -> None:
        stored_batch = stored >> _ROW_BITS + _DIGEST_BITS
        if stored_batch > attempt.batch_id:
            raise WriteError(
                f"{self._topic} already contains rows of batch {stored_batch} of this query, but"
                f" its checkpoint continues with batch {attempt.batch_id}; use the newest"
                " checkpoint, or a new one to write all rows again"
            )
        if stored_batch == attempt.batch_id or stored < 0:
            self._settles_at = stored
            self._reopen(batching=False)

    def send(self, message: Message, number: int) -> None:
        sequence_id = number
        if self._attempt is not None:
            sequence_id = self._sequence_id(self._attempt, message, number)
            if self._settles_at == -1:
                self._settles_at = sequence_id
        if self._settles_at is not None and sequence_id > self._settles_at:
            raise self._other_rows_error()
        receipts, value = self._sender.receipts, message.value
        self._producer.send_async(
            value,
            receipts.expect(len(value or b"")),
            properties=message.properties,
            partition_key=message.key,
            sequence_id=sequence_id,
            event_timestamp=message.event_time_ms,
        )
        if sequence_id == self._settles_at:
            receipts.wait_for_all()
            self._settles_at = None
            if self._reopen(batching=True) < 0:
                raise WriteError(
                    f"deduplication is disabled for {self._topic}, so a message could be stored"
                    " twice; enable it for the namespace, or with brokerDeduplicationEnabled=true"
                    " in broker.conf, or set option 'exactlyOnce' to 'false' to write each row at"
                    " least once. One row per task may already be stored"
                )

    def check_replayed(self) -> None:
        """Raise `WriteError` if an earlier attempt stored more rows than this one sent."""
        if self._settles_at is not None:
            raise self._other_rows_error()

    def _sequence_id(self, attempt: Attempt, message: Message, number: int) -> int:
        if number >> _ROW_BITS:
            raise WriteError(
                f"a task has more than {number - 1} rows in a micro-batch: read less per trigger,"
                " or use more partitions"
            )
        digest = crc32(b"%d:%s:" % (number, (message.key or "").encode()), self._digest)
        self._digest = crc32(message.value or b"", digest)
        row = attempt.batch_id << _ROW_BITS | number
        return row << _DIGEST_BITS | self._digest >> 32 - _DIGEST_BITS

    def _reopen(self, *, batching: bool) -> int:
        """Connect again with or without batching; return the highest stored sequence id, or -1."""
        self._producer.close()
        self._producer = self._sender.open_producer(self._topic, batching=batching)
        stored: int = self._producer.last_sequence_id()
        return stored

    def _other_rows_error(self) -> WriteError:
        return WriteError(
            f"an interrupted micro-batch is being repeated with other rows, or with its rows in"
            f" another order, than were written to {self._topic} before, so it cannot be"
            " written exactly once. This can happen after a shuffle, or if the query or the number"
            " of cores has changed. Set option 'exactlyOnce' to 'false' to write each row at least"
            " once"
        )


class _Receipts:
    """Counts the messages that are not stored yet; the client's own thread reports them."""

    def __init__(self, retry_s: int) -> None:
        self._retry_s = retry_s
        self._changed = Condition()
        self._pending = self._pending_bytes = 0
        self._failure: pulsar.Result | None = None

    def expect(self, size: int) -> Callable[[pulsar.Result, pulsar.MessageId], None]:
        """Wait until another message may be sent, and return its callback. Raises `WriteError`."""
        with self._changed:
            self._wait_until_at_most(_MAX_PENDING - 1, max(_MAX_PENDING_BYTES - size, 0))
            self._pending += 1
            self._pending_bytes += size
        return partial(self._receive, size)

    def wait_for_all(self) -> None:
        """Raise `WriteError` if a message was not stored, or if nothing happens for too long."""
        with self._changed:
            self._wait_until_at_most(0, 0)

    def _wait_until_at_most(self, count: int, size: int) -> None:
        while True:
            if self._failure is not None:
                raise WriteError(f"a message was not stored: {self._failure.name}")
            if self._pending <= count and self._pending_bytes <= size:
                return
            if not self._changed.wait(self._retry_s):
                raise WriteError(
                    f"{self._pending} messages were not stored within {self._retry_s} s: is the"
                    " broker running, and are enough bookies? Option 'retrySeconds' sets how long a"
                    " query waits"
                )

    def _receive(self, size: int, result: pulsar.Result, _: pulsar.MessageId) -> None:
        with self._changed:
            self._pending -= 1
            self._pending_bytes -= size
            if result != pulsar.Result.Ok and self._failure is None:
                self._failure = result
            self._changed.notify()
