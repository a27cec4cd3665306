"""Records the runs that the Spark lesson reads: flights published to live clusters and read back.

    python data/record.py            # writes next to this file; takes a minute

Three topics show how batching and pace affect MessageIDs. Before anything is written, the ids that
the consumer received are compared with the ids that the producers received. A fourth topic loses a
bookie while messages are being published; its trace is stored, from the first event to the last
repair.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.message_id import MessageId
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.producing.producer import Batching, Producer
from labkit.system.topic.topic import Topic
from labkit.system.trace.events import Event
from labkit.system.trace.parquet import write_parquet
from labkit.views.spark import flights
from labkit.worlds.live.processes.cluster import LocalCluster

BOOKIES = 5
PARTITIONS = 3
LOST_MESSAGE_COUNT = 3_000
SLOW_REPAIR = {"replicationRateByBytes": 20_000, "openLedgerRereplicationGracePeriod": 2_000}
REPAIR_TIMEOUT_S = 180
QUIET_S = 2.0
"""All ledgers that need a mark get it within this time of each other."""


@dataclass(frozen=True)
class Recording:
    """The settings of one topic.

    They include the number of flights, the batch settings, the limits at which ledgers roll over,
    and the pace. `followed` says whether the consumer reads during publishing or afterwards.
    """

    topic: str
    message_count: int
    batching: Batching | None
    config: ManagedLedgerConfig
    send: Callable[[Producer, int], Awaitable[list[MessageId]]]
    followed: bool = False


async def at_full_speed(producer: Producer, message_count: int) -> list[MessageId]:
    """Send the flights without pauses."""
    return await flights.publish(producer, flights.flight_events(message_count))


async def a_day_a_second(producer: Producer, message_count: int) -> list[MessageId]:
    """Send each flight when it is due, at one day of flights per second."""
    return await flights.replay(producer, flights.flight_events(message_count), day_s=1.0)


RECORDINGS = (
    Recording(
        "flights-paced",
        20_000,
        Batching(max_messages=100, max_delay_ms=20),
        ManagedLedgerConfig(max_ledger_age_ms=4_000),
        a_day_a_second,
        followed=True,
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


async def record(client: BookKeeper, recording: Recording) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Publish, read back and close one topic; return its messages, ledgers and segments."""
    topic = await Topic.create(
        client, recording.topic, partitions=PARTITIONS, config=recording.config
    )
    producer = topic.producer("timetable", batching=recording.batching)
    sending = asyncio.create_task(recording.send(producer, recording.message_count))
    if not recording.followed:
        await sending
    messages = await flights.collect(topic.consumer(), recording.topic, recording.message_count)
    acknowledged = await sending
    await producer.close()
    await topic.close()
    ledgers = await flights.ledger_chains(topic, recording.topic, range(PARTITIONS))
    received = sorted(flights.message_ids(messages)["message_id"].to_pylist())
    if received != sorted(str(message_id) for message_id in acknowledged):
        raise SystemExit(f"{recording.topic}: what was received is not what was acknowledged")
    return messages, ledgers, await flights.segments(client, ledgers)


async def record_all() -> tuple[pa.Table, pa.Table, pa.Table]:
    """Record every topic on one cluster; return all messages, ledgers and segments.

    The messages of all topics are numbered consecutively.
    """
    async with LocalCluster(bookies=BOOKIES, traced=False) as cluster:
        client = await cluster.connect()
        tables = [await record(client, recording) for recording in RECORDINGS]
    messages, *metadata = (pa.concat_tables(part) for part in zip(*tables, strict=True))
    seq = pa.array(range(messages.num_rows), flights.SCHEMA.field("seq").type)
    return messages.set_column(0, "seq", seq), *metadata


async def record_lost_bookie() -> list[Event]:
    """Record a topic that permanently loses a bookie while messages are being published.

    Another client also takes one ledger over from its writer and deletes another ledger. Return all
    events up to the repair of the last lost copy.
    """
    config = ManagedLedgerConfig(write_quorum=2, max_entries_per_ledger=200)
    events = list(flights.flight_events(LOST_MESSAGE_COUNT))
    async with LocalCluster(bookies=BOOKIES, autorecovery=SLOW_REPAIR) as cluster:
        client, other = await cluster.connect("owner"), await cluster.connect("other")
        writer, unwanted = await client.create_ledger(3, 2, 2), await client.create_ledger(3, 2, 2)
        for ledger in (writer, unwanted):
            await asyncio.gather(*(ledger.add(event.payload) for event in events[:50]))
        await other.open_ledger(writer.ledger_id)
        await unwanted.close()
        await client.delete_ledger(unwanted.ledger_id)
        topic = await Topic.create(client, "flights-lost", partitions=2, config=config)
        producer = topic.producer("timetable")
        middle = len(events) // 2
        await flights.publish(producer, events[:middle])
        await cluster.kill("b1")
        await flights.publish(producer, events[middle:])
        await producer.close()
        await topic.close()
        async with asyncio.timeout(REPAIR_TIMEOUT_S):
            while not is_repaired(cluster.trace.events):  # noqa: ASYNC110 - others repair
                await asyncio.sleep(QUIET_S)
        await cluster.settled()
        return cluster.trace.events


def is_repaired(events: Sequence[Event]) -> bool:
    """Return whether ledgers were marked as underreplicated and all of them have been repaired."""
    marks: dict[int, bool] = {}
    for event in events:
        if event.kind in ("ledger.underreplicated", "replication.done"):
            marks[event.ledger] = event.kind == "ledger.underreplicated"
    return len(marks) > 0 and not any(marks.values())


def main() -> None:
    """Write the tables and the trace, and print where they are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent)
    folder = parser.parse_args().folder
    samples = (flights.SAMPLE, flights.SAMPLE_LEDGERS, flights.SAMPLE_SEGMENTS)
    for table, sample in zip(asyncio.run(record_all()), samples, strict=True):
        flights.write_parquet(table, folder / sample.name)
        tell(folder / sample.name, table.num_rows)
    events = asyncio.run(record_lost_bookie())
    write_parquet(events, folder / flights.SAMPLE_TRACE.name)
    tell(folder / flights.SAMPLE_TRACE.name, len(events))


def tell(path: Path, row_count: int) -> None:
    print(f"{path}: {row_count} rows, {path.stat().st_size} bytes")  # noqa: T201


if __name__ == "__main__":
    main()
