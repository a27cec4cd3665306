"""Test when a cursor is stored, with a scripted store in virtual time."""

import asyncio
from itertools import pairwise
from typing import cast

import pytest

from labkit.system.model.errors import BKLedgerClosedException, BKWriteException, LabkitError
from labkit.system.topic.chain.guarded_node import ManagedLedgerFencedError
from labkit.system.topic.chain.ledger_chain import LedgerChain, LedgerInfo
from labkit.system.topic.cursors.acknowledged import CursorState
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.cursors.cursor_store import CursorStore
from tests.virtual_time import in_virtual_time

FAILED = BKWriteException("no bookie answers")
FENCED = ManagedLedgerFencedError("another owner")


class PlayedStore:
    """A store that records each call; each call lasts `lasts_s`, and fails while `error` is set."""

    def __init__(self) -> None:
        self.cursor_properties = (("filter", "a"),)
        self.writes: list[tuple[float, int]] = []
        self.calls: list[str] = []
        self.error: LabkitError | None = None
        self.reported: list[LabkitError] = []
        self.lasts_s = 0.0

    async def write(self, state: CursorState) -> None:
        self.writes.append((round(asyncio.get_running_loop().time(), 6), state.mark_delete[1]))
        await self._answer("write")

    async def close(self, _: CursorState) -> None:
        await self._answer("close")

    async def delete(self) -> None:
        await self._answer("delete")

    def report(self, error: LabkitError) -> None:
        self.reported.append(error)

    async def _answer(self, call: str) -> None:
        self.calls.append(call)
        if self.lasts_s:
            await asyncio.sleep(self.lasts_s)
        if self.error is not None:
            raise self.error


class Played:
    """A cursor on a ledger with a hundred entries."""

    def __init__(self, interval_ms: int = 1000, *, durable: bool = True) -> None:
        self.store = PlayedStore()
        self.fenced: list[LabkitError] = []
        chain = LedgerChain([LedgerInfo(3, 100, 1, 1)])
        store = cast(CursorStore, self.store) if durable else None
        self.cursor = ManagedCursor(
            "s", CursorState(chain.start), chain, store, interval_ms, self.fenced.append
        )

    def acknowledge(self, entry_id: int) -> None:
        self.cursor.acknowledge_up_to((3, entry_id))

    @property
    def writes(self) -> list[tuple[float, int]]:
        """The time of each write, and the last entry that it acknowledges."""
        return self.store.writes


async def until_s(time_s: float) -> None:
    await asyncio.sleep(time_s - asyncio.get_running_loop().time())


@in_virtual_time
async def test_first_acknowledgement_is_stored_at_once_and_the_next_after_the_interval() -> None:
    played = Played(interval_ms=5000)
    for at, entry_id in enumerate((1, 4, 7, 9)):
        await until_s(at)
        played.acknowledge(entry_id)
    await until_s(30)
    assert played.writes == [(0.0, 1), (5.0, 9)]
    played.acknowledge(20)
    await until_s(31)
    played.acknowledge(21)
    await until_s(60)
    assert played.writes[2:] == [(30.0, 20), (35.0, 21)]


@in_virtual_time
async def test_position_is_durable_when_it_is_stored_and_a_failure_is_reported() -> None:
    played = Played(interval_ms=0)
    played.acknowledge(3)
    assert played.cursor.durable_mark_delete == (3, -1)
    await played.cursor.flush()
    assert played.cursor.durable_mark_delete == (3, 3)
    played.store.error = FAILED
    played.acknowledge(7)
    with pytest.raises(BKWriteException):
        await played.cursor.flush()
    assert (played.cursor.mark_delete, played.cursor.durable_mark_delete) == ((3, 7), (3, 3))
    assert set(played.store.reported) == {FAILED}


@in_virtual_time
async def test_position_before_a_seek_that_may_be_stored_is_no_longer_durable() -> None:
    played = Played(interval_ms=0)
    played.acknowledge(7)
    await played.cursor.flush()
    played.store.error = FAILED
    with pytest.raises(BKWriteException):
        await played.cursor.reset((3, 3))
    played.acknowledge(9)
    assert played.cursor.durable_mark_delete == (3, 2)


@in_virtual_time
async def test_cursor_that_cannot_be_deleted_goes_on() -> None:
    played = Played(interval_ms=0)
    played.store.error = FAILED
    with pytest.raises(BKWriteException):
        await played.cursor.delete()
    played.store.error = None
    played.acknowledge(7)
    await played.cursor.flush()
    assert played.cursor.durable_mark_delete == (3, 7)
    await played.cursor.delete()
    played.acknowledge(8)
    with pytest.raises(BKLedgerClosedException, match="was deleted"):
        await played.cursor.flush()


@in_virtual_time
async def test_what_is_acknowledged_during_a_write_is_stored_by_the_next_one() -> None:
    played = Played(interval_ms=1000)
    played.store.lasts_s = 3.0
    played.acknowledge(1)
    await until_s(2)
    played.acknowledge(2)
    await until_s(20)
    assert played.writes == [(0.0, 1), (3.0, 2)]


