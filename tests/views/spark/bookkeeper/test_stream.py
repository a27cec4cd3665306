"""Tests for streaming queries on a cluster of real bookie processes.

The rows are compared with the messages sent, one by one.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from labkit.system.client.writer import LedgerWriter
from labkit.system.model.entry import DigestType
from labkit.system.model.ledger import LedgerState
from tests.views.spark.bookkeeper.stage import Stage, numbered

WAIT_S = 120
ID_PARTS = ("ledger", "entry", "partition", "batch_index")


class Sink:
    """Writes the ids of each batch to a file; if a batch is repeated, its file is replaced.

    `after_batch` is called with the batch id after a batch has been written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.after_batch: Callable[[int], None] = lambda batch_id: None
        folder.mkdir()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        parts = [part for part in ID_PARTS if part in batch.columns]
        rows = batch.selectExpr(f"concat_ws(':', {', '.join(parts)}) as id")
        path = self.folder / f"{batch_id:06}"
        path.write_text("".join(f"{row['id']}\n" for row in rows.collect()))
        self.after_batch(batch_id)

    def batches(self) -> list[list[str]]:
        return [path.read_text().split() for path in sorted(self.folder.iterdir())]

    def ids(self) -> list[str]:
        return [each for batch in self.batches() for each in batch]


class Following:
    """A streaming query that can be restarted from its checkpoint."""

    def __init__(self, spark: SparkSession, stage: Stage, folder: Path, **options: str) -> None:
        self._spark, self._stage, self._folder = spark, stage, folder
        self.options = options
        self.schema: str | None = None
        self.sink = Sink(folder / "rows")

    def read_now(self) -> StreamingQuery:
        """Read all available messages, and stop."""
        query = self._start(availableNow=True)
        assert query.awaitTermination(WAIT_S)
        return query

    def fail_in(self, failing_batch_id: int) -> list[str]:
        """Read until this batch has been written, and fail before it is committed; return its ids.

        The next start repeats the batch.
        """

        def fail(batch_id: int) -> None:
            if batch_id == failing_batch_id:
                raise OSError("the sink failed after it had written")

        self.sink.after_batch = fail
        with pytest.raises(StreamingQueryException, match="the sink failed"):
            self.read_now()
        self.sink.after_batch = lambda batch_id: None
        return self.sink.batches()[failing_batch_id]

    @contextmanager
    def running(self) -> Iterator[StreamingQuery]:
        query = self._start(processingTime="100 milliseconds")
        try:
            yield query
        finally:
            query.stop()

    def wait_for(self, count: int, query: StreamingQuery) -> None:
        """Wait until the query has produced `count` rows."""
        self._stage.wait(lambda: len(self.sink.ids()) >= count, query.exception)

    def offsets(self) -> list[dict[str, str]]:
        """Return the offsets that the checkpoint stores for each batch."""
        files = sorted(
            (self._folder / "checkpoint/offsets").glob("[0-9]*"), key=lambda f: int(f.name)
        )
        return [json.loads(file.read_text().splitlines()[-1]) for file in files]

    def _start(self, **trigger: Any) -> StreamingQuery:
        reader = self._spark.readStream.format("bookkeeper")
        options = {"zookeeper": self._stage.cluster.zookeeper, **self.options}
        reader = reader.options(**options)
        if self.schema:
            reader = reader.schema(self.schema)
        writer = reader.load().writeStream.foreachBatch(self.sink)
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        return writer.trigger(**trigger).start()


@pytest.fixture
def follow(spark: SparkSession, stage: Stage, name: str, tmp_path: Path) -> Following:
    return Following(spark, stage, tmp_path, topic=name)


@pytest.mark.long
def test_a_restarted_query_gives_exactly_what_is_new(
    stage: Stage, name: str, follow: Following
) -> None:
    topic = stage.topic(name, 2, entries_per_ledger=6)
    sent = []
    for round_ in range(3):
        sent += stage.send(topic, numbered(100 * round_, 100 * round_ + 60), batch=4)
        follow.read_now()
        assert sorted(follow.sink.ids()) == sorted(sent)
    follow.read_now()
    assert sorted(follow.sink.ids()) == sorted(sent)


