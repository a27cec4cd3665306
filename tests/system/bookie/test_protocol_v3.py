"""Test the responses of a bookie in protocol version 3, and their timing."""

import errno
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.system.bookie.node import Bookie
from labkit.system.model.availability import decode_availability
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire_v3 import encode_request
from tests.system.bookie.in_process import NEVER_MS, Node, bodies, running
from tests.system.bookie.raw import KEY
from tests.system.bookie.raw import add as add_v2
from tests.system.bookie.raw import added as added_v2
from tests.system.bookie.raw import read as read_v2
from tests.system.bookie.v3 import V3, answered, entry, lac_body
from tests.system.storage.unreliable import failing
from tests.until import until

OTHER_KEY = bytes(20)


# Version detection


@pytest.mark.promise("Both protocol versions share a port and see the same ledger")
async def test_the_first_frame_decides_which_version_a_connection_speaks(node: Node) -> None:
    v3 = V3(node)
    old, send = node.connect()
    send(add_v2(1, 0))
    assert await answered(v3, v3.add(1, 1)) == [pb.EOK]
    await until(lambda: old.writes)
    assert old.writes == [bodies(added_v2(1, 0))]


async def test_a_frame_of_version_2_ends_a_connection_of_version_3(node: Node) -> None:
    client = V3(node)
    assert await answered(client, client.add(1, 0)) == [pb.EOK]
    client.send(read_v2(1, 0)[4:])
    assert client.connection.calls == ["close"]


async def test_what_came_before_a_frame_that_makes_no_sense_is_done(node: Node) -> None:
    client = V3(node)
    add = pb.AddRequest(ledgerId=1, entryId=0, masterKey=KEY, body=entry(1, 0))
    client.send(encode_request(pb.ADD_ENTRY, 77, add), b"\x0a", b"never looked at")
    assert client.connection.calls == ["close"]
    await until(lambda: node.store.journals[0].synced.offset > 512)
    assert node.store.read_entry(1, 0) == entry(1, 0)


@pytest.mark.parametrize("version", [pb.VERSION_ONE, pb.VERSION_TWO])
async def test_another_version_in_the_header_is_refused(
    node: Node, version: pb.ProtocolVersion
) -> None:
    client = V3(node)
    header = pb.BKPacketHeader(version=version, operation=pb.READ_ENTRY, txnId=9)
    request = pb.Request(header=header, readRequest=pb.ReadRequest(ledgerId=1, entryId=0))
    client.send(request.SerializeToString())
    assert client.status(9) == pb.EBADVERSION


@pytest.mark.parametrize(
    "operation",
    [pb.RANGE_READ_ENTRY, pb.RANGE_ADD_ENTRY, pb.START_TLS, pb.BATCH_READ_ENTRY, pb.ADD_ENTRY],
)
async def test_an_operation_that_cannot_be_done_is_a_bad_request(
    node: Node, operation: pb.OperationType
) -> None:
    client = V3(node)
    header = pb.BKPacketHeader(version=pb.VERSION_THREE, operation=operation, txnId=9)
    client.send(pb.Request(header=header).SerializeToString())
    response = client.answers[9]
    assert (response.status, response.header.operation) == (pb.EBADREQ, operation)


async def test_authentication_is_answered_with_the_plugin_for_no_authentication(node: Node) -> None:
    client = V3(node)
    txn_id = client.ask(pb.AUTH, pb.AuthMessage(authPluginName="any", payload=b"x"))
    response = client.answers[txn_id]
    assert response.status == pb.EOK
    assert response.authResponse == pb.AuthMessage(authPluginName="AuthDisabledPlugin", payload=b"")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames=st.lists(st.binary(max_size=60), max_size=4))
async def test_no_frame_makes_the_bookie_raise(node: Node, frames: list[bytes]) -> None:
    client = V3(node)
    client.read(1, 0)
    client.send(*frames)


# Adds


async def test_all_adds_of_one_receive_are_answered_in_one_write(held: Node) -> None:
    client = V3(held)
    adds = [pb.AddRequest(ledgerId=1, entryId=n, masterKey=KEY, body=entry(1, n)) for n in range(5)]
    client.send(*(encode_request(pb.ADD_ENTRY, 100 + n, add) for n, add in enumerate(adds)))
    await until(lambda: held.journal.held)
    assert client.answers == {}
    held.journal.release()
    await until(lambda: client.connection.writes)
    assert [len(write) for write in client.connection.writes] == [5]
    response = client.answers[104].addResponse
    assert (response.status, response.ledgerId, response.entryId) == (pb.EOK, 1, 4)


