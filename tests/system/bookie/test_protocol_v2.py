"""Test the responses of a bookie in this process in protocol version 2, and their timing."""

import errno

import pytest

from labkit.system.bookie.channel import REQUEST_COST
from labkit.system.bookie.turns import TURN_COST
from labkit.system.model.batch_read import encode_batch_read
from labkit.system.model.proto.bookkeeper_protocol_pb2 import AuthMessage
from labkit.system.model.wire import BatchReadRequest, Code
from tests.batch_answers import batch_answer
from tests.system.bookie.in_process import Node, bodies
from tests.system.bookie.raw import (
    BAD_REQUEST,
    FENCE,
    FENCED,
    IO_ERROR,
    KEY,
    NO_ENTRY,
    NO_LEDGER,
    RECOVERY_ADD,
    UNAUTHORIZED,
    add,
    added,
    answer,
    entry,
    frame,
    read,
)
from tests.system.storage.unreliable import failing
from tests.until import until

OTHER_KEY = bytes(20)


# Adds for several ledgers in one receive


async def test_adds_of_all_ledgers_of_a_receive_are_stored_and_answered_in_their_order(
    held: Node,
) -> None:
    connection, send = held.connect()
    ids = [(1, 0), (2, 0), (1, 1), (3, 7), (2, 1)]
    send(*(add(*each) for each in ids))
    held.journal.release()
    await until(lambda: connection.writes)
    assert connection.writes == [bodies(*(added(*each) for each in ids))]
    assert [held.store.entry_ids(ledger_id) for ledger_id in (1, 2, 3)] == [[0, 1], [0, 1], [7]]
    reported = [(row.ledger, row.entry) for row in held.rows if row.kind == "journal.synced"]
    assert reported == ids


async def test_a_fenced_ledger_refuses_its_own_adds_of_a_receive_and_no_others(held: Node) -> None:
    connection, send = held.connect()
    held.store.fence(2, KEY)
    send(add(1, 0), add(2, 0), add(3, 0), add(2, 1), add(1, 1))
    assert connection.writes == [bodies(*(answer(1, FENCED, 2, entry) for entry in (0, 1)))]
    held.journal.release()
    await until(lambda: len(connection.writes) == 2)
    assert connection.writes[1] == bodies(added(1, 0), added(1, 1), added(3, 0))
    assert held.store.entry_ids(2) == []


@pytest.mark.promise("A fenced ledger accepts only recovery's adds")
async def test_recovery_adds_of_a_receive_reach_a_fenced_ledger(held: Node) -> None:
    connection, send = held.connect()
    held.store.fence(2, KEY)
    send(add(2, 0), add(2, 1, flags=RECOVERY_ADD), add(1, 0))
    assert connection.writes == [bodies(answer(1, FENCED, 2, 0))]
    held.journal.release()
    await until(lambda: len(connection.writes) == 2)
    assert held.store.entry_ids(2) == [1]
    assert held.store.entry_ids(1) == [0]


async def test_another_key_is_refused_for_its_ledger_alone(held: Node) -> None:
    connection, send = held.connect()
    held.store.fence(2, OTHER_KEY)
    send(add(1, 0), add(2, 0))
    assert connection.writes == [bodies(answer(1, Code.UNAUTHORIZED, 2, 0))]
    held.journal.release()
    await until(lambda: len(connection.writes) == 2)
    assert connection.writes[1] == bodies(added(1, 0))


async def test_a_ledgers_key_is_in_the_journal_before_its_first_entry(held: Node) -> None:
    _, send = held.connect()
    send(add(1, 0), add(2, 0), add(1, 1))
    kinds = [(row.kind, row.ledger) for row in held.rows if row.kind.startswith("journal.")]
    assert kinds[:2] == [("journal.key_appended", 1), ("journal.key_appended", 2)]
    appended = [row.offset for row in held.rows if row.kind == "journal.appended"]
    assert appended == sorted(appended)
    keys = [row.offset for row in held.rows if row.kind == "journal.key_appended"]
    assert max(keys) < min(appended)


@pytest.mark.parametrize("ledgers", [(1, 1, 1), (1, 2, 3)])
async def test_a_journal_that_cannot_take_an_add_is_an_io_error_of_each(
    node: Node, monkeypatch: pytest.MonkeyPatch, ledgers: tuple[int, ...]
) -> None:
    monkeypatch.setattr(node.store, "add_entries", failing(errno.EIO))
    connection, send = node.connect()
    ids = [*zip(ledgers, range(3), strict=True)]
    send(*(add(*each) for each in ids))
    assert connection.writes == [bodies(*(added(*each, code=IO_ERROR) for each in ids))]


# Reads