def test_offsets_are_message_ids_by_partition(stage: Stage, name: str, follow: Following) -> None:
    sent = stage.send(stage.topic(name, 2), numbered(0, 20))
    follow.read_now()
    newest = {"0": sent[18], "1": sent[19]}
    if sent[18].endswith(":1:-1"):
        newest = {"0": sent[19], "1": sent[18]}
    assert follow.offsets()[-1] == newest


def test_a_batch_has_no_more_rows_than_the_limit_and_all_come_in_order(
    stage: Stage, name: str, follow: Following
) -> None:
    sent = stage.send(stage.topic(name, 0, entries_per_ledger=5), numbered(0, 100), batch=7)
    follow.options["maxRowsPerTrigger"] = "15"
    follow.read_now()
    assert [len(batch) for batch in follow.sink.batches()] == [15] * 6 + [10]
    assert follow.sink.ids() == sent


def test_the_limit_is_shared_by_the_partitions(stage: Stage, name: str, follow: Following) -> None:
    sent = stage.send(stage.topic(name, 3), numbered(0, 90), batch=5)
    follow.options["maxRowsPerTrigger"] = "30"
    follow.read_now()
    batches = follow.sink.batches()
    assert [len(batch) for batch in batches] == [30, 30, 30]
    assert [sorted({each.split(":")[2] for each in batch}) for batch in batches] == [
        ["0", "1", "2"]
    ] * 3
    assert sorted(follow.sink.ids()) == sorted(sent)


def test_a_running_query_notices_new_ledgers_and_never_fences_the_writer(
    stage: Stage, name: str, follow: Following
) -> None:
    topic = stage.topic(name, 0, entries_per_ledger=10)
    sent = []
    with follow.running() as query:
        for round_ in range(4):
            sent += stage.send(topic, numbered(30 * round_, 30 * round_ + 30))
            follow.wait_for(len(sent), query)
    assert follow.sink.ids() == sent
    ledgers = stage.run(topic.ledgers())
    assert len(ledgers) >= 12
    newest = stage.run(stage.client.ledger_metadata(ledgers[-1].ledger_id))
    assert newest.state is LedgerState.OPEN


def test_new_partitions_are_noticed(stage: Stage, name: str, follow: Following) -> None:
    sent = stage.send(stage.topic(name, 1), numbered(0, 10))
    follow.read_now()
    stage.run(stage.add_partition(name))
    sent += stage.send(stage.topic(name, 2), numbered(10, 40))
    follow.read_now()
    assert sorted(follow.sink.ids()) == sorted(sent)
    assert {each.split(":")[2] for each in sent} == {"0", "1"}


def test_a_query_that_starts_at_latest_gives_what_comes_then(
    stage: Stage, name: str, follow: Following
) -> None:
    topic = stage.topic(name, 0)
    stage.send(topic, numbered(0, 10))
    follow.options["start"] = "latest"
    follow.read_now()
    sent = stage.send(topic, numbered(10, 15))
    follow.read_now()
    assert follow.sink.ids() == sent


def test_a_query_starts_with_the_message_of_option_start(
    stage: Stage, name: str, follow: Following
) -> None:
    sent = stage.send(stage.topic(name, 0), numbered(0, 40), batch=8)
    follow.options["start"] = sent[19]
    follow.read_now()
    assert follow.sink.ids() == sent[19:]


