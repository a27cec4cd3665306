"""Test when a bookie in this process responds, on real files with a disk that the test controls."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from labkit.system.bookie.commit import group_is_full
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.storage.config import StorageConfig
from labkit.system.trace.cluster_state import fold_bookie
from labkit.system.trace.log import TraceLog
from tests.system.bookie.in_process import NEVER_MS, Node, bodies, running
from tests.system.bookie.raw import FENCE, FENCED, KEY, RECOVERY_ADD, add, added, answer, entry
from tests.system.bookie.raw import read as read_request
from tests.system.bookie.v3 import V3, answered
from tests.until import until


@pytest.mark.promise("No add is acknowledged before its sync, even across a journal roll")
async def test_no_add_is_answered_before_the_journal_is_synced(held: Node) -> None:
    connection, send = held.connect()
    send(add(1, 0))
    await until(lambda: held.journal.held)
    assert connection.writes == []
    held.journal.release()
    await until(lambda: connection.writes)
    assert connection.writes == [bodies(added(1, 0))]
    assert held.store.journals[0].synced.offset > 512


async def test_entry_can_be_read_before_it_is_durable(held: Node) -> None:
    connection, send = held.connect()
    send(add(1, 0))
    send(read_request(1, 0))
    assert connection.writes == [bodies(answer(2, 0, 1, 0, entry(1, 0)))]


async def test_adds_that_come_during_a_sync_share_the_next_one(held: Node) -> None:
    connection, send = held.connect()
    send(add(1, 0))
    await until(lambda: len(held.journal.held) == 1)
    for entry_id in range(1, 50):
        send(add(1, entry_id))
    held.journal.release(2)
    await until(lambda: len(connection.writes) == 2)
    assert len(held.journal.held) == 2
    assert connection.writes[0] == bodies(added(1, 0))
    assert connection.writes[1] == bodies(*(added(1, entry_id) for entry_id in range(1, 50)))
    synced = [row for row in held.rows if row.kind == "journal.synced"]
    assert [row.size for row in synced] == [1] + [49] * 49


async def test_every_client_of_a_group_gets_its_own_answers_in_one_write(held: Node) -> None:
    (one, send_one), (other, send_other) = held.connect(), held.connect()
    send_one(add(1, 0), add(1, 1))
    send_other(add(2, 0))
    held.journal.release()
    await until(lambda: one.writes and other.writes)
    assert one.writes == [bodies(added(1, 0), added(1, 1))]
    assert other.writes == [bodies(added(2, 0))]


@pytest.mark.promise(
    "No response to a fencing request, not even an error, is sent before the fence is durable"
)
async def test_fencing_read_waits_for_the_sync_even_if_it_finds_nothing(held: Node) -> None:
    connection, send = held.connect()
    send(read_request(1, -1, FENCE, KEY))
    await until(lambda: held.journal.held)
    assert connection.writes == []
    held.journal.release()
    await until(lambda: connection.writes)
    assert connection.writes == [bodies(answer(2, 2, 1, -1))]


async def test_add_after_a_fence_of_the_same_receive_is_refused(held: Node) -> None:
    connection, send = held.connect()
    send(add(1, 0), read_request(1, 0, FENCE, KEY), add(1, 1), add(1, 1, flags=RECOVERY_ADD))
    held.journal.release()
    await until(lambda: len(connection.writes) == 2)
    refused, durable = connection.writes
    assert refused == bodies(added(1, 1, FENCED))
    found = answer(2, 0, 1, 0, entry(1, 0))
    assert sorted(durable) == sorted(bodies(added(1, 0), added(1, 1), found))


async def test_fencing_read_is_not_reported_as_an_add(held: Node) -> None:
    connection, send = held.connect()
    held.rows.clear()
    send(read_request(1, 5, FENCE, KEY))
    held.journal.release()
    await until(lambda: connection.writes)
    assert held.kinds() == [
        ("journal.key_appended", -1),
        ("journal.fence_appended", -1),
        ("ledger.fenced", -1),
        ("journal.synced", -1),
    ]


async def test_full_memtable_is_flushed_beside_adds_and_reads(tmp_path: Path) -> None:
    config = StorageConfig(skip_list_size_limit=1)
    async with running(tmp_path, config=config) as (node, _):
        connection, send = node.connect()
        send(add(1, 0))
        node.journal.release(2)
        await until(lambda: node.flush_thread.held and connection.writes)
        send(add(1, 1))
        await until(lambda: len(connection.writes) == 2)
        send(read_request(1, 0))
        assert connection.writes[2] == bodies(answer(2, 0, 1, 0, entry(1, 0)))
        node.flush_thread.release()
        await until(lambda: ("memtable.flushed", -1) in node.kinds())
        await until(lambda: not node.store.is_in_memory(1, 0))
        send(read_request(1, 0))
        assert connection.writes[3] == connection.writes[2]


@pytest.mark.promise("LastLogMark advances periodically")
async def test_checkpoint_is_made_when_the_flush_interval_has_passed(tmp_path: Path) -> None:
    async with running(tmp_path, flush_interval_ms=1) as (node, _):
        connection, send = node.connect()
        node.flush_thread.release(1000)
        send(add(1, 0))
        node.journal.release()
        await until(lambda: connection.writes)
        synced = node.store.journals[0].synced
        await until(lambda: node.store.marks[0] == synced)


NEVER_ALONE = StorageConfig(
    journal_flush_when_queue_empty=False,
    journal_max_group_wait_ms=NEVER_MS,
    journal_buffered_entries_threshold=3,
)


async def test_each_group_waits_for_its_own_company(tmp_path: Path) -> None:
    async with running(tmp_path, config=NEVER_ALONE) as (node, _):
        connection, send = node.connect()
        node.journal.release(10)
        send(*(add(5, entry_id) for entry_id in range(4)))
        await until(lambda: connection.writes)
        send(add(5, 4), add(5, 5), add(5, 6))
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(node.journal.held) == len(connection.writes) == 1
        send(add(5, 7))
        await until(lambda: len(connection.writes) == 2)
        assert connection.writes[1] == bodies(*(added(5, entry_id) for entry_id in range(4, 8)))


@pytest.mark.promise(
    "Journal groups are written after a time, a number of bytes, or a number of entries"
)
async def test_a_group_that_waits_for_company_is_written_when_its_time_is_up(
    tmp_path: Path,
) -> None:
    config = replace(NEVER_ALONE, journal_max_group_wait_ms=1)
    async with running(tmp_path, config=config) as (node, _):
        connection, send = node.connect()
        send(add(5, 0))
        node.journal.release()
        await until(lambda: connection.writes)
        assert connection.writes == [bodies(added(5, 0))]


@pytest.mark.parametrize(
    ("group_bytes", "group_records", "full"),
    [(100, 1, False), (101, 1, True), (1, 3, False), (1, 4, True)],
)
def test_a_group_is_full_above_either_threshold(
    group_bytes: int, group_records: int, full: bool
) -> None:
    config = replace(NEVER_ALONE, journal_buffered_writes_threshold=100)
    assert group_is_full(group_bytes, group_records, config) is full


def test_a_threshold_of_zero_means_no_threshold() -> None:
    config = StorageConfig(
        journal_buffered_writes_threshold=0, journal_buffered_entries_threshold=0
    )
    assert not group_is_full(10**9, 10**9, config)


async def test_a_client_is_held_back_while_the_memtable_is_full_and_the_last_one_not_on_disk(
    tmp_path: Path,
) -> None:
    config = StorageConfig(skip_list_size_limit=100)
    async with running(tmp_path, config=config) as (node, _):
        connection, send = node.connect()
        send(add(5, 0, bytes(100)))
        await until(lambda: node.flush_thread.held)
        assert connection.calls == []
        send(add(5, 1, bytes(100)))
        assert connection.calls == ["pause"]
        node.flush_thread.release(2)
        node.journal.release(2)
        await until(lambda: connection.calls == ["pause", "resume"])


async def test_a_read_only_bookie_takes_only_adds_of_high_priority(held: Node) -> None:
    held.bookie.read_only = True
    connection, send = held.connect()
    ids = [(5, 0), (6, 0), (5, 1)]
    send(*(add(*each) for each in ids))
    assert connection.writes == [bodies(*(added(*each, code=105) for each in ids))]
    assert held.store.ledger_ids() == []
    send(add(5, 0, flags=RECOVERY_ADD | 4))
    held.journal.release()
    await until(lambda: len(connection.writes) == 2)
    assert connection.writes[1] == bodies(added(5, 0))


async def test_a_fence_and_the_adds_of_its_group_are_synced_in_the_trace_together(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (node, _):
        connection, send = node.connect()
        node.journal.release(1000)
        send(add(5, 0), add(5, 1), read_request(5, -1, FENCE, KEY))
        await until(lambda: connection.writes)
        log = TraceLog()
        log.add(node.rows)
        log.settle()
    state = fold_bookie(log.events, log.events[0].node)
    kinds = [(record.kind, record.state, record.group) for record in state.journals["1.txn"]]
    assert kinds == [(kind, "synced", 0) for kind in ("key", "entry", "entry", "fence")]
    synced = [event for event in log.events if event.kind == "journal.synced"]
    assert {event.size for event in synced} == {len(synced)} == {3}
    caused = next(event for event in synced if event.entry == -1)
    assert log.events[caused.cause].kind == "journal.fence_appended"


async def test_each_add_of_a_group_is_reported_at_its_own_place_in_the_journal(held: Node) -> None:
    connection, send = held.connect()
    held.journal.release()
    sizes = [0, 3, 50]
    send(*(add(5, entry_id, bytes(size)) for entry_id, size in enumerate(sizes)), add(6, 0))
    await until(lambda: connection.writes)
    for kind in ("journal.appended", "journal.synced"):
        rows = [row for row in held.rows if row.kind == kind]
        assert [(row.ledger, row.entry) for row in rows] == [(5, 0), (5, 1), (5, 2), (6, 0)]
        assert {row.file for row in rows} == {"1.txn"}
        offsets = [row.offset for row in rows]
        lengths = [4 + len(entry(5, 0, bytes(size))) for size in sizes]
        assert offsets[0] > 0
        steps = [after - before for before, after in pairwise(offsets)]
        assert steps == lengths


# Several journals: a response waits only for its ledger's journal


async def test_an_answer_waits_only_for_its_ledgers_journal(tmp_path: Path) -> None:
    async with running(tmp_path, journal_count=2) as (node, _):
        connection, send = node.connect()
        send(add(4, 0), add(5, 0))
        await until(lambda: all(journal.held for journal in node.journals))
        assert connection.writes == []
        node.journals[1].release()
        await until(lambda: connection.writes)
        assert connection.writes == [bodies(added(5, 0))]
        node.journals[0].release()
        await until(lambda: len(connection.writes) == 2)
        assert connection.writes[1] == bodies(added(4, 0))


async def test_an_add_with_deferred_sync_waits_for_the_write_of_that_journal(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, journal_count=2) as (node, _):
        client = V3(node)
        added_there = client.add(5, 0, deferred=True)
        await until(lambda: node.journals[1].held)
        assert node.journals[0].held == []
        assert client.answers == {}
        node.journals[1].release()
        assert await answered(client, added_there) == [pb.EOK]
