"""Adds of several ledgers in one receive: one bookie in this process, over real files."""

from pathlib import Path

from labkit.model.wire import Code
from tests.bookie.in_process import bodies, running
from tests.bookie.raw import FENCED, KEY, RECOVERY_ADD, add, added, answer
from tests.until import until

OTHER_KEY = bytes(20)


async def test_adds_of_all_ledgers_of_a_receive_are_stored_and_answered_in_their_order(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (node, _):
        connection, send = node.connect()
        ids = [(1, 0), (2, 0), (1, 1), (3, 7), (2, 1)]
        send(*(add(*each) for each in ids))
        node.journal.let_go()
        await until(lambda: connection.writes)
        assert connection.writes == [bodies(*(added(*each) for each in ids))]
        assert [node.store.entry_ids(ledger_id) for ledger_id in (1, 2, 3)] == [[0, 1], [0, 1], [7]]
        reported = [(row.ledger, row.entry) for row in node.rows if row.kind == "journal.synced"]
        assert reported == ids


async def test_a_fenced_ledger_refuses_its_own_adds_of_a_receive_and_no_others(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (node, _):
        connection, send = node.connect()
        node.store.fence(2, KEY)
        send(add(1, 0), add(2, 0), add(3, 0), add(2, 1), add(1, 1))
        assert connection.writes == [bodies(*(answer(1, FENCED, 2, entry) for entry in (0, 1)))]
        node.journal.let_go()
        await until(lambda: len(connection.writes) == 2)
        assert connection.writes[1] == bodies(added(1, 0), added(1, 1), added(3, 0))
        assert node.store.entry_ids(2) == []


async def test_recovery_adds_of_a_receive_reach_a_fenced_ledger(tmp_path: Path) -> None:
    async with running(tmp_path) as (node, _):
        connection, send = node.connect()
        node.store.fence(2, KEY)
        send(add(2, 0), add(2, 1, flags=RECOVERY_ADD), add(1, 0))
        assert connection.writes == [bodies(answer(1, FENCED, 2, 0))]
        node.journal.let_go()
        await until(lambda: len(connection.writes) == 2)
        assert node.store.entry_ids(2) == [1]
        assert node.store.entry_ids(1) == [0]


async def test_another_key_is_refused_for_its_ledger_alone(tmp_path: Path) -> None:
    async with running(tmp_path) as (node, _):
        connection, send = node.connect()
        node.store.fence(2, OTHER_KEY)
        send(add(1, 0), add(2, 0))
        assert connection.writes == [bodies(answer(1, Code.UNAUTHORIZED, 2, 0))]
        node.journal.let_go()
        await until(lambda: len(connection.writes) == 2)
        assert connection.writes[1] == bodies(added(1, 0))


async def test_a_ledgers_key_is_in_the_journal_before_its_first_entry(tmp_path: Path) -> None:
    async with running(tmp_path) as (node, _):
        _, send = node.connect()
        send(add(1, 0), add(2, 0), add(1, 1))
        kinds = [(row.kind, row.ledger) for row in node.rows if row.kind.startswith("journal.")]
        assert kinds[:2] == [("journal.key_appended", 1), ("journal.key_appended", 2)]
        appended = [row.offset for row in node.rows if row.kind == "journal.appended"]
        assert appended == sorted(appended)
        keys = [row.offset for row in node.rows if row.kind == "journal.key_appended"]
        assert max(keys) < min(appended)