def test_ledgers_are_followed_entry_by_entry(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    async def write(count: int) -> None:
        for writer in writers:
            for number in range(count):
                await writer.add(b"%d" % number)
            await stage.heard(writer.ledger_id, writer.last_add_confirmed)

    writers = [stage.run(stage.client.create_ledger(3, 3, 2)) for _ in range(2)]
    ids = ",".join(str(writer.ledger_id) for writer in writers)
    follow = Following(spark, stage, tmp_path, ledgers=ids, maxRowsPerTrigger="7")
    for count, total in ((10, 10), (5, 15)):
        stage.run(write(count))
        follow.read_now()
        assert sorted(follow.sink.ids()) == sorted(
            f"{writer.ledger_id}:{number}" for writer in writers for number in range(total)
        )
    assert max(map(len, follow.sink.batches())) == 7


def test_several_topics_are_followed_and_more_can_be_added_at_a_restart(
    stage: Stage, name: str, follow: Following
) -> None:
    topics = [stage.topic(f"{name}-{number}", number) for number in range(3)]
    sent = stage.send(topics[0], numbered(0, 10)) + stage.send(topics[1], numbered(0, 10))
    del follow.options["topic"]
    follow.options["topics"] = f"{name}-0,{name}-1"
    follow.read_now()
    assert sorted(follow.sink.ids()) == sorted(sent)
    sent += stage.send(topics[1], numbered(10, 20)) + stage.send(topics[2], numbered(0, 10))
    follow.options["topics"] += f",{name}-2"
    follow.read_now()
    assert sorted(follow.sink.ids()) == sorted(sent)
    assert len(follow.offsets()[-1]) == 3


def test_a_stream_of_a_pattern_notices_new_topics(
    stage: Stage, name: str, follow: Following
) -> None:
    sent = stage.send(stage.topic(f"{name}-0", 0), numbered(0, 10))
    del follow.options["topic"]
    follow.options["topicsPattern"] = f"{name}-."
    with follow.running() as query:
        follow.wait_for(10, query)
        sent += stage.send(stage.topic(f"{name}-1", 2), numbered(0, 10))
        follow.wait_for(20, query)
    sent += stage.send(stage.topic(f"{name}-2", 0), numbered(0, 10))
    follow.read_now()
    assert sorted(follow.sink.ids()) == sorted(sent)


def test_a_query_that_starts_at_a_time_does_not_apply_it_again_at_a_restart(
    stage: Stage, name: str, follow: Following
) -> None:
    topic = stage.topic(name, 2, entries_per_ledger=4)
    stage.send_at(1000, topic, numbered(0, 10))
    sent = stage.send_at(2000, topic, numbered(10, 20))
    follow.options["startingTime"] = "1500"
    follow.read_now()
    assert sorted(follow.sink.ids()) == sorted(sent)
    sent += stage.send_at(1200, topic, numbered(20, 30))
    follow.read_now()
    assert sorted(follow.sink.ids()) == sorted(sent)


def test_a_batch_has_about_the_bytes_of_the_limit_also_after_a_restart(
    stage: Stage, name: str, follow: Following
) -> None:
    topic = stage.topic(name, 2, entries_per_ledger=5)
    sent = stage.send(topic, [bytes(100_000)] * 20)
    follow.options["maxBytesPerTrigger"] = "500k"
    follow.options["minPartitions"] = "4"
    follow.read_now()
    assert sorted(follow.sink.ids()) == sorted(sent)
    assert {len(batch) for batch in follow.sink.batches()} <= {4, 5}
    sent += stage.send(topic, [bytes(100_000)] * 10)
    follow.options["maxBytesPerTrigger"] = "200k"
    follow.read_now()
    assert sorted(follow.sink.ids()) == sorted(sent)
    assert [len(batch) for batch in follow.sink.batches()[-5:]] == [2] * 5


def test_the_progress_of_a_query_shows_its_backlog_by_partition(
    stage: Stage, name: str, follow: Following
) -> None:
    sent = stage.send(stage.topic(name, 2), numbered(0, 20))
    follow.options["maxRowsPerTrigger"] = "4"
    query = follow.read_now()
    reports = [json.loads(each["sources"][0]["latestOffset"]) for each in query.recentProgress]
    assert [{lane: each["backlogEntries"] for lane, each in r.items()} for r in reports[:5]] == [
        {"0": left, "1": left} for left in (8, 6, 4, 2, 0)
    ]
    assert sorted(each["newest"] for each in reports[0].values()) == sorted(sent[-2:])
    assert reports[0]["0"]["backlogBytes"] > reports[3]["0"]["backlogBytes"] > 0
    stage.send(stage.topic(name, 2), numbered(20, 30))
    restarted = json.loads(follow.read_now().recentProgress[0]["sources"][0]["latestOffset"])
    assert [each["backlogEntries"] for each in restarted.values()] == [3, 3]


# Failures


def test_a_bookie_that_dies_in_mid_stream_costs_no_message_and_doubles_none(
    stage: Stage, name: str, follow: Following
) -> None:
    topic = stage.topic(name, 2, entries_per_ledger=20)
    sent = []
    with follow.running() as query:
        for victim in stage.cluster.bookie_names[:2]:
            sent += stage.send(topic, numbered(0, 100), batch=3)
            stage.run(stage.cluster.kill(victim))
            sent += stage.send(topic, numbered(0, 100), batch=3)
            follow.wait_for(len(sent), query)
            stage.run(stage.cluster.restart(victim))
    assert sorted(follow.sink.ids()) == sorted(sent)


def test_a_query_killed_in_mid_batch_reads_that_batch_again_with_the_same_rows(
    stage: Stage, name: str, follow: Following
) -> None:
    topic = stage.topic(name, 2, entries_per_ledger=9)
    sent = stage.send(topic, numbered(0, 150), batch=4)
    follow.options["maxRowsPerTrigger"] = "40"
    repeated = follow.fail_in(2)
    sent += stage.send(topic, numbered(150, 200), batch=4)
    follow.read_now()
    assert sorted(follow.sink.ids()) == sorted(sent)
    assert sorted(follow.sink.batches()[2]) == sorted(repeated)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"zookeeper": "zk+null://{zookeeper}/ledgers"}),
        ({}, {"start": "latest"}),
        ({"closedOnly": "false"}, {"closedOnly": "true"}),
        ({"closedOnly": "true"}, {"closedOnly": "false"}),
        ({"rowsPerBatch": "3"}, {"rowsPerBatch": "7"}),
        ({"splitSize": "1k"}, {"splitSize": "32m"}),
        ({"minPartitions": "1"}, {"minPartitions": "4"}),
        ({"retrySeconds": "60"}, {"retrySeconds": "90"}),
        ({"maxRowsPerTrigger": "20"}, {"maxRowsPerTrigger": "3"}),
        ({"storageColumns": "true"}, {"storageColumns": "false"}),
        ({"decodeValues": "false"}, {"decodeValues": "true"}),
        ({"failOnDataLoss": "true"}, {"failOnDataLoss": "false"}),
    ],
)
def test_a_query_restarted_with_another_option_repeats_its_batch_and_loses_no_row(
    stage: Stage, name: str, follow: Following, before: dict[str, str], after: dict[str, str]
) -> None:
    topic = stage.topic(name, 2, entries_per_ledger=3)
    sent = stage.send(topic, numbered(0, 56), batch=4)
    follow.options |= {"maxRowsPerTrigger": "20", **before}
    # The last batch also contains entries of open ledgers, unless `closedOnly` is true.
    repeated = follow.fail_in(2)
    address = stage.cluster.zookeeper
    follow.options |= {key: text.format(zookeeper=address) for key, text in after.items()}
    follow.read_now()
    assert sorted(follow.sink.batches()[2]) == sorted(repeated)
    sent += stage.send(topic, numbered(56, 70), batch=4)
    stage.run(topic.close())
    follow.read_now()
    assert sorted(follow.sink.ids()) == sorted(sent)


