"""Tests how flights get from the package through a topic into a table.

The topic is a stand-in with the same methods, which stores two messages per entry; the notebook's
tests run the same functions on a live cluster.
"""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labkit.system.model.ledger import LedgerMetadata, Segment
from labkit.system.model.message_id import MessageId
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.system.topic.messages import Message
from labkit.views.spark import flights

pytestmark = pytest.mark.slow


class StandInTopic:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.answers: list[asyncio.Future[MessageId]] = []
        self.most_in_flight = 0
        self.pauses = 0

    def send(self, payload: bytes, *, key: str, event_time_ms: int) -> asyncio.Future[MessageId]:
        count = len(self.messages)
        message_id = MessageId(7, count // 2, 0, count % 2)
        message = Message(
            message_id, payload, key, {}, count, event_time_ms, count, "stand-in", batch_size=2
        )
        self.messages.append(message)
        self.answers.append(asyncio.get_running_loop().create_future())
        self.most_in_flight = max(
            self.most_in_flight, sum(not answer.done() for answer in self.answers)
        )
        return self.answers[-1]

    async def flush(self) -> None:
        for answer, message in zip(self.answers, self.messages, strict=True):
            if not answer.done():
                answer.set_result(message.message_id)

    async def receive(self, *, max_messages: int) -> list[Message]:
        if self.pauses:
            self.pauses -= 1
            return []
        received, self.messages = self.messages[:max_messages], self.messages[max_messages:]
        return received

    async def ledgers(self, partition: int) -> list[LedgerInfo]:
        return [LedgerInfo(7 + partition + 2 * i, 50, 9000, 10 + i) for i in range(2)]


@pytest.fixture
def topic() -> Any:
    return StandInTopic()


def test_flights_come_in_the_order_of_their_scheduled_departure() -> None:
    times = [event.event_time_ms for event in flights.flight_events()]
    assert len(times) == 336_776
    assert times == sorted(times)


def test_first_flight_of_2013_left_newark_for_houston() -> None:
    (event,) = flights.flight_events(1)
    assert event.key == "UA"
    assert event.event_time_ms == 1_357_035_300_000  # 2013-01-01 05:15 in New York time
    assert json.loads(event.payload) == {
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "dep_delay": 2,
        "arr_delay": 11,
        "air_time": 227,
        "distance": 1400,
    }


def test_cancelled_flight_has_nulls_in_its_payload() -> None:
    payloads = [json.loads(event.payload) for event in flights.flight_events(1000)]
    cancelled = [payload for payload in payloads if payload["dep_delay"] is None]
    assert len(cancelled) > 0
    assert all(payload["air_time"] is None for payload in cancelled)


def test_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "PACKAGE", "no_such_package")
    with pytest.raises(FileNotFoundError, match="pip install no_such_package"):
        next(flights.flight_events(1))


async def test_what_is_collected_is_what_was_published(topic: Any, tmp_path: Path) -> None:
    events = list(flights.flight_events(5_001))
    acknowledged = await flights.publish(topic, events)
    table = await flights.collect(topic, "flights")

    assert flights.message_ids(table)["message_id"].to_pylist() == [str(i) for i in acknowledged]
    assert table["seq"].to_pylist() == list(range(5_001))
    assert table["key"].to_pylist() == [event.key for event in events]
    assert table["event_time_ms"].to_pylist() == [event.event_time_ms for event in events]
    assert table["payload_size"].to_pylist() == [len(event.payload) for event in events]
    flights.write_parquet(table, tmp_path / "messages.parquet")
    assert pq.read_table(tmp_path / "messages.parquet").to_pylist() == table.to_pylist()


async def test_publisher_waits_when_too_many_answers_are_open(
    topic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flights, "MESSAGES_IN_FLIGHT", 40)
    await flights.publish(topic, flights.flight_events(100))
    assert topic.most_in_flight == 40


async def test_replay_sends_every_event_in_order(topic: Any) -> None:
    events = list(flights.flight_events(200))
    acknowledged = await flights.replay(topic, events, day_s=0.01)
    assert [message.payload for message in topic.messages] == [event.payload for event in events]
    assert acknowledged == [message.message_id for message in topic.messages]


async def test_empty_topic_gives_an_empty_table(topic: Any) -> None:
    table = await flights.collect(topic, "flights")
    assert (table.num_rows, table.schema) == (0, flights.SCHEMA)


async def test_consumer_that_follows_waits_for_messages_that_are_still_to_come(topic: Any) -> None:
    await flights.publish(topic, flights.flight_events(20))
    topic.pauses = 3
    table = await flights.collect(topic, "flights", 20)
    assert table["seq"].to_pylist() == list(range(20))
    assert min(table["receive_time_ms"].to_pylist()) >= 1_700_000_000_000


def closed(last: int, *segments: Segment) -> LedgerMetadata:
    return LedgerMetadata(3, 2, 2, segments).closed(last, 100)


async def test_segments_are_the_runs_of_entries_of_each_ensemble() -> None:
    abc, abd, ebd = ("a", "b", "c"), ("a", "b", "d"), ("e", "b", "d")
    ledgers = {
        7: closed(9, Segment(0, abc), Segment(4, abd)),
        9: closed(2, Segment(0, abc)),
        11: closed(-1, Segment(0, ebd)),
    }

    async def ledger_metadata(ledger_id: int) -> LedgerMetadata:
        return ledgers[ledger_id]

    client: Any = SimpleNamespace(ledger_metadata=ledger_metadata)
    rows = [{"topic": "t", "partition": 0, "ledger": ledger} for ledger in ledgers]
    table = await flights.segments(client, pa.Table.from_pylist(rows))
    columns = ["ledger", "first_entry", "last_entry", "write_quorum", "ensemble"]
    assert [tuple(row.values()) for row in table.select(columns).to_pylist()] == [
        (7, 0, 3, 2, list(abc)),
        (7, 4, 9, 2, list(abd)),
        (9, 0, 2, 2, list(abc)),
    ]


async def test_chains_of_all_partitions_are_kept(topic: Any) -> None:
    table = await flights.ledger_chains(topic, "flights", range(2))
    assert table.select(["partition", "ledger", "closed_at_ms"]).to_pylist() == [
        {"partition": 0, "ledger": 7, "closed_at_ms": 10},
        {"partition": 0, "ledger": 9, "closed_at_ms": 11},
        {"partition": 1, "ledger": 8, "closed_at_ms": 10},
        {"partition": 1, "ledger": 10, "closed_at_ms": 11},
    ]


def test_recorded_ledgers_are_those_of_the_recorded_messages() -> None:
    messages = pq.read_table(flights.SAMPLE, schema=flights.SCHEMA).to_pandas()
    ledgers = pq.read_table(flights.SAMPLE_LEDGERS, schema=flights.LEDGER_SCHEMA).to_pandas()
    received = messages.groupby(["topic", "partition", "ledger"])["entry"].nunique().to_dict()
    keys = zip(ledgers["topic"], ledgers["partition"], ledgers["ledger"], strict=True)
    assert received == dict(zip(keys, ledgers["entry_count"], strict=True))
    assert len(messages) >= 100_000
    segments = pq.read_table(flights.SAMPLE_SEGMENTS, schema=flights.SEGMENT_SCHEMA).to_pandas()
    counts = (segments["last_entry"] - segments["first_entry"] + 1).groupby(segments["ledger"])
    assert counts.sum().to_dict() == ledgers.set_index("ledger")["entry_count"].to_dict()
    assert flights.SAMPLE.stat().st_size <= 3_000_000
