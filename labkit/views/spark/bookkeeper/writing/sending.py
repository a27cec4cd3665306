"""Sends the rows of a task to topics with Pulsar's own client, and waits until they are stored.

A row with a key is sent to the partition that Pulsar's Java client would choose. For a row without
a key, the partition is the row's number modulo the number of partitions. A replay therefore makes
the same choices. (The Python client's own choice depends on the time, and that client hashes keys
differently.)

To store every row exactly once, the sender relies on the broker's deduplication, which drops what
is already stored. A task's producers have the same name in every attempt. Each producer divides its
rows into batches, and the boundaries of the batches depend only on the rows, because the broker
stores or drops a batch as a whole. The broker's decision is based on the sequence id of the batch's
first message (the Python client does not send the last message's id). All messages of a batch have
the same sequence id:

    28 bits   the micro-batch
    17 bits   the number of the batch, from 1
    18 bits   a digest of all rows up to the end of the batch

A producer learns the highest stored sequence id when it connects. If that id belongs to the same
micro-batch, an earlier attempt was interrupted. If the new attempt does not produce exactly the
same sequence id, its rows are different, so the broker would drop the wrong ones; the task
therefore fails.

If the broker reports no sequence id after the first batch, deduplication is disabled.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Condition, Thread
from time import monotonic, sleep
from typing import TypeVar
from zlib import crc32

import pulsar

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.topic.names import full_name
from labkit.system.topic.producing.producer import java_string_hash
from labkit.views.spark.bookkeeper.options import MIB
from labkit.views.spark.bookkeeper.writing.messages import Message
from labkit.views.spark.bookkeeper.writing.write_options import WriteError, WriteOptions

T = TypeVar("T")

_BATCH_BITS = 17
_DIGEST_BITS = 18
_BATCH_ROWS = 1000
_BATCH_BYTES = MIB
"""A batch that is sent exactly once has at most this size, or consists of one larger message."""

_MAX_PENDING = 5000
_MAX_PENDING_BYTES = 32 * MIB
_PAUSE_S = 0.2
_NEVER_MS = 3_600_000

_RETRIED = (pulsar.ProducerBusy, pulsar.ConnectError)
"""Errors that the client itself does not retry."""
_HINTS: dict[type[Exception], str] = {
    pulsar.Timeout: "; is the broker running?",
    pulsar.ConnectError: "; is this the address of a running broker?",
    pulsar.AuthenticationError: "; set option 'token'",
    pulsar.AuthorizationError: "; grant the token's role 'produce' on the namespace",
    pulsar.TopicNotFound: "; create the topic, or its namespace",
    pulsar.ProducerBusy: "; an earlier attempt of the task is still running",
}

_hash = lru_cache(100_000)(java_string_hash)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task of a micro-batch; every attempt at the task uses the same `producer` name."""

    producer: str
    batch_id: int