async def test_a_refusal_has_the_status_of_its_reason(node: Node) -> None:
    client = V3(node)
    asked = [
        (client.read(1, 0), pb.ENOLEDGER),
        (client.add(1, 0), pb.EOK),
        (missing := client.read(1, 1), pb.ENOENTRY),
        (client.add(1, 1, key=OTHER_KEY), pb.EUA),
        (client.fence(1, key=OTHER_KEY), pb.EUA),
        (client.write_lac(1, 0, key=OTHER_KEY), pb.EUA),
        (client.fence(1), pb.EOK),
        (client.add(1, 1), pb.EFENCED),
        (client.add(1, 1, recovery=True), pb.EOK),
    ]
    expected = [status for _, status in asked]
    assert await answered(client, *(txn_id for txn_id, _ in asked)) == expected
    assert client.answer(missing).readResponse.entryId == 1


async def test_a_collected_ledger_is_fenced_to_adds_and_unknown_to_all_else(node: Node) -> None:
    client = V3(node)
    assert await answered(client, client.add(1, 0)) == [pb.EOK]
    node.store.collected.add([1])
    node.store.garbage.collect([1])
    adds = client.add(1, 1), client.add(1, 1, recovery=True)
    others = client.fence(1), client.write_lac(1, 0), client.read(1, 0)
    assert await answered(client, *adds) == [pb.EFENCED] * 2
    assert await answered(client, *others) == [pb.ENOLEDGER] * 3


async def test_a_read_only_bookie_takes_only_adds_of_high_priority(node: Node) -> None:
    client = V3(node)
    node.bookie.read_only = True
    refused = client.add(1, 0), client.write_lac(1, 0)
    assert await answered(client, *refused) == [pb.EREADONLY] * 2
    assert client.answers[refused[0]].addResponse.status == pb.EREADONLY
    assert await answered(client, client.add(1, 0, recovery=True, priority=100)) == [pb.EOK]


async def test_both_versions_see_the_same_fence(node: Node) -> None:
    client = V3(node)
    old, send = node.connect()
    assert await answered(client, client.fence(1)) == [pb.ENOENTRY]
    send(add_v2(1, 0))
    assert old.writes == [bodies(added_v2(1, 0, code=104))]


# Reads


async def test_a_read_gives_the_entry_and_the_highest_lac_known(node: Node) -> None:
    client = V3(node)
    await answered(client, *[client.add(1, entry_id) for entry_id in range(4)])
    found = client.found(client.read(1, 1))
    assert (found.ledgerId, found.entryId, found.body) == (1, 1, entry(1, 1))
    assert found.maxLAC == 2
    last = client.found(client.read(1, -1))
    assert (last.entryId, last.body, last.maxLAC) == (-1, entry(1, 3), 2)


