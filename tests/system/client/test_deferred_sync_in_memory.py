"""Tests for deferred sync with scripted bookies in protocol version 3."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from labkit.system.client.deferred_sync import DeferredSyncWriter
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKException,
    BKLedgerClosedException,
    BKWriteException,
)
from labkit.system.model.net import Connection, OnBodies, OnClose
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire_v3 import DEFERRED_SYNC, decode_request, encode_response, response_to
from tests.ready_connection import ReadyConnection
from tests.system.client.scripted_bookies import LEDGER, Script
from tests.until import until


@dataclass
class V3Bookie:
    """A bookie that acknowledges adds and forces, unless a test makes it ignore or reject them."""

    silent_to: set[int] = field(default_factory=set)
    rejects: set[int] = field(default_factory=set)
    asked: list[pb.Request] = field(default_factory=list)
    connections: list["V3Connection"] = field(default_factory=list)

    def asked_for(self, operation: int) -> list[pb.Request]:
        return [each for each in self.asked if each.header.operation == operation]

    def answer(self, request: pb.Request) -> None:
        rejected = request.header.operation in self.rejects
        status = pb.EIO if rejected else pb.EOK
        answer = encode_response(request.header, status, response_to(request, status))
        self.connections[-1].on_bodies([answer])

    def lose_connection(self) -> None:
        self.connections[-1].on_close()


@dataclass
class V3Connection(ReadyConnection):
    """The bookie's end of one connection."""

    bookie: V3Bookie
    on_bodies: OnBodies
    on_close: OnClose

    def send(self, bodies: Sequence[bytes]) -> None:
        for request in map(decode_request, bodies):
            self.bookie.asked.append(request)
            if request.header.operation not in self.bookie.silent_to:
                asyncio.get_running_loop().call_soon(self.bookie.answer, request)

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self.on_close)