def test_ledgers_are_followed_with_their_password_and_only_with_it(
    spark: SparkSession, stage: Stage, tmp_path: Path
) -> None:
    async def write(writer: LedgerWriter) -> None:
        await writer.add(b"x")
        await writer.close()

    create = partial(stage.client.create_ledger, digest_type=DigestType.HMAC, password=b"secret")
    writers = [stage.run(create()) for _ in range(3)]
    ids = [str(writer.ledger_id) for writer in writers]
    follow = Following(spark, stage, tmp_path, ledgers=",".join(ids), password="secret")
    for count, writer in enumerate(writers, 1):
        stage.run(write(writer))
        follow.options["password"] = "wrong"
        with pytest.raises(StreamingQueryException, match=r"'password': ledger .* has a different"):
            follow.read_now()
        follow.options["password"] = "secret"
        follow.read_now()
        assert follow.sink.ids() == [f"{ledger}:0" for ledger in ids[:count]]


def test_a_query_stopped_at_any_time_goes_on_where_it_was(
    stage: Stage, name: str, follow: Following
) -> None:
    topic = stage.topic(name, 2, entries_per_ledger=15)
    sent = []
    follow.options["maxRowsPerTrigger"] = "60"
    for _ in range(2):
        sent += stage.send(topic, numbered(0, 120), batch=4)
        before = len(follow.sink.ids())
        with follow.running() as query:
            follow.wait_for(before + 1, query)
    follow.read_now()
    assert sorted(follow.sink.ids()) == sorted(sent)