@pytest.mark.parametrize(
    ("interval_ms", "pauses_s"),
    [(0, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]), (3000, [3, 6, 10, 10])],
)
@in_virtual_time
async def test_cursor_that_cannot_be_stored_is_tried_after_longer_and_longer_pauses(
    interval_ms: int, pauses_s: list[float]
) -> None:
    played = Played(interval_ms)
    played.store.error = FAILED
    played.acknowledge(1)
    await until_s(sum(pauses_s) + 1)
    times = [at for at, _ in played.writes]
    assert [b - a for a, b in pairwise(times)] == pytest.approx(pauses_s)
    played.store.error = None
    await until_s(100)
    stored, count = times[-1], len(times)
    [(at, mark_delete)] = played.writes[count:]
    assert at == pytest.approx(stored + 10)
    assert mark_delete == 1
    # A success resets the backoff, so the next failure is again followed by the initial delay.
    played.store.error = FAILED
    played.acknowledge(2)
    await until_s(100 + pauses_s[0] + 0.01)
    times = [at for at, _ in played.writes[count + 1 :]]
    assert times == pytest.approx([100, 100 + pauses_s[0]])


@in_virtual_time
async def test_flush_of_what_is_stored_already_writes_nothing() -> None:
    played = Played()
    await played.cursor.flush()
    assert played.writes == []
    played.acknowledge(1)
    await asyncio.gather(*(played.cursor.flush() for _ in range(3)))
    await until_s(10)
    assert played.writes == [(0.0, 1)]


@in_virtual_time
async def test_seek_is_stored_when_it_returns_and_says_why_it_is_not() -> None:
    played = Played()
    await played.cursor.reset((3, 5))
    assert played.writes == [(0.0, 4)]
    played.store.error = FAILED
    with pytest.raises(BKWriteException):
        await played.cursor.reset("latest")
    assert played.cursor.mark_delete == (3, 99)


@in_virtual_time
async def test_cursor_that_another_owner_has_says_so_each_time_it_finds_that() -> None:
    played = Played()
    played.store.error = FENCED
    played.acknowledge(1)
    with pytest.raises(ManagedLedgerFencedError):
        await played.cursor.flush()
    assert played.fenced == [FENCED]


# Stopping


@in_virtual_time
async def test_stopped_cursor_stores_nothing_more_and_says_why() -> None:
    played = Played(interval_ms=1000)
    played.acknowledge(1)
    await until_s(0.5)
    played.acknowledge(2)  # due half a second later
    played.cursor.stop(FENCED)
    played.acknowledge(3)
    await until_s(10)
    assert played.writes == [(0.0, 1)]
    with pytest.raises(ManagedLedgerFencedError):
        await played.cursor.flush()


@in_virtual_time
async def test_closed_cursor_is_left_to_the_next_owner_once_and_stores_nothing_more() -> None:
    played = Played()
    played.acknowledge(1)
    await played.cursor.close()
    await played.cursor.close()
    assert played.store.calls == ["close"]
    played.acknowledge(2)
    await until_s(10)
    assert played.store.calls == ["close"]
    with pytest.raises(BKLedgerClosedException, match="cursor s was closed"):
        await played.cursor.flush()


@in_virtual_time
async def test_cursor_waits_with_its_end_until_it_is_stored() -> None:
    played = Played()
    played.store.lasts_s = 2.0
    played.acknowledge(1)
    flushing = asyncio.ensure_future(played.cursor.flush())
    await asyncio.sleep(1)
    await played.cursor.close()
    assert flushing.done()
    assert played.store.calls == ["write", "close"]


@in_virtual_time
async def test_deleted_cursor_is_deleted_in_its_store_and_never_written_again() -> None:
    played = Played(interval_ms=1000)
    played.acknowledge(1)
    await until_s(0.5)
    played.acknowledge(2)
    await played.cursor.delete()
    played.acknowledge(3)
    await until_s(10)
    assert played.store.calls == ["write", "delete"]
    with pytest.raises(BKLedgerClosedException, match="cursor s was deleted"):
        await played.cursor.flush()


@in_virtual_time
async def test_cursor_without_a_store_counts_and_writes_nothing() -> None:
    played = Played(durable=False)
    assert not played.cursor.is_durable
    assert played.cursor.cursor_properties == {}
    played.acknowledge(4)
    await played.cursor.flush()
    await played.cursor.reset("latest")
    assert played.cursor.mark_delete == (3, 99)
    await played.cursor.close()
    await played.cursor.delete()
    assert played.store.calls == []


@in_virtual_time
async def test_cursor_counts_the_batches_of_which_a_part_is_acknowledged() -> None:
    cursor = Played().cursor
    assert cursor.batch_count == 0
    cursor.acknowledge_batch((3, 4), 3, 0b101)
    cursor.acknowledge_batch((3, 5), 3, 0b111)
    assert (cursor.batch_count, cursor.unacknowledged_in_batch((3, 4))) == (2, 0b101)
    cursor.acknowledge_batch((3, 4), 3, 0b010)
    assert (cursor.batch_count, cursor.unacknowledged_in_batch((3, 4))) == (1, None)
