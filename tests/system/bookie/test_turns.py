"""Tests for clients that send many requests or read no responses: how much a bookie buffers for
them, and who has to wait.
"""

import asyncio
from collections.abc import Sequence

import pytest

from labkit.system.bookie.channel import MAX_DELAYED_COST, REQUEST_COST
from labkit.system.bookie.turns import TURN_COST
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire_v3 import encode_request
from tests.system.bookie.in_process import FakeConnection, Node, bodies
from tests.system.bookie.raw import FENCE, KEY, NO_ENTRY, add, added, answer, entry, read
from tests.system.bookie.v3 import V3, answered
from tests.system.bookie.v3 import entry as entry_v3
from tests.until import until

LARGE = bytes(1024 * 1024)
COUNT = 200
LARGE_ANSWER = answer(2, 0, 1, 0, entry(1, 0, LARGE))
A_TURN_AND_AN_ANSWER = TURN_COST + len(LARGE_ANSWER)


class FullConnection(FakeConnection):
    """A connection that is not writable from the first response until its client reads
    everything.
    """

    def send(self, bodies: Sequence[bytes]) -> None:
        super().send(bodies)
        self.is_writable = False


def sent_bytes(connection: FakeConnection) -> int:
    return sum(map(len, connection.received))


async def some_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def large_entry(node: Node) -> None:
    writer, send = node.connect()
    send(add(1, 0, LARGE))
    await until(lambda: writer.writes)


async def test_little_is_kept_for_a_client_that_does_not_take_its_answers(node: Node) -> None:
    await large_entry(node)
    connection = FullConnection()
    node.bookie.accept(connection)(bodies(*[read(1, 0)] * COUNT))
    await some_turns()
    assert connection.calls == ["pause"]
    assert sent_bytes(connection) <= A_TURN_AND_AN_ANSWER
    while len(connection.received) < COUNT:
        before = sent_bytes(connection)
        connection.take()
        await some_turns()
        assert sent_bytes(connection) - before <= A_TURN_AND_AN_ANSWER
    assert set(connection.received) == set(bodies(LARGE_ANSWER))
    connection.take()
    assert connection.calls == ["pause", "resume"]


async def test_a_client_that_adds_and_takes_no_answers_is_held_back(node: Node) -> None:
    connection = FullConnection()
    take = node.bookie.accept(connection)
    take(bodies(add(1, 0)))
    await until(lambda: connection.writes)
    take(bodies(add(1, 1)))
    assert connection.calls == ["pause"]
    connection.take()
    assert connection.calls == ["pause", "resume"]


async def test_adds_of_others_are_done_between_the_reads_of_one(node: Node) -> None:
    await large_entry(node)
    reader, ask = node.connect()
    writer, send = node.connect()
    ask(*[read(1, 0)] * COUNT)
    send(add(2, 0))
    await until(lambda: writer.writes)
    assert writer.writes == [bodies(added(2, 0))]
    assert len(reader.received) < COUNT
    await until(lambda: len(reader.received) == COUNT)


async def test_a_read_of_another_client_waits_for_a_turn_and_not_for_all_that_one_wants(
    node: Node,
) -> None:
    await large_entry(node)
    reader, ask = node.connect()
    other, ask_too = node.connect()
    ask(*[read(1, 0)] * COUNT)
    ask_too(read(1, 7))
    assert other.writes == []
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert other.writes == [bodies(answer(2, NO_ENTRY, 1, 7))]
    assert len(reader.received) <= 3


async def test_each_turn_has_its_own_time(node: Node) -> None:
    await large_entry(node)
    reader, ask = node.connect()
    for _ in range(3):
        ask(read(1, 0))
        assert len(reader.received) == 1
        ask(read(1, 7))
        assert len(reader.received) == 1
        await some_turns()
        assert len(reader.received) == 2
        reader.writes.clear()


async def test_waiting_clients_share_a_turn_a_quarter_at_a_time(node: Node) -> None:
    await large_entry(node)
    _, ask = node.connect()
    clients = [node.connect() for _ in range(2)]
    ask(read(1, 0))
    share = TURN_COST // 4 // REQUEST_COST
    for _, ask_too in clients:
        ask_too(*[read(1, 7)] * (3 * share))
    assert [connection.writes for connection, _ in clients] == [[], []]
    await asyncio.sleep(0)
    # In this turn, each client gets a second share, but not a third.
    assert [[len(write) for write in one.writes] for one, _ in clients] == [[share, share]] * 2
    await some_turns()
    assert [len(one.received) for one, _ in clients] == [3 * share] * 2


