"""Tests for a bookie with several journals, in which a response waits only for its ledger's
journal.
"""

from pathlib import Path

from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from tests.system.bookie.in_process import bodies, running
from tests.system.bookie.raw import add, added
from tests.system.bookie.v3 import V3, answered
from tests.until import until


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
