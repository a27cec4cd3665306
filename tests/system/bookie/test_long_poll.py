"""Tests for long polls, which wait on the bookie for the next entry."""

from functools import partial

import pytest

from labkit.system.bookie.long_poll import LongPolls
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from tests.system.bookie.in_process import FakeConnection, Node
from tests.system.bookie.raw import add as add_v2
from tests.system.bookie.v3 import V3, answered, entry
from tests.until import until


async def test_a_long_poll_waits_until_the_next_entry_is_confirmed(node: Node) -> None:
    writer, reader = V3(node), V3(node)
    await answered(writer, writer.add(1, 0))
    poll = reader.poll(1, -1)
    await answered(writer, writer.add(1, 1, confirmed=-1))
    assert reader.answers == {}
    await answered(writer, writer.add(1, 2, confirmed=1))
    news = reader.found(poll)
    assert (news.entryId, news.body, news.maxLAC) == (0, entry(1, 0), 1)


async def test_adds_of_version_2_end_long_polls(node: Node) -> None:
    _, send = node.connect()
    reader = V3(node)
    send(add_v2(1, 0))
    poll = reader.poll(1, -1)
    writer = V3(node)
    await answered(writer, writer.add(1, 1))
    assert reader.found(poll).maxLAC == 0


async def test_an_explicit_lac_ends_long_polls(node: Node) -> None:
    writer, reader = V3(node), V3(node)
    await answered(writer, writer.add(1, 0))
    poll = reader.poll(1, -1)
    await answered(writer, writer.write_lac(1, 0))
    news = reader.found(poll)
    assert (news.entryId, news.body, news.maxLAC) == (0, entry(1, 0), 0)


async def test_a_long_poll_behind_the_lac_is_answered_at_once(node: Node) -> None:
    client = V3(node)
    await answered(client, *[client.add(1, entry_id) for entry_id in range(5)])
    news = client.found(client.poll(1, 1))
    assert (news.entryId, news.body, news.maxLAC) == (2, entry(1, 2), 3)


async def test_a_long_poll_that_may_not_wait_is_answered_at_once(node: Node) -> None:
    client = V3(node)
    await answered(client, client.add(1, 0))
    news = client.found(client.poll(1, -1, timeout_ms=0))
    assert (news.entryId, news.maxLAC) == (-1, -1)


async def test_a_long_poll_of_an_entry_that_lies_elsewhere_tells_the_lac_alone(node: Node) -> None:
    client = V3(node)
    await answered(client, client.add(1, 2, confirmed=1))
    news = client.found(client.poll(1, -1))
    assert (news.entryId, news.maxLAC) == (-1, 1)
    assert not news.HasField("body")


async def test_a_long_poll_ends_when_its_time_is_up(node: Node) -> None:
    client = V3(node)
    await answered(client, client.add(1, 0))
    poll = client.poll(1, -1, timeout_ms=1)
    await until(lambda: poll in client.answers)
    news = client.found(poll)
    assert (news.entryId, news.maxLAC) == (-1, -1)
    assert not news.HasField("body")


async def test_a_long_poll_may_want_the_last_entry_only(node: Node) -> None:
    client = V3(node)
    await answered(client, client.add(1, 0))
    poll = client.read(1, 0, previousLAC=-1, timeOut=3_600_000)
    await answered(client, client.add(1, 1))
    news = client.found(poll)
    assert (news.entryId, news.body, news.maxLAC) == (0, entry(1, 0), 0)


async def test_a_fence_ends_long_polls_and_a_fenced_ledger_has_none(node: Node) -> None:
    reader, recoverer = V3(node), V3(node)
    await answered(recoverer, recoverer.add(1, 0))
    poll = reader.poll(1, -1)
    await answered(recoverer, recoverer.fence(1))
    assert reader.found(poll).maxLAC == -1
    assert reader.found(reader.poll(1, -1)).maxLAC == -1


async def test_a_long_poll_of_an_unknown_ledger_does_not_wait(node: Node) -> None:
    client = V3(node)
    assert client.status(client.poll(404, -1)) == pb.ENOLEDGER


async def test_a_long_poll_delays_no_other_request(node: Node) -> None:
    client = V3(node)
    await answered(client, client.add(1, 0))
    polls = [client.poll(1, -1) for _ in range(100)]
    assert client.status(client.read(1, 0)) == pb.EOK
    assert await answered(client, client.add(2, 0)) == [pb.EOK]
    assert not any(poll in client.answers for poll in polls)
    await answered(client, client.add(1, 1), *polls)


async def test_a_long_poll_ends_with_its_connection(node: Node) -> None:
    leaving, staying = V3(node), V3(node)
    await answered(staying, staying.add(1, 0))
    poll, other = leaving.poll(1, -1), staying.poll(1, -1)
    leaving.poll(1, -1, timeout_ms=1)
    leaving.connection.drop()
    await answered(staying, staying.add(1, 1), other)
    assert poll not in leaving.answers
    assert leaving.answers == {}


async def test_of_too_many_waits_the_oldest_of_the_client_with_most_is_answered(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.system.bookie.long_poll.MAX_POLLS", 10)
    greedy, modest = V3(node), V3(node)
    await answered(greedy, greedy.add(1, 0))
    first = modest.poll(1, -1)
    polls = [greedy.poll(1, -1) for _ in range(12)]
    assert [poll for poll in polls if poll in greedy.answers] == polls[:3]
    assert greedy.found(polls[0]).entryId == -1
    modest.poll(1, -1)
    assert first not in modest.answers
    assert polls[3] in greedy.answers


async def test_a_wait_leaves_nothing_behind_once_it_is_answered() -> None:
    waits, answers = LongPolls(), list[int]()
    connection = FakeConnection()
    for number in range(3):
        waits.begin(connection, 1, number, 3_600_000, partial(answers.append, number))
    waits.advance(1, 1)
    assert (answers, waits.is_waited_for(1)) == ([0], True)
    waits.end_all(1)
    assert (answers, waits.is_waited_for(1), waits.is_empty) == ([0, 1, 2], False, True)
    connection.close()
    assert answers == [0, 1, 2]