def test_ledgers_that_went_unread_are_reported_and_can_be_borne(
    stage: Stage, name: str, follow: Following
) -> None:
    topic = stage.topic(name, 0, entries_per_ledger=5)
    sent = stage.send(topic, numbered(0, 12))
    follow.read_now()
    late = stage.send(topic, numbered(12, 30))
    stage.run(stage.trim(name, 4))
    with pytest.raises(StreamingQueryException) as told:
        follow.read_now()
    assert f"last message read: {sent[-1]}" in str(told.value)
    assert "failOnDataLoss" in str(told.value)
    follow.options["failOnDataLoss"] = "false"
    follow.read_now()
    assert follow.sink.ids() == sent + late[8:]


@pytest.mark.parametrize(
    "options", [{}, {"maxRowsPerTrigger": "4"}, {"maxBytesPerTrigger": "1"}, {"startingTime": "9"}]
)
def test_a_deleted_ledger_of_the_chain_is_a_loss_that_can_be_allowed(
    stage: Stage, name: str, follow: Following, options: dict[str, str]
) -> None:
    sent = stage.send(stage.topic(name, 0, entries_per_ledger=5), numbered(0, 12))
    deleted = sent[6].split(":")[0]
    stage.run(stage.client.delete_ledger(int(deleted)))
    follow.options |= options
    with pytest.raises(StreamingQueryException, match=f"ledger {deleted} was deleted or trimmed"):
        follow.read_now()
    follow.options["failOnDataLoss"] = "false"
    follow.read_now()
    assert follow.sink.ids() == sent[:5] + sent[10:]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"end": "1:1:-1:-1"}, "option 'end' is only for spark.read"),
        ({"endingTime": "5"}, "option 'endingTime' is only for spark.read"),
        (
            {"topic": "", "topicsPattern": "nowhere.*"},
            "option 'topicsPattern': no topic matches persistent://public/default/nowhere.*",
        ),
        (
            {"topic": "nowhere"},
            "topic persistent://public/default/nowhere does not exist",
        ),
        ({"schema": "entry long", "speed": "9"}, "unknown option 'speed'"),
        ({"schema": "offset long"}, "schema: unknown column 'offset'"),
    ],
)
def test_a_wrong_option_is_named(
    options: dict[str, str], words: str, stage: Stage, name: str, follow: Following
) -> None:
    stage.topic(name, 0)
    follow.options |= options
    follow.schema = follow.options.pop("schema", None)
    with suppress(AssertionError), pytest.raises(StreamingQueryException) as told:
        follow.read_now()
    assert words in str(told.value)
    assert "During handling" not in str(told.value)
    assert str(told.value).count("\n") < 15
