"""Tests for adds that are acknowledged before they are synced, and for force requests."""

import asyncio
import errno
from pathlib import Path

import pytest

from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire_v3 import encode_request
from labkit.system.storage.config import StorageConfig
from tests.system.bookie.in_process import Node, running
from tests.system.bookie.raw import KEY
from tests.system.bookie.v3 import V3, answered, entry
from tests.system.storage.unreliable import failing
from tests.until import until


async def test_a_deferred_add_is_answered_after_the_write_and_before_the_sync(held: Node) -> None:
    client = V3(held)
    add = client.add(1, 0, deferred=True)
    await until(lambda: held.journal.held)
    assert client.answers == {}
    held.journal.release()
    assert await answered(client, add) == [pb.EOK]
    assert ("journal.synced", 0) not in held.kinds()
    assert held.store.journals[0].synced.offset == 0


async def test_adds_that_are_all_deferred_cost_no_sync(held: Node) -> None:
    client = V3(held)
    held.journal.release(1000)
    for entry_id in range(5):
        assert await answered(client, client.add(1, entry_id, deferred=True)) == [pb.EOK]
    calls = len(held.journal.held)
    assert held.store.journals[0].synced.offset == 0
    assert await answered(client, client.force(1)) == [pb.EOK]
    assert len(held.journal.held) == calls + 1


async def test_force_is_answered_once_what_came_before_it_is_synced(held: Node) -> None:
    client = V3(held)
    held.journal.release()
    assert await answered(client, client.add(1, 0, deferred=True)) == [pb.EOK]
    force = client.force(1)
    await until(lambda: len(held.journal.held) == 2)
    assert force not in client.answers
    held.journal.release()
    assert await answered(client, force) == [pb.EOK]
    assert ("journal.synced", 0) in held.kinds()
    assert held.store.journals[0].synced.offset > 512


async def test_force_in_the_same_receive_covers_the_add_before_it(held: Node) -> None:
    client = V3(held)
    add = pb.AddRequest(ledgerId=1, entryId=0, masterKey=KEY, body=entry(1, 0), writeFlags=1)
    force = pb.ForceLedgerRequest(ledgerId=1)
    client.send(encode_request(pb.ADD_ENTRY, 71, add), encode_request(pb.FORCE_LEDGER, 72, force))
    held.journal.release()
    assert await answered(client, 71) == [pb.EOK]
    assert 72 not in client.answers
    held.journal.release()
    assert await answered(client, 72) == [pb.EOK]


async def test_force_with_nothing_to_sync_is_answered(held: Node) -> None:
    client = V3(held)
    assert await answered(client, client.force(404)) == [pb.EOK]
    assert held.journal.held == []


async def test_an_add_without_the_flag_syncs_the_deferred_ones_before_it(held: Node) -> None:
    client = V3(held)
    held.journal.release(100)
    assert await answered(client, client.add(1, 0, deferred=True)) == [pb.EOK]
    assert await answered(client, client.add(2, 0)) == [pb.EOK]
    assert [entry for kind, entry in held.kinds() if kind == "journal.synced"] == [0, 0]


async def test_deferred_adds_are_reported_as_synced_once_and_by_the_sync_that_covers_them(
    held: Node,
) -> None:
    client = V3(held)
    held.journal.release(100)

    def synced() -> list[tuple[int, int]]:
        return [(row.entry, row.size) for row in held.rows if row.kind == "journal.synced"]

    for entry_id in (0, 1):
        assert await answered(client, client.add(1, entry_id, deferred=True)) == [pb.EOK]
    assert synced() == []
    assert await answered(client, client.force(1)) == [pb.EOK]
    assert synced() == [(0, 2), (1, 2)]
    assert await answered(client, client.add(1, 2, deferred=True), client.force(1)) == [pb.EOK] * 2
    assert synced() == [(0, 2), (1, 2), (2, 1)]


async def test_recovery_waits_for_the_sync_whatever_its_flags_say(held: Node) -> None:
    client = V3(held)
    add = client.add(1, 0, deferred=True, recovery=True)
    held.journal.release()
    assert await answered(client, add) == [pb.EOK]
    assert held.store.journals[0].synced.offset > 512


async def test_a_journal_file_is_synced_before_the_next_one_begins(tmp_path: Path) -> None:
    config = StorageConfig(
        journal_max_size_mb=1, journal_pre_alloc_size_mb=1, journal_alignment_size=4096
    )
    async with running(tmp_path, config=config) as (node, _):
        node.journal.release(10_000)
        client = V3(node)
        journal = node.store.journals[0]
        while journal.append().file_id == 1:
            assert await answered(client, client.add(1, 0, deferred=True)) == [pb.EOK]
            client.connection.writes.clear()
        await until(lambda: journal.synced.offset > 1024 * 1024)
        assert journal.synced.file_id == 1


async def test_a_journal_that_cannot_be_synced_answers_no_force(
    held: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = V3(held)
    held.journal.release(10)
    assert await answered(client, client.add(1, 0, deferred=True)) == [pb.EOK]
    monkeypatch.setattr(held.store.journals[0], "sync", failing(errno.EIO))
    force = client.force(1)
    await until(lambda: len(held.journal.held) == 2)
    await asyncio.sleep(0)
    assert force not in client.answers