async def test_requests_of_one_client_are_answered_in_their_order(node: Node) -> None:
    await large_entry(node)
    reader, ask = node.connect()
    ask(*[read(1, 0)] * 10, *[read(1, number) for number in range(1, 50)])
    expected = [*[LARGE_ANSWER] * 10, *[answer(2, NO_ENTRY, 1, n) for n in range(1, 50)]]
    await until(lambda: len(reader.received) == len(expected))
    assert reader.received == bodies(*expected)


async def test_adds_of_a_client_do_not_wait_for_its_own_reads(node: Node) -> None:
    await large_entry(node)
    client, ask = node.connect()
    ask(*[read(1, 0)] * COUNT, add(2, 0))
    await until(lambda: bodies(added(2, 0))[0] in client.received)
    assert len(client.received) < COUNT


async def test_what_a_client_asked_for_is_forgotten_when_it_is_gone(node: Node) -> None:
    await large_entry(node)
    reader, ask = node.connect()
    ask(*[read(1, 0)] * COUNT)
    reader.drop()
    served = len(reader.received)
    await some_turns()
    assert len(reader.received) == served


async def test_few_fencing_reads_are_done_while_the_journal_is_slow(held: Node) -> None:
    held.journal.release()
    await large_entry(held)
    reader, ask = held.connect()
    ask(*[read(1, 0, FENCE, KEY)] * COUNT)
    await some_turns()
    fences = held.kinds().count(("ledger.fenced", -1))
    assert 1 <= fences <= 1 + MAX_DELAYED_COST // len(LARGE)
    held.journal.release(10 * COUNT)
    await until(lambda: len(reader.received) == COUNT)
    assert set(reader.received) == set(bodies(LARGE_ANSWER))


async def test_few_explicit_lacs_are_kept_while_the_journal_is_slow(held: Node) -> None:
    client = V3(held)
    tells = [client.write_lac(1, number) for number in range(1000)]
    await some_turns()
    appended = held.kinds().count(("journal.lac_appended", -1))
    assert 1 <= appended <= MAX_DELAYED_COST // REQUEST_COST
    held.journal.release(1000)
    assert len(await answered(client, *tells)) == 1000


async def test_adds_of_version_3_share_a_turn_by_their_size(node: Node) -> None:
    client = V3(node)
    body = entry_v3(1, 0).ljust(3 * REQUEST_COST, b".")
    add = pb.AddRequest(ledgerId=1, entryId=0, masterKey=KEY, body=body)
    fit = TURN_COST // (4 * REQUEST_COST)
    client.send(*(encode_request(pb.ADD_ENTRY, number, add) for number in range(fit + 1)))
    assert node.kinds().count(("journal.appended", 0)) == fit
    await answered(client, *range(fit + 1))


async def test_requests_whose_answers_come_later_take_their_part_of_a_turn(node: Node) -> None:
    assert await answered(first := V3(node), first.add(1, 0)) == [pb.EOK]
    await some_turns()
    wanted = pb.GetListOfEntriesOfLedgerRequest(ledgerId=1)
    lists = polls = TURN_COST // REQUEST_COST // 2
    at_once = MAX_DELAYED_COST // (64 * 1024)
    for _ in range(lists // at_once):
        client = V3(node)
        for _ in range(at_once):
            client.ask(pb.GET_LIST_OF_ENTRIES_OF_LEDGER, wanted)
    client = V3(node)
    for _ in range(polls):
        client.poll(1, 0)
    other = V3(node)
    read = other.read(1, 0)
    assert other.status(read) is None
    await some_turns()
    assert other.status(read) == pb.EOK


async def test_lists_of_entries_that_fail_do_not_block_their_client(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> list[int]:
        raise ZeroDivisionError("planted")

    client = V3(node)
    assert await answered(client, client.add(1, 0)) == [pb.EOK]
    monkeypatch.setattr(node.store, "entry_ids", fail)
    for _ in range(MAX_DELAYED_COST // (64 * 1024)):
        client.ask(pb.GET_LIST_OF_ENTRIES_OF_LEDGER, pb.GetListOfEntriesOfLedgerRequest(ledgerId=1))
    assert await answered(client, client.read(1, 0)) == [pb.EOK]
