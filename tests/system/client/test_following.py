"""Test how a reader follows a writer, with fake bookies."""

import asyncio

import pytest

from labkit.system.client.protocol.protocol_v3 import LongPollResult, StoredLac
from labkit.system.client.reader import LedgerReader
from labkit.system.model.entry import encode_explicit_lac, make_digest
from tests.system.client.recovering import numbered, serving
from tests.system.client.scripted_bookies import LEDGER, Script
from tests.until import DEADLINE_S, until
from tests.virtual_time import in_virtual_time


class Played:
    """A fake version 3 client of a bookie whose long polls end with `news` once
    `has_news` is set.
    """

    def __init__(self) -> None:
        self.has_news = asyncio.Event()
        self.news, self.known = LongPollResult(-1, -1, b""), StoredLac(b"", b"")
        self.poll_count = 0

    async def read_after(self, ledger_id: int, previous_lac: int, wait_s: float) -> LongPollResult:
        assert (ledger_id, wait_s > 0) == (LEDGER, True)
        self.poll_count += 1
        await self.has_news.wait()
        return self.news

    async def read_lac(self, ledger_id: int) -> StoredLac:
        assert ledger_id == LEDGER
        return self.known


async def followed(
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Played, Script, LedgerReader]:
    """Store entries 0 and 1, of which only 0 is confirmed, and open the ledger."""
    played, script = Played(), serving()
    script.put(0, -1, 0, 1, 2)
    script.put(1, 0, 0, 1, 2)
    monkeypatch.setattr(script.client.context.bookie_client, "get_v3", lambda name: played)
    return played, script, await script.client.open_ledger_no_recovery(LEDGER)


async def test_a_reader_that_waits_gets_the_entry_that_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played, script, reader = await followed(monkeypatch)
    waiting = asyncio.create_task(reader.read_last_add_confirmed_and_entry(1, 60.0))
    await until(lambda: played.poll_count == 3)
    assert not waiting.done()
    played.news = LongPollResult(1, 1, script.stored(1, numbered(2)[1], 0, 20))
    played.known = StoredLac(b"", script.stored(2, numbered(3)[2], 1, 30))
    played.has_news.set()
    confirmed, entry = await waiting
    assert (confirmed, entry and entry.payload) == (1, numbered(2)[1])
    assert [each for _, each, _ in script.recorded("read.done") if each >= 0] == [1]


@pytest.mark.parametrize(("timeout_s", "poll_count"), [(0.0, 0), (0.25, 9)])
@in_virtual_time
async def test_a_reader_waits_no_longer_than_its_timeout(
    monkeypatch: pytest.MonkeyPatch, timeout_s: float, poll_count: int
) -> None:
    played, _, reader = await followed(monkeypatch)
    played.has_news.set()  # Bookies end polls early while the ledger is fenced.
    assert await reader.read_last_add_confirmed_and_entry(1, timeout_s) == (0, None)
    assert played.poll_count == poll_count


async def test_an_explicit_lac_makes_the_newest_entry_readable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played, script, reader = await followed(monkeypatch)
    assert await reader.read_explicit_last_add_confirmed() == 0
    digest = make_digest(script.metadata.digest_type, script.metadata.password)
    played.known = StoredLac(encode_explicit_lac(LEDGER, 1, digest), b"")
    assert await reader.read_explicit_last_add_confirmed() == 1
    assert (await reader.read_entry(1)).payload == numbered(2)[1]


async def test_an_entry_that_is_confirmed_is_read_without_waiting_for_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played, _, reader = await followed(monkeypatch)
    confirmed, entry = await reader.read_last_add_confirmed_and_entry(0, 60.0)
    assert (confirmed, entry and entry.payload) == (0, numbered(1)[0])
    assert played.poll_count == 0


@in_virtual_time
async def test_all_who_wait_on_one_reader_stop_when_the_ledger_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played, script, reader = await followed(monkeypatch)
    waiting = [
        asyncio.create_task(reader.read_last_add_confirmed_and_entry(2, 3600.0)) for _ in range(2)
    ]
    await until(lambda: played.poll_count == 6)
    await script.client.open_ledger(LEDGER)
    async with asyncio.timeout(DEADLINE_S):
        assert await asyncio.gather(*waiting) == [(1, None)] * 2
    # The reader's polls do not continue in the background.
    await until(lambda: len(asyncio.all_tasks()) == 1)