class Sender:
    """Sends the messages of a task. Use a `Sender` in a `with` block.

    With an `attempt`, every message is stored exactly once; without one, at least once.
    """

    def __init__(self, options: WriteOptions, attempt: Attempt | None) -> None:
        self._options = options
        self._attempt = attempt
        self._client = pulsar.Client(
            options.service_url,
            pulsar.AuthenticationToken(options.token) if options.token else None,
            tls_trust_certs_file_path=options.tls_trust_certs or None,
            tls_validate_hostname=True,
            operation_timeout_seconds=options.retry_s,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        self.receipts = _Receipts(options.retry_s)
        self._partitions: dict[str, list[str]] = {}
        self._producers: dict[str, _AtLeastOnce | _ExactlyOnce] = {}
        self._count = 0

    def __enter__(self) -> "Sender":
        return self

    def __exit__(self, *_: object) -> None:
        # By now, either everything has been stored or the task has failed.
        with suppress(pulsar.PulsarException):
            self._client.close()

    def send(self, message: Message) -> None:
        """Send a message. Raises `WriteError` if this or an earlier message was not stored."""
        partitions = self._partitions.get(message.topic) or self._find_partitions(message.topic)
        turn = _hash(message.key) if message.key else self._count
        topic = partitions[turn % len(partitions)]
        self._count += 1
        producer = self._producers.get(topic)
        if producer is None:
            producer = self._producers[topic] = (
                _ExactlyOnce(self, topic, self._attempt)
                if self._attempt
                else _AtLeastOnce(self, topic)
            )
        producer.send(message)

    def finish(self) -> None:
        """Wait until everything is stored. Raises `WriteError` if a message was not stored."""
        for producer in self._producers.values():
            producer.finish()
        self.receipts.wait_for_all()

    def open_producer(self, topic: str, name: str | None = None) -> pulsar.Producer:
        """Connect a producer; wait while an earlier attempt still uses its name.

        A producer that has a name sends no batch until it is flushed.
        """
        # Do not set a timeout: once a message has timed out, the client would still send later
        # ones, and the broker would then drop the message when it is sent again.
        sending = {"send_timeout_millis": 0, "max_pending_messages": _MAX_PENDING + 1}
        batching = {"batching_enabled": True, "batching_max_messages": _BATCH_ROWS}
        if name:
            batching["batching_max_messages"] += 1
            batching["batching_max_allowed_size_in_bytes"] = 2 * _BATCH_BYTES
            batching["batching_max_publish_delay_ms"] = _NEVER_MS
        return self._retry(
            topic, lambda: self._client.create_producer(topic, name, **sending, **batching)
        )

    def _find_partitions(self, name: str) -> list[str]:
        try:
            topic = full_name(name)
        except BKIncorrectParameterException as error:
            raise WriteError(f"column 'topic': {error}") from None
        partitions = self._retry(topic, lambda: self._client.get_topic_partitions(topic))
        self._partitions[name] = partitions
        return partitions

    def _retry(self, topic: str, request: Callable[[], T]) -> T:
        deadline = monotonic() + self._options.retry_s
        while True:
            try:
                return request()
            except pulsar.PulsarException as error:
                if not isinstance(error, _RETRIED) or monotonic() > deadline:
                    hint = next((_HINTS[kind] for kind in _HINTS if isinstance(error, kind)), "")
                    url = self._options.service_url
                    raise WriteError(f"cannot write to {topic} at {url}: {error}{hint}") from None
            sleep(_PAUSE_S)


class _AtLeastOnce:
    """Sends messages to a partition or a non-partitioned topic, without waiting for receipts."""

    def __init__(self, sender: Sender, topic: str) -> None:
        self._receipts = sender.receipts
        self._producer = sender.open_producer(topic)
        self._count = 0

    def send(self, message: Message) -> None:
        # The client's own ids can start over if it loses its connection before the first receipt.
        self._count += 1
        _send(self._producer, message, self._count, self._receipts)

    def finish(self) -> None: ...


class _ExactlyOnce:
    """Sends messages to a partition or a non-partitioned topic, one batch after another."""

    def __init__(self, sender: Sender, topic: str, attempt: Attempt) -> None:
        self._sender = sender
        self._topic = topic
        self._attempt = attempt
        self._batch: list[Message] = []
        self._batch_bytes = self._batch_count = self._digest = 0
        self._producer = sender.open_producer(topic, attempt.producer)
        stored = self._producer.last_sequence_id()
        stored_batch_id = stored >> _BATCH_BITS + _DIGEST_BITS
        if stored_batch_id > attempt.batch_id:
            raise WriteError(
                f"{topic} already contains rows of batch {stored_batch_id} of this query, but its"
                f" checkpoint continues with batch {attempt.batch_id}; use the newest checkpoint,"
                " or a new one to write all rows again"
            )
        self._must_check = stored < 0
        self._expected = stored if stored_batch_id == attempt.batch_id else None
        """The sequence id of the last batch that an earlier attempt stored."""

    def send(self, message: Message) -> None:
        size = message.size
        is_full = len(self._batch) == _BATCH_ROWS or self._batch_bytes + size > _BATCH_BYTES
        if self._batch and is_full:
            self._send_batch()
        self._batch.append(message)
        self._batch_bytes += size

    def finish(self) -> None:
        """Send the last batch. Raises `WriteError`, for example if an earlier attempt stored more
        batches.
        """
        self._send_batch()
        if self._expected is not None:
            raise self._other_rows_error()

    def _send_batch(self) -> None:
        sequence_id = self._next_sequence_id()
        if self._expected is not None and sequence_id > self._expected:
            raise self._other_rows_error()
        if sequence_id == self._expected:
            self._expected = None
        receipts = self._sender.receipts
        for message in self._batch:
            _send(self._producer, message, sequence_id, receipts)
        self._batch.clear()
        self._batch_bytes = 0
        # `flush` waits forever if the broker is unreachable.
        Thread(target=_flush, args=(self._producer,), daemon=True).start()
        receipts.wait_for_all()
        if self._must_check:
            self._check_deduplication()

    def _next_sequence_id(self) -> int:
        self._batch_count += 1
        if self._batch_count >> _BATCH_BITS:
            raise WriteError(
                f"a task has more than {self._batch_count - 1} batches in a micro-batch: read less"
                " per trigger, or use more partitions"
            )
        for message in self._batch:
            self._digest = crc32(repr(message).encode(), self._digest)
        number = self._attempt.batch_id << _BATCH_BITS | self._batch_count
        return number << _DIGEST_BITS | self._digest >> 32 - _DIGEST_BITS

    def _check_deduplication(self) -> None:
        with suppress(pulsar.PulsarException):
            self._producer.close()
        self._producer = self._sender.open_producer(self._topic, self._attempt.producer)
        if self._producer.last_sequence_id() < 0:
            raise WriteError(
                f"deduplication is disabled for {self._topic}, so rows could be stored twice;"
                " enable it for the namespace, or with brokerDeduplicationEnabled=true in"
                " broker.conf, or set option 'exactlyOnce' to 'false' to write each row at least"
                f" once. Up to {_BATCH_ROWS} rows per task and partition are already stored"
            )
        self._must_check = False

    def _other_rows_error(self) -> WriteError:
        return WriteError(
            "an interrupted micro-batch cannot be repeated exactly once, because its rows, or their"
            f" order, differ from what was written to {self._topic} before. This can happen after a"
            " shuffle, or if the query or the number of cores has changed. Set option"
            " 'exactlyOnce' to 'false' to write each row at least once"
        )


def _send(
    producer: pulsar.Producer, message: Message, sequence_id: int, receipts: "_Receipts"
) -> None:
    producer.send_async(
        message.value,
        receipts.expect(message.size),
        properties=message.properties,
        partition_key=message.key,
        sequence_id=sequence_id,
        event_timestamp=message.event_time_ms,
    )


def _flush(producer: pulsar.Producer) -> None:
    # The receipts show which messages were not stored.
    with suppress(pulsar.PulsarException):
        producer.flush()


class _Receipts:
    """Counts the messages that are not stored yet; the client's own thread reports each result."""

    def __init__(self, retry_s: int) -> None:
        self._retry_s = retry_s
        self._changed = Condition()
        self._pending = self._pending_bytes = 0
        self._failure: pulsar.Result | None = None

    def expect(self, size: int) -> Callable[[pulsar.Result, pulsar.MessageId], None]:
        """Wait until another message may be sent, and return the callback for its receipt. Raises
        `WriteError` if an earlier message was not stored, or if no receipt arrives for too long.
        """
        with self._changed:
            self._wait_until_at_most(_MAX_PENDING - 1, max(_MAX_PENDING_BYTES - size, 0))
            self._pending += 1
            self._pending_bytes += size
        return partial(self._receive, size)

    def wait_for_all(self) -> None:
        """Raise `WriteError` if a message was not stored, or if no receipt arrives for too long."""
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
                    f"{self._pending} messages were not stored within {self._retry_s} s: are"
                    " the broker and enough bookies running? Option 'retrySeconds' sets how long a"
                    " query waits"
                )

    def _receive(self, size: int, result: pulsar.Result, _: pulsar.MessageId) -> None:
        with self._changed:
            self._pending -= 1
            self._pending_bytes -= size
            if result != pulsar.Result.Ok and self._failure is None:
                self._failure = result
            self._changed.notify()
