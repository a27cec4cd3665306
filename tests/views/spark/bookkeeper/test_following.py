"""Tests which messages a stream reads at each trigger, without starting Spark."""

from dataclasses import replace
from random import Random
from typing import cast

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reader import LedgerReader
from labkit.system.metadata.store import OnChange
from labkit.system.model.entry import Entry
from labkit.system.model.message_id import MessageId
from labkit.system.topic.chain.chain_store import read_chain
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.views.spark.bookkeeper import counting, directory
from labkit.views.spark.bookkeeper.directory import Chains, LedgerDirectory
from labkit.views.spark.bookkeeper.entries import read_chunk, read_span
from labkit.views.spark.bookkeeper.following import StreamFollower
from labkit.views.spark.bookkeeper.offsets import Offset, encode_offset
from labkit.views.spark.bookkeeper.opening import LedgerGoneError, open_reader
from labkit.views.spark.bookkeeper.options import Options, read_options
from labkit.views.spark.bookkeeper.rows import SpanRows
from labkit.views.spark.bookkeeper.spans import EntrySpan, Lane, LedgerSnapshot
from tests.repeat import repeated
from tests.views.spark.bookkeeper.stage import Stage, numbered


def options(stage: Stage, **given: str) -> Options:
    return read_options({"zookeeper": stage.cluster.zookeeper, **given})


def follower(stage: Stage, **given: str) -> StreamFollower:
    """Return a new follower, such as a restarted query would create."""
    read = options(stage, **given)
    return StreamFollower(LedgerDirectory(stage.client, read), read)


def rows_between(stage: Stage, topic: str, start: Offset, end: Offset) -> list[bytes | None]:
    async def read() -> list[bytes | None]:
        payloads: list[bytes | None] = []
        for span in await follower(stage, topic=topic).spans(start, end):
            reader = await open_reader(stage.client, span.ledger, options(stage, topic=topic))
            rows = SpanRows(span, reader.metadata, ["payload"])
            async for entries in read_span(reader, span, 10):
                for entry in entries:
                    rows.add(entry)
            payloads += rows.payloads
        return payloads

    return stage.run(read())


@pytest.mark.parametrize("seed", repeated(range(4)))
def test_steps_of_any_size_read_every_message_once(stage: Stage, name: str, seed: int) -> None:
    chance = Random(seed)
    topic = stage.topic(name, 3, entries_per_ledger=4)
    sent = numbered(0, 150)
    stage.send(topic, sent, batch=chance.randrange(2, 9))
    query = follower(stage, topic=name)
    offset = stage.run(query.initial())
    read: list[bytes | None] = []
    while len(read) < len(sent):
        limit = chance.randrange(1, 20)
        end = stage.run(query.next_offset(offset, None, ReadMaxRows(limit)))
        rows = rows_between(stage, name, offset, end)
        assert len(rows) == min(limit, len(sent) - len(read))
        read, offset = read + rows, end
        if chance.random() < 0.3:
            query = follower(stage, topic=name)
    assert sorted(payload or b"" for payload in read) == sorted(sent)
    assert stage.run(query.next_offset(offset, None, ALL)) == offset


def test_the_driver_reads_each_entry_only_once_to_count_its_messages(
    stage: Stage, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, int]] = []

    async def recorded(reader: LedgerReader, span: EntrySpan, retry_s: float) -> list[Entry]:
        entries = await read_chunk(reader, span, retry_s)
        read.extend((each.ledger_id, each.entry_id) for each in entries)
        return entries

    monkeypatch.setattr(counting, "read_chunk", recorded)
    topic = stage.topic(name, 2, entries_per_ledger=15)
    stage.send(topic, numbered(0, 120), batch=3)
    query = follower(stage, topic=name)
    offset = stage.run(query.initial())
    for _ in range(12):
        offset = stage.run(query.next_offset(offset, None, ReadMaxRows(10)))
    assert stage.run(query.newest()) == offset
    assert len(read) == len(set(read)) == 40


