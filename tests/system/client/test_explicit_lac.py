"""Test when a writer sends an explicit LastAddConfirmed, with fake bookies."""

import asyncio

import pytest

from labkit.system.client.context import ClientConfig
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.entry import decode_explicit_lac, make_digest
from labkit.system.model.errors import BKException, BKLedgerClosedException, BKReadException
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from tests.system.client.scripted_bookies import Script
from tests.until import until
from tests.virtual_time import in_virtual_time

CONFIG = ClientConfig(request_timeout_s=60.0, explicit_lac_interval_ms=5)
Asked = asyncio.Future[pb.Response]


class Played:
    """A fake version 3 bookie client that records the LACs it is given. If `answer` is None, its
    calls never end.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[int, int, bytes, bytes]] = []
        self.open: list[Asked] = []
        self.answer: BKException | pb.Response | None = pb.Response()

    def write_lac(self, ledger_id: int, last: int, body: bytes, key: bytes) -> Asked:
        self.sent.append((ledger_id, last, body, key))
        written: Asked = asyncio.get_running_loop().create_future()
        self.open.append(written)
        if isinstance(self.answer, BKException):
            written.set_exception(self.answer)
        elif self.answer is not None:
            written.set_result(self.answer)
        return written

    @property
    def lacs(self) -> list[int]:
        return [last for _, last, _, _ in self.sent]


class World:
    """A writer with E = 3, Qw = 2 and Qa = 2, whose adds the test acknowledges."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, config: ClientConfig = CONFIG) -> None:
        self.script = Script(3, 2, 2, config=config)
        self.played = {bookie.name: Played() for bookie in self.script.bookies}
        bookies = self.script.client.context.bookie_client
        monkeypatch.setattr(bookies, "get_v3", self.played.__getitem__)

    async def writer(self) -> LedgerWriter:
        return await self.script.client.create_ledger(3, 2, 2, password=b"secret")

    @property
    def lacs(self) -> list[list[int]]:
        return [each.lacs for each in self.played.values()]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def looks(count: int = 4) -> None:
    """Wait for at least this number of intervals."""
    for _ in range(count):
        await asyncio.sleep(CONFIG.explicit_lac_interval_ms / 1000)


async def test_newest_is_sent_once_to_the_write_set_with_its_digest_and_key(world: World) -> None:
    writer = await world.writer()
    writer.last_add_confirmed = 1
    await until(lambda: world.lacs == [[], [1], [1]])
    await looks()
    assert world.lacs == [[], [1], [1]]
    digest = make_digest(writer.metadata.digest_type, b"secret")
    [(ledger_id, _, body, key)] = world.played["b2"].sent
    assert (ledger_id, key) == (writer.ledger_id, writer.master_key)
    assert decode_explicit_lac(body, digest, ledger_id) == 1
    writer.last_add_confirmed = 2
    await until(lambda: world.lacs == [[2], [1], [1, 2]])
    await looks()
    assert world.lacs == [[2], [1], [1, 2]]


@pytest.mark.parametrize("answer", [BKReadException("failed"), None])
async def test_what_too_few_bookies_have_is_sent_again(
    world: World, answer: BKException | None
) -> None:
    writer = await world.writer()
    world.played["b2"].answer = answer
    writer.last_add_confirmed = 0
    await until(lambda: len(world.played["b1"].lacs) >= 3)
    world.played["b2"].answer = pb.Response()
    answered = world.played["b2"]
    sent_before = len(answered.lacs)
    await until(lambda: len(answered.lacs) > sent_before)
    await looks()
    sent = world.lacs
    await looks()
    assert world.lacs == sent


@pytest.mark.parametrize("closes_client", [False, True])
async def test_it_ends_with_the_writer_and_with_the_client(
    world: World, closes_client: bool
) -> None:
    writer = await world.writer()
    if closes_client:
        world.script.client.close()
    else:
        writer.end(BKLedgerClosedException("the test ends it"))
    writer.last_add_confirmed = 0
    await looks()
    assert world.lacs == [[], [], []]


@in_virtual_time
async def test_it_is_sent_when_the_interval_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ClientConfig(request_timeout_s=60.0, explicit_lac_interval_ms=2000)
    world = World(monkeypatch, config)
    writer = await world.writer()
    writer.last_add_confirmed = 0
    await asyncio.sleep(1.9995)
    assert world.lacs == [[], [], []]
    await asyncio.sleep(0.001)
    assert sorted(world.lacs) == [[], [0], [0]]


async def test_what_a_later_entry_contains_is_not_sent(world: World) -> None:
    writer = await world.writer()
    writer.last_add_pushed = writer.last_add_confirmed = 0
    writer.add(b"entry 1")
    await looks()
    assert world.lacs == [[], [], []]
    writer.last_add_confirmed = 1
    await until(lambda: world.lacs == [[], [1], [1]])