class PlayedBookies:
    """Bookies b1, b2 and b3, and a writer with deferred sync: E = Qw = 3, Qa = 2."""

    def __init__(self) -> None:
        self.script = Script(3, 3, 2)
        self.all = [V3Bookie() for _ in range(3)]
        self._by_name = dict(zip(self.script.network.bookies, self.all, strict=True))
        self.script.network.connect = self._connect  # type: ignore[method-assign]
        self.writer = DeferredSyncWriter(
            LEDGER, self.script.metadata, 0, self.script.client.context
        )
        self.writer.fence_check.saw_open(asyncio.get_running_loop().time())

    async def _connect(
        self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> Connection:
        bookie = self._by_name[host]
        bookie.connections.append(V3Connection(bookie, on_bodies, on_close))
        return bookie.connections[-1]

    async def answered_add(self, payload: bytes = b"entry") -> None:
        """Add an entry and wait until all three bookies have acknowledged it."""
        await self.writer.add(payload)
        last = self.writer.last_add_pushed
        events = "add.acked", "add.failed"
        await until(lambda: len([e for _, e, _ in self.script.recorded(*events) if e == last]) == 3)

    async def connected_again(self, place: int) -> None:
        """Close the bookie's connection and wait until the writer has opened a new one."""
        bookie = self.all[place]
        bookie.lose_connection()
        while len(bookie.connections) < 2:
            client = self.script.client.context.bookie_client.get_v3(f"b{place + 1}")
            try:
                await client.force_ledger(LEDGER)
            except BKBookieHandleNotAvailableException:
                await asyncio.sleep(0.01)


@pytest.fixture
async def played() -> PlayedBookies:
    return PlayedBookies()


async def test_an_add_asks_every_bookie_of_the_write_set_not_to_wait_for_the_sync(
    played: PlayedBookies,
) -> None:
    await played.answered_add()
    adds = [bookie.asked_for(pb.ADD_ENTRY)[0].addRequest for bookie in played.all]
    assert [(add.ledgerId, add.entryId, add.writeFlags) for add in adds] == [
        (LEDGER, 0, DEFERRED_SYNC)
    ] * 3
    assert [add.masterKey for add in adds] == [played.writer.master_key] * 3


async def test_a_quorum_acknowledges_and_only_a_force_of_all_confirms(
    played: PlayedBookies,
) -> None:
    played.all[0].silent_to = {pb.ADD_ENTRY}
    played.all[1].silent_to = {pb.FORCE_LEDGER}
    assert await played.writer.add(b"entry") == 0
    assert played.writer.last_add_acknowledged == 0
    force = asyncio.ensure_future(played.writer.force())
    await until(lambda: all(bookie.asked_for(pb.FORCE_LEDGER) for bookie in played.all))
    assert played.writer.last_add_confirmed == -1
    played.all[1].answer(played.all[1].asked_for(pb.FORCE_LEDGER)[0])
    await force
    assert (played.writer.last_add_confirmed, played.writer.length_confirmed) == (0, 5)


async def test_adds_are_acknowledged_in_order_whatever_the_order_of_responses(
    played: PlayedBookies,
) -> None:
    for bookie in played.all:
        bookie.silent_to = {pb.ADD_ENTRY}
    adds = [played.writer.add(b"entry") for _ in range(2)]
    await until(lambda: all(len(bookie.asked) == 2 for bookie in played.all))
    for bookie in played.all[:2]:
        bookie.answer(bookie.asked[1])
    await asyncio.sleep(0)
    assert played.writer.last_add_acknowledged == -1
    for bookie in played.all[:2]:
        bookie.answer(bookie.asked[0])
    assert await asyncio.gather(*adds) == [0, 1]
    assert played.writer.last_add_acknowledged == 1


async def test_what_is_acknowledged_during_a_force_belongs_to_the_next_one(
    played: PlayedBookies,
) -> None:
    played.all[2].silent_to = {pb.FORCE_LEDGER}
    await played.answered_add(b"first")
    force = asyncio.ensure_future(played.writer.force())
    await until(lambda: played.all[2].asked_for(pb.FORCE_LEDGER))
    await played.answered_add(b"second")
    played.all[2].silent_to = set()
    played.all[2].answer(played.all[2].asked_for(pb.FORCE_LEDGER)[0])
    await force
    assert (played.writer.last_add_confirmed, played.writer.length_confirmed) == (0, 5)
    await played.writer.force()
    assert (played.writer.last_add_confirmed, played.writer.length_confirmed) == (1, 11)
    assert [entry for _, entry, _ in played.script.recorded("lac.advanced")] == [0, 1]


async def test_a_force_with_nothing_to_force_asks_no_bookie(played: PlayedBookies) -> None:
    await played.writer.force()
    assert not any(bookie.asked for bookie in played.all)
    await played.answered_add()
    await played.writer.force()
    await played.writer.force()
    assert [len(bookie.asked_for(pb.FORCE_LEDGER)) for bookie in played.all] == [1, 1, 1]


async def test_a_force_that_one_bookie_rejects_moves_nothing_and_the_next_may_succeed(
    played: PlayedBookies,
) -> None:
    await played.answered_add()
    played.all[1].rejects = {pb.FORCE_LEDGER}
    with pytest.raises(BKException):
        await played.writer.force()
    assert played.writer.last_add_confirmed == -1
    played.all[1].rejects = set()
    await played.writer.force()
    assert played.writer.last_add_confirmed == 0


async def _ends_at_force(played: PlayedBookies, name: str) -> None:
    with pytest.raises(
        BKWriteException, match=f"connection to {name} was lost between add and force"
    ):
        await played.writer.force()
    assert played.writer.is_ended
    assert played.writer.last_add_confirmed == -1


async def test_a_bookie_that_was_lost_between_add_and_force_ends_the_writer(
    played: PlayedBookies,
) -> None:
    await played.answered_add()
    await played.connected_again(1)
    await _ends_at_force(played, "b2")


async def test_an_add_on_the_new_connection_does_not_vouch_for_those_on_the_old(
    played: PlayedBookies,
) -> None:
    await played.answered_add()
    await played.connected_again(1)
    await played.answered_add()
    await _ends_at_force(played, "b2")


async def test_a_force_that_failed_forgets_no_connection_that_adds_came_by(
    played: PlayedBookies,
) -> None:
    await played.answered_add()
    played.all[0].rejects = {pb.FORCE_LEDGER}
    with pytest.raises(BKException):
        await played.writer.force()
    played.all[0].rejects = set()
    await played.connected_again(1)
    await played.answered_add()
    await _ends_at_force(played, "b2")


async def test_a_force_that_was_cancelled_forgets_no_connection_that_adds_came_by(
    played: PlayedBookies,
) -> None:
    await played.answered_add()
    played.all[0].silent_to = {pb.FORCE_LEDGER}
    force = asyncio.ensure_future(played.writer.force())
    await until(lambda: played.all[0].asked_for(pb.FORCE_LEDGER))
    force.cancel()
    await asyncio.wait([force])
    played.all[0].silent_to = set()
    await played.connected_again(1)
    await _ends_at_force(played, "b2")


async def test_a_bookie_that_fails_an_add_ends_the_writer_as_none_can_take_its_place(
    played: PlayedBookies,
) -> None:
    played.all[0].silent_to = {pb.ADD_ENTRY}
    played.all[2].rejects = {pb.ADD_ENTRY}
    played.all[1].silent_to = {pb.ADD_ENTRY}
    with pytest.raises(BKWriteException, match=r"b3 failed .*a bookie cannot be replaced"):
        await played.writer.add(b"entry")
    with pytest.raises(BKWriteException, match="b3 failed"):
        await played.writer.force()


async def test_a_bookie_that_fails_an_add_after_its_quorum_ends_the_writer_at_the_next_add(
    played: PlayedBookies,
) -> None:
    played.all[2].silent_to = {pb.ADD_ENTRY}
    assert await played.writer.add(b"entry") == 0
    played.all[2].rejects = {pb.ADD_ENTRY}
    played.all[2].answer(played.all[2].asked[0])
    await asyncio.sleep(0)
    with pytest.raises(BKWriteException, match=r"b3 failed .*a bookie cannot be replaced"):
        played.writer.add(b"never sent")
    assert played.writer.last_add_pushed == 0


async def test_a_ledger_closes_at_what_was_forced(played: PlayedBookies) -> None:
    await played.answered_add(b"kept")
    await played.writer.force()
    await played.answered_add(b"never forced")
    await played.writer.close()
    metadata = await played.script.stored_metadata()
    assert (metadata.last_entry_id, metadata.length) == (0, 4)
    with pytest.raises(BKLedgerClosedException):
        await played.writer.force()