def test_a_trigger_reads_the_chain_again_only_after_it_has_changed(
    stage: Stage, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []

    async def counted(
        client: BookKeeper, path: str, on_change: OnChange
    ) -> tuple[list[LedgerInfo], int]:
        reads.append(path)
        return await read_chain(client, path, on_change)

    monkeypatch.setattr(directory, "read_chain", counted)
    topic = stage.topic(name, 0, entries_per_ledger=4)
    query = follower(stage, topic=name)
    start = offset = stage.run(query.initial())
    for number in range(9):
        stage.send(topic, numbered(number, number + 1))
        offset = stage.run(query.next_offset(offset, None, ALL))
        assert len(stage.run(query.spans(start, offset))) == 1 + number // 4
    # Without the watch, both methods would read the chain each time. Switching ledgers changes it
    # twice, and after a reconnect it is read again.
    assert len(reads) < 9
    assert rows_between(stage, name, start, offset) == numbered(0, 9)


LANE = Lane("", 0)
ALL = ReadAllAvailable()


class _LongChain:
    """A fake directory with a chain of a thousand ledgers; it counts look-ups."""

    look_ups = 0

    async def chains(self) -> Chains:
        return {LANE: [LedgerInfo(ledger_id) for ledger_id in range(1000)]}

    async def lookup(self, info: LedgerInfo) -> LedgerSnapshot:
        self.look_ups += 1
        return LedgerSnapshot(info.ledger_id, 9, 100)


async def test_a_small_batch_does_not_look_up_every_ledger_of_a_long_chain() -> None:
    long_chain = _LongChain()
    # Use ledgers rather than a topic: each entry is one row, so no entry has to be read.
    given = read_options({"zookeeper": "h:1", "ledgers": "0-"})
    query = StreamFollower(cast(LedgerDirectory, long_chain), given)
    start = {LANE: MessageId(0, 4)}
    assert await query.next_offset(start, None, ReadMaxRows(12)) == {LANE: MessageId(1, 6)}
    assert long_chain.look_ups < 100


@pytest.mark.parametrize("max_bytes", [1, 250, 1000, 10**6])
def test_steps_of_any_number_of_bytes_read_every_message_once(
    stage: Stage, name: str, max_bytes: int
) -> None:
    topic = stage.topic(name, 3, entries_per_ledger=4)
    sent = [b"%d" % number * (1 + number % 40) for number in range(60)]
    stage.send(topic, sent, batch=3)
    query = follower(stage, topic=name)
    offset = stage.run(query.initial())
    read: list[bytes | None] = []
    while len(read) < len(sent):
        end = stage.run(query.next_offset(offset, None, ReadMaxBytes(max_bytes)))
        rows = rows_between(stage, name, offset, end)
        assert rows
        read, offset = read + rows, end
    assert sorted(payload or b"" for payload in read) == sorted(sent)


async def test_bytes_are_shared_by_the_lanes_and_one_takes_what_another_leaves() -> None:
    lanes = [Lane("", number) for number in range(3)]

    class ThreeLanes(_LongChain):
        async def chains(self) -> Chains:
            return {lane: [LedgerInfo(lane.number)] for lane in lanes}

    given = read_options({"zookeeper": "h:1", "ledgers": "0-2"})
    query = StreamFollower(cast(LedgerDirectory, ThreeLanes()), given)
    # Each lane has ten entries of 10 bytes; the first lane has only one new entry.
    start = dict(zip(lanes, (MessageId(0, 8), MessageId(1, 1), MessageId(2, 1)), strict=True))
    end = await query.next_offset(start, None, ReadMaxBytes(70))
    assert [end[lane].entry_id for lane in lanes] == [9, 4, 4]
    end = await query.next_offset(end, None, ReadMaxBytes(1))
    assert [end[lane].entry_id for lane in lanes] == [9, 5, 5]


def test_a_query_that_starts_at_a_time_reads_only_what_was_published_then(
    stage: Stage, name: str
) -> None:
    topic = stage.topic(name, 2, entries_per_ledger=3)
    stage.send_at(1000, topic, numbered(0, 10))
    stage.send_at(2000, topic, numbered(10, 20))
    for time_ms, first in ((500, 0), (1000, 0), (1500, 10), (2000, 10), (2001, 20)):
        query = follower(stage, topic=name, startingTime=str(time_ms))
        start = stage.run(query.initial())
        end = stage.run(query.next_offset(start, None, ALL))
        rows = rows_between(stage, name, start, end)
        assert sorted(payload or b"" for payload in rows) == sorted(numbered(first, 20))


def test_the_backlog_is_what_was_stored_after_the_offset(stage: Stage, name: str) -> None:
    stage.send(stage.topic(name, 0, entries_per_ledger=4), numbered(0, 10))
    query = follower(stage, topic=name)
    offset = stage.run(query.initial())
    for left in (7, 4, 1, 0):
        offset = stage.run(query.next_offset(offset, None, ReadMaxRows(3)))
        [backlog] = query.backlogs.values()
        assert backlog.entry_count == left
        assert (backlog.size_bytes > 0) == (left > 0)


def test_a_topic_can_be_removed_from_a_query_if_data_loss_is_allowed(
    stage: Stage, name: str
) -> None:
    for topic in ("a", "b"):
        stage.send(stage.topic(f"{name}-{topic}", 0), numbered(0, 3))
    both = follower(stage, topics=f"{name}-a,{name}-b")
    offset = stage.run(both.next_offset(stage.run(both.initial()), None, ALL))
    with pytest.raises(LedgerGoneError, match=f"partition -1 of .*{name}-b"):
        stage.run(follower(stage, topics=f"{name}-a").next_offset(offset, None, ALL))
    one = follower(stage, topics=f"{name}-a", failOnDataLoss="false")
    assert stage.run(one.next_offset(offset, None, ALL)) == offset


def test_an_offset_between_ledgers_names_the_one_that_follows(stage: Stage, name: str) -> None:
    sent = stage.send(stage.topic(name, 0, entries_per_ledger=3), numbered(0, 9))
    query = follower(stage, topic=name)
    offset = stage.run(query.initial())
    ledgers = list(dict.fromkeys(each.split(":")[0] for each in sent))
    for following in ledgers[1:]:
        offset = stage.run(query.next_offset(offset, None, ReadMaxRows(3)))
        assert encode_offset(offset, options(stage, topic=name)) == {"-1": f"{following}:-1:-1:-1"}


def test_a_target_holds_back_what_came_after_it(stage: Stage, name: str) -> None:
    topic = stage.topic(name, 0)
    stage.send(topic, numbered(0, 3))
    query = follower(stage, topic=name)
    target, start = stage.run(query.newest()), stage.run(query.initial())
    stage.send(topic, numbered(3, 6))
    assert stage.run(query.next_offset(start, target, ALL)) == target


def test_a_query_that_saw_what_follows_a_ledger_does_not_miss_it(stage: Stage, name: str) -> None:
    topic = stage.topic(name, 0, entries_per_ledger=3)
    stage.send(topic, numbered(0, 3))
    stage.run(topic.close())
    stage.topic(name, 0)  # The new owner creates an empty ledger.
    query = follower(stage, topic=name)
    offset = stage.run(query.next_offset(stage.run(query.initial()), None, ALL))
    stage.run(stage.trim(name, 1))
    for _ in range(2):
        assert stage.run(query.next_offset(offset, None, ALL)) == offset


def test_a_query_started_again_cannot_know_whether_a_ledger_had_more(
    stage: Stage, name: str
) -> None:
    topic = stage.topic(name, 0, entries_per_ledger=3)
    stage.send(topic, numbered(0, 3))
    query = follower(stage, topic=name)
    offset = stage.run(query.next_offset(stage.run(query.initial()), None, ReadMaxRows(2)))
    stage.run(topic.close())
    stage.topic(name, 0)
    stage.run(stage.trim(name, 1))
    with pytest.raises(LedgerGoneError, match="may have missed entries"):
        stage.run(follower(stage, topic=name).next_offset(offset, None, ALL))
    bears_it = follower(stage, topic=name, failOnDataLoss="false")
    assert stage.run(bears_it.next_offset(offset, None, ALL)) == offset


def test_a_stream_over_a_topic_without_ledgers_waits_for_the_first(stage: Stage, name: str) -> None:
    topic = stage.topic(name, 2)
    query = follower(stage, topic=name)
    start = stage.run(query.initial())
    assert stage.run(query.next_offset(start, None, ALL)) == start
    sent = stage.send(topic, numbered(0, 4))
    end = stage.run(query.next_offset(start, None, ALL))
    assert sorted(map(str, end.values())) == sorted(sent[2:])


def test_a_stream_with_closed_only_reads_a_ledger_once_it_is_closed_also_after_a_restart(
    stage: Stage, name: str
) -> None:
    topic = stage.topic(name, 0, entries_per_ledger=4)
    stage.send(topic, numbered(0, 6))
    query = follower(stage, topic=name, closedOnly="true")
    start = stage.run(query.initial())
    middle = stage.run(query.next_offset(start, None, ALL))
    assert rows_between(stage, name, start, middle) == numbered(0, 4)
    stage.send(topic, numbered(6, 9))
    restarted = follower(stage, topic=name, closedOnly="true")
    end = stage.run(restarted.next_offset(middle, None, ALL))
    assert rows_between(stage, name, middle, end) == numbered(4, 8)


async def test_a_repeated_batch_has_all_its_entries_even_if_bookies_report_fewer_as_confirmed() -> (
    None
):
    reported: dict[int, int] = {}

    class Shorter(_LongChain):
        async def lookup(self, info: LedgerInfo) -> LedgerSnapshot:
            found = await super().lookup(info)
            return replace(found, last_entry_id=reported.get(info.ledger_id, 9))

    given = read_options({"zookeeper": "h:1", "ledgers": "0-"})
    query = StreamFollower(cast(LedgerDirectory, Shorter()), given)
    start, end = {LANE: MessageId(3, 4)}, {LANE: MessageId(5, 7)}
    for last_entry_id in (9, 6, -1):
        reported[5] = last_entry_id
        spans = await query.spans(start, end)
        assert [(span.ledger.ledger_id, span.first, span.last) for span in spans] == [
            (3, 5, 9),
            (4, 0, 9),
            (5, 0, 7),
        ]


def test_of_ledgers_an_id_begins_its_own_and_all_behind_it(stage: Stage) -> None:
    writers = [stage.write_ledger(numbered(0, 4), 3, 3, 2) for _ in range(3)]
    first, middle, last = (writer.ledger_id for writer in writers)
    given = {"ledgers": f"{first},{middle},{last}", "start": f"{middle}:2:-1:-1"}
    query = follower(stage, **given)
    offset = stage.run(query.initial())
    end = stage.run(query.next_offset(offset, None, ALL))
    spans = stage.run(query.spans(offset, end))
    assert [(span.ledger.ledger_id, span.first, span.last) for span in spans] == [
        (middle, 2, 3),
        (last, 0, 3),
    ]
