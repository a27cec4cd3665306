"""Test which entries a chain reads from memory and which from the bookies, with scripted
ledgers.
"""

from collections import Counter
from types import SimpleNamespace
from typing import cast

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import BKNoSuchEntryException, BKReadException
from labkit.system.topic.chain.chain_reader import ChainReader, StoredEntry
from labkit.system.topic.chain.ledger_chain import LedgerChain, LedgerInfo, Position


class PlayedReader:
    """A ledger's reader that records each request and returns the requested entries."""

    def __init__(self, ledger_id: int, entry_count: int, context: "Played") -> None:
        self.last_add_confirmed = -1
        self._ledger_id = ledger_id
        self._count = entry_count
        self._context = context

    async def read_batch(self, first: int, count: int, max_bytes: int) -> list[SimpleNamespace]:
        self._context.asked.append((self._ledger_id, first, count, max_bytes))
        self._context.confirmed.append(self.last_add_confirmed)
        self._context.before_response()
        if first >= self._count:
            raise BKNoSuchEntryException("no such entry")
        last = min(first + count, self._count)
        return [SimpleNamespace(entry_id=n, payload=data(n)) for n in range(first, last)]


class Played:
    """A client, and a chain of ledgers 0, 1, 2 ... with these entry counts; the last is open."""

    def __init__(self, *counts: int, cache_size_bytes: int = 0) -> None:
        self.counts = counts
        links = [LedgerInfo(n, count, 1, 1) for n, count in enumerate(counts)]
        links[-1] = LedgerInfo(len(counts) - 1)
        self.chain = LedgerChain(links)
        self.chain.open_entry_count = counts[-1]
        self.context = self
        self.asked: list[tuple[int, int, int, int]] = []
        self.confirmed: list[int] = []
        self.looked_up: Counter[int] = Counter()
        self.before_response = lambda: None
        client = cast(BookKeeper, self)
        self.reader = ChainReader(self.chain, client, cache_size_bytes)

    async def ledger_metadata(self, ledger_id: int) -> int:
        self.looked_up[ledger_id] += 1
        return self.counts[ledger_id]

    reader_class = PlayedReader

    def keep(self, ledger_id: int, *entry_ids: int) -> None:
        """Report these entries as just stored."""
        for entry_id in entry_ids:
            self.reader.add_to_cache((ledger_id, entry_id), data(entry_id))

    async def read(self, start: Position, most: int = 1000, size: int = 10**6) -> list[Position]:
        entries = await self.reader.read(start, most, size)
        assert [entry.data for entry in entries] == [data(e.position[1]) for e in entries]
        assert all(isinstance(entry, StoredEntry) for entry in entries)
        return [entry.position for entry in entries]


def data(entry_id: int) -> bytes:
    """Return the ten bytes of this entry."""
    return b"%010d" % entry_id


def places(ledger_id: int, *entry_ids: int) -> list[Position]:
    return [(ledger_id, entry_id) for entry_id in entry_ids]


# From memory


async def test_read_is_served_from_memory_up_to_the_first_entry_that_is_not_there() -> None:
    played = Played(10, cache_size_bytes=1000)
    played.keep(0, 3, 4, 5, 7)
    assert await played.read((0, 3)) == places(0, 3, 4, 5)
    assert await played.read((0, 7)) == places(0, 7)
    assert played.asked == []
    assert await played.read((0, 2), 2) == places(0, 2, 3)
    assert played.asked == [(0, 2, 2, 10**6)]


@pytest.mark.parametrize(
    ("most", "size", "given"),
    [(1000, 1000, 6), (3, 1000, 3), (1, 1000, 1), (1000, 30, 3), (1000, 29, 2), (1000, 1, 1)],
)
async def test_read_from_memory_obeys_both_limits(most: int, size: int, given: int) -> None:
    played = Played(6, cache_size_bytes=1000)
    played.keep(0, *range(6))
    assert await played.read((0, 0), most, size) == places(0, *range(given))
    assert played.asked == []


async def test_memory_keeps_as_many_bytes_as_it_may_and_forgets_the_oldest_first() -> None:
    played = Played(10, cache_size_bytes=30)
    played.keep(0, 0, 1, 2)
    assert await played.read((0, 0)) == places(0, 0, 1, 2)
    assert played.asked == []
    played.keep(0, 3)
    assert await played.read((0, 1)) == places(0, 1, 2, 3)
    assert played.asked == []
    await played.read((0, 0))
    assert len(played.asked) == 1
    played.keep(0, 4, 5)
    assert await played.read((0, 3)) == places(0, 3, 4, 5)
    assert len(played.asked) == 1


async def test_without_room_in_memory_each_read_asks_the_bookies() -> None:
    played = Played(3)
    played.keep(0, 0, 1, 2)
    assert await played.read((0, 0)) == places(0, 0, 1, 2)
    assert played.asked == [(0, 0, 3, 10**6)]


# From the bookies


async def test_bookies_are_asked_for_what_is_confirmed_wanted_and_256_at_most() -> None:
    played = Played(300, 1000)
    assert await played.read((0, 298)) == places(0, 298, 299)
    assert await played.read((1, 0), 5, 77) == places(1, *range(5))
    assert await played.read((1, 0)) == places(1, *range(256))
    assert await played.read((1, 999)) == places(1, 999)
    assert played.asked == [
        (0, 298, 2, 10**6),
        (1, 0, 5, 77),
        (1, 0, 256, 10**6),
        (1, 999, 1, 10**6),
    ]
    # The owner tells the reader how far it may read.
    assert played.confirmed == [299, 999, 999, 999]


async def test_reader_that_knows_more_than_the_chain_keeps_its_knowledge() -> None:
    played = Played(10)
    await played.read((0, 0))
    played.chain.open_entry_count = 5
    await played.read((0, 0))
    assert played.confirmed == [9, 9]
    assert played.asked[1] == (0, 0, 5, 10**6)


async def test_read_begins_at_the_next_entry_there_is_and_ends_with_its_ledger() -> None:
    played = Played(2, 0, 3)
    assert await played.read((-1, -1)) == places(0, 0, 1)
    assert await played.read((0, 2)) == places(2, 0, 1, 2)
    assert await played.read((1, 0)) == places(2, 0, 1, 2)
    assert await played.read((2, 3)) == []


async def test_readers_of_the_sixteen_ledgers_that_were_read_last_are_kept() -> None:
    played = Played(*([1] * 18))
    for ledger_id in range(16):
        await played.read((ledger_id, 0))
    await played.read((0, 0))
    assert set(played.looked_up.values()) == {1}
    await played.read((16, 0))
    # Ledger 1 was evicted, because it was the least recently read one.
    for ledger_id in (0, 2, 15, 16):
        await played.read((ledger_id, 0))
    assert set(played.looked_up.values()) == {1}
    await played.read((1, 0))
    assert played.looked_up[1] == 2


# Trimmed ledgers


async def test_read_of_a_ledger_that_is_trimmed_meanwhile_goes_on_behind_it() -> None:
    played = Played(2, 3)

    def trim() -> None:
        played.chain.replace(played.chain.stored_ledgers[1:])
        played.before_response = lambda: None
        raise BKReadException("no bookie has the entry")

    played.before_response = trim
    assert await played.read((0, 0)) == places(1, 0, 1, 2)


async def test_read_that_fails_says_why_while_the_ledger_is_there() -> None:
    played = Played(2, 3)

    def fail() -> None:
        raise BKReadException("no bookie answers")

    played.before_response = fail
    with pytest.raises(BKReadException, match="no bookie answers"):
        await played.read((0, 0))
