"""Tests that an entry is found by its publish time."""

import pytest

from labkit.system.client.reader import LedgerReader
from labkit.system.model.entry import Entry
from labkit.views.spark.bookkeeper import times
from labkit.views.spark.bookkeeper.directory import LedgerDirectory
from labkit.views.spark.bookkeeper.entries import read_chunk
from labkit.views.spark.bookkeeper.options import read_options
from labkit.views.spark.bookkeeper.spans import LATEST, EntrySpan
from labkit.views.spark.bookkeeper.times import first_published_from
from tests.views.spark.bookkeeper.stage import Stage, numbered


def first_from(stage: Stage, topic: str, time_ms: int) -> str | None:
    async def find() -> str | None:
        options = read_options({"zookeeper": stage.cluster.zookeeper, "topic": topic})
        directory = LedgerDirectory(stage.client, options)
        [(lane, chain)] = (await directory.chains()).items()
        at = await first_published_from(directory, options, lane, chain, time_ms)
        return None if at == LATEST else f"{at.ledger_id}:{at.entry_id}:-1:-1"

    return stage.run(find())


def test_the_first_entry_of_every_time_is_found_across_ledgers(stage: Stage, name: str) -> None:
    topic = stage.topic(name, 0, entries_per_ledger=3)
    ids = {}
    for time_ms in (1000, 1010, 1020, 1040):
        ids[time_ms], *_ = stage.send_at(time_ms, topic, numbered(0, 4))
    assert {time_ms: first_from(stage, name, time_ms) for time_ms in ids} == ids
    assert first_from(stage, name, 0) == ids[1000]
    assert first_from(stage, name, 1021) == ids[1040]
    assert first_from(stage, name, 1041) is None


def test_nothing_was_published_in_an_empty_topic(stage: Stage, name: str) -> None:
    stage.topic(name, 0)
    assert first_from(stage, name, 0) is None


def test_only_a_few_entries_are_read(
    stage: Stage, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = stage.topic(name, 0, entries_per_ledger=20)
    for time_ms in range(1000, 1040):
        stage.send_at(time_ms, topic, numbered(0, 10))
    read: list[int] = []

    async def counted(reader: LedgerReader, span: EntrySpan, retry_s: float) -> list[Entry]:
        read.append(span.first)
        return await read_chunk(reader, span, retry_s)

    monkeypatch.setattr(times, "read_chunk", counted)
    assert first_from(stage, name, 1017)
    # It takes five steps to find one of 20 ledgers, and five to find one of its 20 entries.
    assert 0 < len(read) <= 10