async def test_a_disk_that_cannot_be_read_is_an_io_error_and_not_no_entry(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = V3(node)
    await answered(client, client.add(1, 0))
    monkeypatch.setattr(node.store, "read_entry", failing(errno.EIO))
    asked = client.read(1, 0), client.read_lac(1), client.poll(1, -1)
    assert [client.status(txn_id) for txn_id in asked] == [pb.EIO] * 3


async def test_no_answer_to_a_fencing_read_leaves_before_the_fence_is_synced(held: Node) -> None:
    client = V3(held)
    held.journal.release()
    await answered(client, client.add(1, 0))
    asked = client.fence(1, 0), client.fence(1, 5), client.fence(2)
    await until(lambda: len(held.journal.held) == 2)
    assert not any(txn_id in client.answers for txn_id in asked)
    held.journal.release()
    # The second and third fence arrived while the first was being written, so they need another
    # sync.
    held.journal.release()
    assert await answered(client, *asked) == [pb.EOK, pb.ENOENTRY, pb.ENOENTRY]
    found = client.found(asked[0])
    assert found.body == entry(1, 0)
    assert not found.HasField("maxLAC")


# Explicit LAC


async def test_an_explicit_lac_is_answered_once_it_is_synced_and_survives_a_restart(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (node, _):
        client = V3(node)
        write = client.write_lac(1, 7)
        await until(lambda: node.journal.held)
        assert client.answers == {}
        node.journal.release()
        assert await answered(client, write) == [pb.EOK]
    async with running(tmp_path) as (node, _):
        client = V3(node)
        told = client.answer(client.read_lac(1)).readLacResponse
        assert (told.status, told.ledgerId, told.lacBody) == (pb.EOK, 1, lac_body(1, 7))
        assert not told.HasField("lastEntryBody")


async def test_read_lac_tells_the_explicit_one_and_the_last_entry(node: Node) -> None:
    client = V3(node)
    assert client.status(client.read_lac(1)) == pb.ENOENTRY
    await answered(client, client.add(1, 0), client.add(1, 1))
    told = client.answer(client.read_lac(1)).readLacResponse
    assert told.lastEntryBody == entry(1, 1)
    assert not told.HasField("lacBody")
    await answered(client, client.write_lac(1, 1))
    told = client.answer(client.read_lac(1)).readLacResponse
    assert (told.lacBody, told.lastEntryBody) == (lac_body(1, 1), entry(1, 1))


async def test_read_lac_is_done_with_the_last_entry_or_the_explicit_lac_alone(node: Node) -> None:
    client = V3(node)
    await answered(client, client.add(1, 0), client.write_lac(2, 7), client.fence(3))
    told = [client.answer(client.read_lac(ledger_id)) for ledger_id in (1, 2, 3, 4)]
    statuses = [pb.EOK, pb.EOK, pb.ENOENTRY, pb.ENOENTRY]
    assert [response.status for response in told] == statuses
    assert [response.readLacResponse.status for response in told] == statuses


# Requests for information


async def test_the_list_of_entries_has_those_in_memory_and_those_on_disk(node: Node) -> None:
    client = V3(node)
    list_entries = pb.GetListOfEntriesOfLedgerRequest(ledgerId=1)
    operation = pb.GET_LIST_OF_ENTRIES_OF_LEDGER
    assert await answered(client, client.ask(operation, list_entries)) == [pb.ENOLEDGER]
    await answered(client, *[client.add(1, entry_id) for entry_id in (0, 1, 3)])
    node.store.checkpoint()
    await answered(client, *[client.add(1, entry_id) for entry_id in (4, 9)])
    txn_id = client.ask(operation, list_entries)
    assert await answered(client, txn_id) == [pb.EOK]
    told = client.answers[txn_id].getListOfEntriesOfLedgerResponse
    entries = decode_availability(told.availabilityOfEntriesOfLedger)
    assert [n for n in range(12) if n in entries] == [0, 1, 3, 4, 9]


async def test_a_long_list_of_entries_delays_no_other_request(held: Node) -> None:
    client = V3(held)
    held.journal.release(10)
    await answered(client, client.add(1, 0))
    list_entries = pb.GetListOfEntriesOfLedgerRequest(ledgerId=1)
    listing = client.ask(pb.GET_LIST_OF_ENTRIES_OF_LEDGER, list_entries)
    assert await answered(client, client.add(1, 1), client.read(1, 0)) == [pb.EOK, pb.EOK]
    assert client.status(listing) is None
    held.flush_thread.release()
    assert await answered(client, listing) == [pb.EOK]


async def test_disk_space_is_answered_as_far_as_it_is_asked_for(node: Node) -> None:
    disks = [node.journal.run], node.flush_thread.run
    node.bookie = Bookie(
        node.store,
        *disks,
        NEVER_MS,
        lambda _: None,
        lambda: (1000, 300),
    )
    client = V3(node)
    told = [
        client.answer(client.ask(pb.GET_BOOKIE_INFO, pb.GetBookieInfoRequest(requested=flags)))
        for flags in (0, 1, 2, 3)
    ]
    infos = [response.getBookieInfoResponse for response in told]
    assert [info.totalDiskCapacity for info in infos] == [0, 1000, 0, 1000]
    assert [info.HasField("freeDiskSpace") for info in infos] == [False, False, True, True]
    assert infos[3].freeDiskSpace == 300


async def test_a_disk_without_an_end_has_no_space_to_speak_of(node: Node) -> None:
    client = V3(node)
    told = client.answer(client.ask(pb.GET_BOOKIE_INFO, pb.GetBookieInfoRequest(requested=3)))
    info = told.getBookieInfoResponse
    assert (told.status, info.totalDiskCapacity, info.freeDiskSpace) == (pb.EOK, 0, 0)