def batch(first: int, count: int = 0, flags: int = 0, key: bytes = b"") -> BatchReadRequest:
    return BatchReadRequest(1, first, 77, count, 1_000_000, flags, key)


def batch_read(request: BatchReadRequest) -> bytes:
    return frame(encode_batch_read(request))


async def stored(node: Node, count: int) -> None:
    writer, send = node.connect()
    send(*(add(1, entry_id) for entry_id in range(count)))
    node.journal.release()
    await until(lambda: writer.writes)


async def test_a_batch_read_gives_the_entries_that_it_names(node: Node) -> None:
    await stored(node, 5)
    connection, ask = node.connect()
    request = batch(1, 3)
    ask(batch_read(request))
    found = [entry(1, entry_id) for entry_id in (1, 2, 3)]
    assert connection.writes == [[batch_answer(request, Code.OK, found)]]


async def test_a_batch_read_of_what_is_not_there_says_so_as_a_read_does(node: Node) -> None:
    connection, ask = node.connect()
    ask(batch_read(batch(0)), read(1, 0))
    await stored(node, 1)
    ask(batch_read(batch(1)), read(1, 1))
    assert connection.received == [
        batch_answer(batch(0), Code.NO_LEDGER, []),
        *bodies(answer(2, NO_LEDGER, 1, 0)),
        batch_answer(batch(1), Code.NO_ENTRY, []),
        *bodies(answer(2, NO_ENTRY, 1, 1)),
    ]


async def test_a_disk_that_cannot_be_read_is_an_io_error_of_the_read(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored(node, 1)
    monkeypatch.setattr(node.store, "read_entry", failing(errno.EIO))
    connection, ask = node.connect()
    ask(read(1, 0), batch_read(batch(0)))
    assert connection.received == [
        *bodies(answer(2, IO_ERROR, 1, 0)),
        batch_answer(batch(0), Code.IO_ERROR, []),
    ]


async def test_a_fencing_batch_read_is_answered_once_the_fence_is_synced(held: Node) -> None:
    await stored(held, 2)
    connection, ask = held.connect()
    request = batch(0, 2, FENCE, KEY)
    ask(batch_read(request), add(1, 2))
    assert connection.writes == [bodies(added(1, 2, FENCED))]
    held.journal.release()
    await until(lambda: len(connection.writes) == 2)
    found = [entry(1, entry_id) for entry_id in (0, 1)]
    assert connection.writes[1] == [batch_answer(request, Code.OK, found)]


@pytest.mark.parametrize("key", [OTHER_KEY, KEY[:19], b""])
async def test_a_fence_with_another_key_is_refused_at_once(held: Node, key: bytes) -> None:
    await stored(held, 1)
    connection, ask = held.connect()
    request = batch(0, 1, FENCE, key)
    ask(read(1, 0, FENCE, key), batch_read(request))
    assert connection.received == [
        *bodies(answer(2, UNAUTHORIZED, 1, 0)),
        batch_answer(request, Code.UNAUTHORIZED, []),
    ]
    connection.writes.clear()
    ask(add(1, 1))
    held.journal.release()
    await until(lambda: connection.writes)
    assert connection.writes == [bodies(added(1, 1))]


async def test_a_fence_of_an_unknown_ledger_needs_a_whole_key(node: Node) -> None:
    connection, ask = node.connect()
    ask(read(9, 0, FENCE, KEY[:19]))
    assert connection.writes == [bodies(answer(2, UNAUTHORIZED, 9, 0))]
    assert node.store.ledger_ids() == []


async def test_a_batch_read_takes_as_much_of_a_turn_as_reads_of_its_entries(node: Node) -> None:
    count = TURN_COST // REQUEST_COST
    await stored(node, count)
    (_, ask), (other, ask_too) = node.connect(), node.connect()
    ask(batch_read(batch(0)))
    ask_too(read(1, 0))
    assert other.writes == []
    await until(lambda: other.writes)
    assert other.writes == [bodies(answer(2, 0, 1, 0, entry(1, 0)))]


# Other requests


async def test_what_is_neither_an_add_nor_a_read_is_answered_in_its_turn(node: Node) -> None:
    connection, ask = node.connect()
    auth = (
        bytes.fromhex("02030000")
        + AuthMessage(authPluginName="any", payload=b"").SerializeToString()
    )
    ask(read(1, 0), frame(auth), frame(bytes.fromhex("02630000")), read(1, 1))
    first, about_auth, bad, last = connection.received
    assert [first, last] == bodies(*(answer(2, NO_LEDGER, 1, entry_id) for entry_id in (0, 1)))
    assert about_auth[:4].hex() == "02030000"
    assert AuthMessage.FromString(about_auth[4:]).authPluginName == "AuthDisabledPlugin"
    assert [bad] == bodies(answer(0x63, BAD_REQUEST, -1, -1))
