"""Tests for the queue of entries that wait to be written to a ledger, with a scripted writer."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import BKLedgerFencedException
from labkit.system.topic.append_queue import AppendQueue, AwaitedEntry
from labkit.system.topic.chain.ledger_chain import Position

FAILED = BKLedgerFencedException("fenced")


class PlayedWriter:
    """Accepts entries and returns futures that the writer itself never completes."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.confirmations: list[asyncio.Future[int]] = []

    @property
    def last_add_pushed(self) -> int:
        return len(self.entries) - 1

    def add(self, data: bytes) -> asyncio.Future[int]:
        self.entries.append(data)
        self.confirmations.append(asyncio.get_running_loop().create_future())
        return self.confirmations[-1]


class Queue(AppendQueue):
    """A queue that records the entries it reports as stored."""

    def __init__(self) -> None:
        self.reported: list[tuple[Position, bytes]] = []
        super().__init__(lambda position, data: self.reported.append((position, data)))

    def add_awaited(self, data: Sequence[bytes]) -> list[asyncio.Future[Position]]:
        """Add entries and return the futures of their positions."""
        awaited = [AwaitedEntry(each) for each in data]
        self.add(awaited)
        return [each.stored for each in awaited]

    def push_into(self, writer: PlayedWriter, most: int = 10_000) -> asyncio.Future[int]:
        return self.push(cast(LedgerWriter, writer), lambda: len(writer.entries) >= most)


def entries(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def results(futures: Sequence[asyncio.Future[Position]]) -> list[Position]:
    return [future.result() for future in futures if future.done()]


async def test_entries_are_pushed_in_their_order_until_the_ledger_is_full() -> None:
    queue, writer = Queue(), PlayedWriter()
    assert not queue.is_waiting
    queue.add_awaited(entries(5))
    assert queue.is_waiting
    confirmed = queue.push_into(writer, most=3)
    assert writer.entries == entries(3)
    assert confirmed is writer.confirmations[-1]
    assert queue.is_waiting
    queue.push_into(PlayedWriter())
    assert not queue.is_waiting


async def test_at_most_32_entries_share_a_confirmation() -> None:
    queue, writer = Queue(), PlayedWriter()
    queue.add_awaited(entries(33))
    assert queue.push_into(writer) is writer.confirmations[31]
    assert len(writer.entries) == 32
    assert queue.push_into(writer) is writer.confirmations[32]


async def test_each_confirmed_entry_is_reported_once_with_its_position() -> None:
    queue, writer = Queue(), PlayedWriter()
    futures = queue.add_awaited(entries(5))
    queue.push_into(writer)
    queue.confirm(7, 1)
    assert results(futures) == [(7, 0), (7, 1)]
    assert queue.reported == [((7, 0), b"0"), ((7, 1), b"1")]
    queue.confirm(7, 1)
    queue.confirm(7, 4)
    assert results(futures) == [(7, number) for number in range(5)]
    assert [position for position, _ in queue.reported] == results(futures)


async def test_entries_that_a_ledger_has_not_stored_go_first_into_the_next_one() -> None:
    queue, first, second = Queue(), PlayedWriter(), PlayedWriter()
    futures = queue.add_awaited(entries(6))
    queue.push_into(first, most=4)
    queue.confirm(7, 1)
    queue.requeue()
    assert queue.is_waiting
    queue.push_into(second)
    assert second.entries == entries(6)[2:]
    queue.confirm(9, 3)
    assert results(futures) == [(7, 0), (7, 1), (9, 0), (9, 1), (9, 2), (9, 3)]


async def test_failure_reaches_every_entry_once_pushed_or_not() -> None:
    queue, writer = Queue(), PlayedWriter()
    futures = queue.add_awaited(entries(4))
    queue.push_into(writer, most=2)
    queue.fail(FAILED)
    assert [future.exception() for future in futures] == [FAILED] * 4
    assert not queue.is_waiting
    # The queue has dropped the entries, so later calls do not report them.
    queue.confirm(7, 3)
    queue.requeue()
    queue.fail(FAILED)
    assert (queue.reported, queue.is_waiting) == ([], False)


@pytest.mark.parametrize("fails", [False, True])
async def test_entry_whose_caller_waits_no_longer_harms_no_other(fails: bool) -> None:
    queue, writer = Queue(), PlayedWriter()
    futures = queue.add_awaited(entries(3))
    queue.push_into(writer)
    futures[0].cancel()
    if fails:
        queue.fail(FAILED)
        assert [future.exception() for future in futures[1:]] == [FAILED] * 2
    else:
        queue.confirm(7, 2)
        assert results(futures[1:]) == [(7, 1), (7, 2)]
        assert len(queue.reported) == 3
