"""Tests for a bookie's responses when its disk fails or is full."""

import asyncio
import errno
from pathlib import Path

import pytest

from labkit.system.model.errors import StorageDamagedException
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.storage.config import StorageConfig
from labkit.worlds.live.disk import RealFile
from tests.system.bookie.in_process import bodies, running
from tests.system.bookie.raw import RECOVERY_ADD, add, added, answer, entry
from tests.system.bookie.raw import read as read_request
from tests.system.bookie.v3 import V3
from tests.system.storage.unreliable import failing
from tests.until import until


@pytest.mark.promise("A failed sync is never simply repeated")
async def test_failed_sync_is_not_repeated_and_what_was_acked_before_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = []

    def fail(file: RealFile) -> None:
        syncs.append(file)
        raise OSError(errno.EIO, "Input/output error")

    async with running(tmp_path) as (node, task):
        connection, send = node.connect()
        send(add(1, 0))
        node.journal.release(1000)
        await until(lambda: connection.writes)
        with monkeypatch.context() as failing_disk:
            failing_disk.setattr(RealFile, "sync", fail)
            send(add(1, 1))
            await asyncio.wait((task,))
            with pytest.raises(OSError, match="Input/output error"):
                task.result()
        send(add(1, 2))
        assert len(syncs) == 1
        assert len(node.journal.held) == 2
        assert connection.writes == [bodies(added(1, 0))]
    async with running(tmp_path) as (node, _):
        assert node.store.read_entry(1, 0) == entry(1, 0)


async def test_failed_flush_ends_the_bookie_and_keeps_last_log_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, flush_interval_ms=1) as (node, task):
        mark = node.store.marks[0]
        monkeypatch.setattr(node.store, "flush", failing(errno.EIO))
        _, send = node.connect()
        send(add(1, 0))
        node.journal.release()
        node.flush_thread.release()
        await asyncio.wait((task,))
        with pytest.raises(OSError, match="Input/output error"):
            task.result()
        assert node.store.marks[0] == mark
        assert node.told_of_space == []


async def test_a_foreign_file_ends_the_bookie_and_is_named(tmp_path: Path) -> None:
    async with running(tmp_path, flush_interval_ms=1) as (node, task):
        (tmp_path / "journal" / "current" / "copy of 1.txn").write_bytes(b"")
        _, send = node.connect()
        send(add(1, 0))
        node.journal.release()
        node.flush_thread.release()
        await asyncio.wait((task,))
        with pytest.raises(StorageDamagedException, match=r"copy of 1.txn does not belong to"):
            task.result()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_checkpoint_without_space_is_tried_again_and_adds_are_refused_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    config = StorageConfig(skip_list_size_limit=100)
    async with running(tmp_path, config=config, flush_interval_ms=1) as (node, _):
        mark = node.store.marks[0]
        connection, send = node.connect()
        with monkeypatch.context() as full_disk:
            full_disk.setattr(node.store, "flush", failing(number))
            send(add(1, 0, bytes(100)))
            node.journal.release()
            await until(lambda: node.flush_thread.held and connection.writes)
            send(add(1, 1, bytes(100)))
            node.journal.release()
            await until(lambda: len(connection.writes) == 2)
            node.flush_thread.release(2)
            await until(lambda: len(node.flush_thread.held) == 3)
            # The client that was paused because the memtable was full is resumed. Its adds are
            # rejected, but its reads succeed.
            assert connection.calls == ["pause", "resume"]
            assert node.told_of_space == [False]
            send(add(1, 2), read_request(1, 0), read_request(1, 1))
            found = [answer(2, 0, 1, n, entry(1, n, bytes(100))) for n in (0, 1)]
            assert connection.writes[2:] == [bodies(added(1, 2, code=105), *found)]
            assert node.store.marks[0] == mark
        node.flush_thread.release(1000)
        await until(lambda: node.store.marks[0] == node.store.journals[0].synced)
        await until(lambda: node.told_of_space == [False, True])
        assert not node.bookie.read_only
        send(read_request(1, 0), read_request(1, 1))
        assert connection.writes[3] == bodies(*found)


async def test_recovery_adds_are_refused_once_a_memtable_that_cannot_be_flushed_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = StorageConfig(skip_list_size_limit=1000)
    async with running(tmp_path, config=config, flush_interval_ms=1) as (node, _):
        monkeypatch.setattr(node.store, "flush", failing(errno.ENOSPC))
        node.journal.release(1000)
        node.flush_thread.release()
        connection, send = node.connect()
        send(add(1, 0))
        await until(lambda: node.bookie.read_only)
        for entry_id in range(1, 11):
            send(add(1, entry_id, bytes(200), flags=RECOVERY_ADD | 4))
        v3 = V3(node)
        refused = v3.add(1, 11, recovery=True, priority=100)
        assert v3.status(refused) == pb.EREADONLY
        await until(lambda: sum(map(len, connection.writes)) == 11)
        taken = [node.store.is_in_memory(1, entry_id) for entry_id in range(11)]
        assert taken == [True] * 6 + [False] * 5
        # The client can still read.
        send(read_request(1, 5))
        assert connection.writes[-1] == bodies(answer(2, 0, 1, 5, entry(1, 5, bytes(200))))


async def test_a_client_that_disconnects_while_it_waits_for_space_is_forgotten(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, config=StorageConfig(skip_list_size_limit=100)) as (node, _):
        gone, send = node.connect()
        other, send_other = node.connect()
        send(add(1, 0, bytes(100)))
        await until(lambda: node.flush_thread.held)
        send(add(1, 1, bytes(100)))
        send_other(add(1, 2, bytes(100)))
        gone.drop()
        node.flush_thread.release()
        await until(lambda: other.calls == ["pause", "resume"])
        assert gone.calls == ["pause"]
