"""Records the run that the Spark lesson reads: flights published to a live cluster and read back.

    python data/record.py            # writes beside this file, in half a minute

Three topics tell what batching and pace do to MessageIDs. Before anything is written, the ids that
the consumer got are compared with those that the producers were given.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from labkit.client.bookkeeper import BookKeeper
from labkit.live.cluster import LocalCluster
from labkit.model.message_id import MessageId
from labkit.spark import flights
from labkit.topic.managed_ledger import ManagedLedgerConfig
from labkit.topic.producer import Batching, Producer
from labkit.topic.topic import Topic

BOOKIES = 5
PARTITIONS = 3


@dataclass(frozen=True)
class Recording:
    """One topic: how many flights, in which batches, when its ledgers roll over, how fast."""

    topic: str
    message_count: int
    batching: Batching | None
    config: ManagedLedgerConfig
    send: Callable[[Producer, int], Awaitable[list[MessageId]]]


async def at_full_speed(producer: Producer, message_count: int) -> list[MessageId]:
    """Send the flights without a pause."""
    return await flights.publish(producer, flights.flight_events(message_count))


async def a_day_a_second(producer: Producer, message_count: int) -> list[MessageId]:
    """Send each flight when it is due."""
    return await flights.replay(producer, flights.flight_events(message_count), day_s=1.0)


RECORDINGS = (
    Recording(
        "flights-paced",
        20_000,
        Batching(max_messages=100, max_delay_ms=20),
        ManagedLedgerConfig(max_ledger_age_ms=4_000),
        a_day_a_second,
    ),
    Recording(
        "flights-single",
        12_000,
        None,
        ManagedLedgerConfig(max_entries_per_ledger=1_000),
        at_full_speed,
    ),
    Recording(
        "flights-batched",
        100_000,
        Batching(max_messages=100),
        ManagedLedgerConfig(max_entries_per_ledger=50),
        at_full_speed,
    ),
)


async def record(client: BookKeeper, recording: Recording) -> tuple[pa.Table, pa.Table]:
    """Publish, read back and close one topic; return its messages and its chains of ledgers."""
    topic = await Topic.create(
        client, recording.topic, partitions=PARTITIONS, config=recording.config
    )
    producer = topic.producer("timetable", batching=recording.batching)
    acknowledged = await recording.send(producer, recording.message_count)
    await producer.close()
    messages = await flights.collect(topic.consumer(), recording.topic)
    await topic.close()
    ledgers = await flights.ledger_chains(topic, recording.topic, range(PARTITIONS))
    received = sorted(flights.message_ids(messages)["message_id"].to_pylist())
    if received != sorted(str(message_id) for message_id in acknowledged):
        raise SystemExit(f"{recording.topic}: what was received is not what was acknowledged")
    return messages, ledgers


async def record_all() -> tuple[pa.Table, pa.Table]:
    """Record every topic on one cluster; return all messages, numbered through, and all chains."""
    async with LocalCluster(bookies=BOOKIES, traced=False) as cluster:
        client = await cluster.connect()
        tables = [await record(client, recording) for recording in RECORDINGS]
    messages, ledgers = (pa.concat_tables(part) for part in zip(*tables, strict=True))
    seq = pa.array(range(messages.num_rows), flights.SCHEMA.field("seq").type)
    return messages.set_column(0, "seq", seq), ledgers


def main() -> None:
    """Write both tables and say where."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent)
    folder = parser.parse_args().folder
    messages, ledgers = asyncio.run(record_all())
    for table, name in ((messages, flights.SAMPLE.name), (ledgers, flights.SAMPLE_LEDGERS.name)):
        path = folder / name
        flights.write_parquet(table, path)
        print(f"{path}: {table.num_rows} rows, {path.stat().st_size} bytes")  # noqa: T201


if __name__ == "__main__":
    main()
