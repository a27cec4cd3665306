"""How a reader follows a writer, by bookies that the test plays."""

import asyncio

import pytest

from labkit.system.client.protocol.protocol_v3 import KnownLac, LongPollResult
from labkit.system.model.entry import encode_explicit_lac, make_digest
from labkit.system.model.errors import BKNoSuchEntryException
from labkit.worlds.sim.machine.loop import SimLoop
from tests.system.client.recovering import numbered, serving
from tests.system.client.scripted_bookies import LEDGER, Script
from tests.until import until


class Played:
    """A bookie's version 3: says what is known when a long poll ends, if it ever does."""

    def __init__(self) -> None:
        self.has_news = asyncio.Event()
        self.news, self.known = LongPollResult(-1, -1, b""), KnownLac(b"", b"")
        self.poll_count = 0

    async def read_after(self, ledger_id: int, previous_lac: int, wait_s: float) -> LongPollResult:
        assert (ledger_id, wait_s > 0) == (LEDGER, True)
        self.poll_count += 1
        await self.has_news.wait()
        return self.news

    async def read_lac(self, ledger_id: int) -> KnownLac:
        assert ledger_id == LEDGER
        return self.known


class Never(Played):
    """A bookie that has no entry of the ledger yet, so that nobody can wait there."""

    async def read_after(self, ledger_id: int, previous_lac: int, wait_s: float) -> LongPollResult:
        self.poll_count += 1
        raise BKNoSuchEntryException


def followed(monkeypatch: pytest.MonkeyPatch, played: Played) -> Script:
    """Entries 0 and 1 are stored, and 0 is confirmed."""
    script = serving()
    script.put(0, -1, 0, 1, 2)
    script.put(1, 0, 0, 1, 2)
    monkeypatch.setattr(script.client.context.bookies, "get_v3", lambda name: played)
    return script


async def test_a_reader_that_recovers_nothing_knows_at_once_what_is_confirmed() -> None:
    script = serving()
    script.put(4, 3, 0, 1, 2)
    reader = await script.client.open_ledger_no_recovery(LEDGER)
    assert reader.last_add_confirmed == 3


async def test_a_reader_that_waits_gets_the_entry_that_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = Played()
    script = followed(monkeypatch, played)
    reader = await script.client.open_ledger_no_recovery(LEDGER)
    waiting = asyncio.create_task(reader.read_last_add_confirmed_and_entry(1, 60.0))
    await until(lambda: played.poll_count == 3)
    assert not waiting.done()
    played.news = LongPollResult(1, 1, script.stored(1, numbered(2)[1], 0, 20))
    played.known = KnownLac(b"", script.stored(2, numbered(3)[2], 1, 30))
    played.has_news.set()
    confirmed, entry = await waiting
    assert (confirmed, entry and entry.payload) == (1, numbered(2)[1])
    assert [each for _, each, _ in script.recorded("read.done") if each >= 0] == [1]


async def test_a_reader_stops_waiting_when_the_ledger_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = Played()
    script = followed(monkeypatch, played)
    reader = await script.client.open_ledger_no_recovery(LEDGER)
    waiting = asyncio.create_task(reader.read_last_add_confirmed_and_entry(2, 60.0))
    await until(lambda: played.poll_count == 3)
    await script.client.open_ledger(LEDGER)
    assert await waiting == (1, None)
    # Nor do its questions go on without it.
    await until(lambda: len(asyncio.all_tasks()) == 1)


async def test_a_reader_waits_no_longer_than_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Never()
    script = followed(monkeypatch, played)
    reader = await script.client.open_ledger_no_recovery(LEDGER)
    async with asyncio.timeout(10):
        assert await reader.read_last_add_confirmed_and_entry(1, 0.02) == (0, None)
    assert played.poll_count >= 3


async def test_an_entry_that_is_confirmed_is_read_without_waiting_for_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = Played()
    script = followed(monkeypatch, played)
    reader = await script.client.open_ledger_no_recovery(LEDGER)
    confirmed, entry = await reader.read_last_add_confirmed_and_entry(0, 60.0)
    assert (confirmed, entry and entry.payload) == (0, numbered(1)[0])
    assert played.poll_count == 0


def test_a_reader_without_time_waits_for_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played()

    async def read_at_once() -> tuple[int, object]:
        script = followed(monkeypatch, played)
        reader = await script.client.open_ledger_no_recovery(LEDGER)
        async with asyncio.timeout(60):
            return await reader.read_last_add_confirmed_and_entry(1, 0.0)

    assert SimLoop().run(read_at_once()) == (0, None)
    assert played.poll_count == 0


async def test_an_explicit_lac_makes_the_newest_entry_readable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = Played()
    script = followed(monkeypatch, played)
    reader = await script.client.open_ledger_no_recovery(LEDGER)
    assert await reader.read_explicit_last_add_confirmed() == 0
    digest = make_digest(script.metadata.digest_type, script.metadata.password)
    played.known = KnownLac(encode_explicit_lac(LEDGER, 1, digest), b"")
    assert await reader.read_explicit_last_add_confirmed() == 1
    assert (await reader.read_entry(1)).payload == numbered(2)[1]
