"""Tests for the notifications that an owner gets, and for opening and closing a managed ledger."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import MAX_PAYLOAD_SIZE, LedgerWriter
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKLedgerClosedException,
    BKNotEnoughBookiesException,
    BKWriteException,
    LabkitError,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.topic.chain.chain_store import (
    ChainStore,
    ManagedLedgerTerminatedError,
    read_chain,
)
from labkit.system.topic.chain.guarded_node import ManagedLedgerFencedError
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.cursors.cursor_store import CursorStore
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.trace.events import Event
from labkit.worlds.sim.scenario.faults import Crash, Pause
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from tests.system.topic.simulated import (
    PATH,
    SMALL,
    TOPIC,
    Story,
    append_all,
    in_simulation,
    opened,
    read_all,
    simulate,
    stored,
    tell,
)
from tests.until import until

DOWN = MetadataUnavailableError("it does not answer")
KEEP_NOTHING = replace(SMALL, retention_time_ms=0, retention_size_bytes=0)


def rolled(trace: Trace) -> list[Event]:
    """Return the events that record a new ledger."""
    return [event for event in trace.events if event.kind == "ledger.rolled"]


# Notifications


@in_simulation
async def test_readers_are_told_of_a_new_end_once_in_each_turn(client: BookKeeper) -> None:
    ledger = await opened(client, ManagedLedgerConfig())
    ends: list[Position] = []
    ledger.when_confirmed(lambda: ends.append(ledger.last_confirmed))
    # The entries are pushed with several callbacks.
    positions = await stored(ledger, 0, 200)
    positions += await stored(ledger, 200, 201)
    await asyncio.sleep(0)
    assert ends == sorted(set(ends))
    assert ends[-1] == positions[-1]
    await ledger.close()


def test_each_ledger_is_recorded_with_the_reason_for_it() -> None:
    async def story(client: BookKeeper) -> None:
        config = ManagedLedgerConfig(
            max_entries_per_ledger=5,
            max_ledger_size_bytes=100,
            max_ledger_age_ms=1000,
            check_interval_ms=100,
        )
        ledger = await opened(client, config)
        await stored(ledger, 0, 5)
        await until(lambda: len(ledger.ledgers) == 2)
        await (await ledger.append(b"x" * 100))
        await until(lambda: len(ledger.ledgers) == 3)
        await stored(ledger, 5, 6)
        await until(lambda: len(ledger.ledgers) == 4)
        assert ledger.writer is not None
        failed = ledger.writer.ledger_id
        await client.open_ledger(failed)  # This stops the ledger's writer.
        await stored(ledger, 6, 7)
        await ledger.close()

    told = rolled(tell(story))
    assert {event.topic for event in told} == {TOPIC}
    assert [event.detail for event in told] == ["opened", "entries", "size", "age", "failure"]
    reasons = [event.explanation for event in told]
    assert reasons[:3] == ["opened", "5 entries", "100 bytes"]
    assert reasons[3].endswith(" ms old")
    assert 1000 <= int(reasons[3].split()[0]) < 1150
    assert reasons[4].endswith(" failed")


@in_simulation
async def test_end_is_reported_with_its_reason_and_a_close_is_not(client: BookKeeper) -> None:
    told: list[tuple[str, LabkitError]] = []

    async def opened_with_listeners() -> ManagedLedger:
        ledger = await opened(client)
        ledger.when_ended(lambda error: told.append(("a", error)))
        ledger.when_ended(lambda error: told.append(("b", error)))
        return ledger

    await (await opened_with_listeners()).close()
    assert told == []
    ledger = await opened_with_listeners()
    first = LabkitError("first")
    ledger.abandon(first)
    ledger.abandon(LabkitError("second"))
    assert told == [("a", first), ("b", first)]
    with pytest.raises(LabkitError, match="first"):
        await ledger.append(b"x")


# Appending


@in_simulation
async def test_entry_of_the_largest_size_is_taken(client: BookKeeper) -> None:
    ledger = await opened(client)
    with pytest.raises(BKIncorrectParameterException, match="too large for a frame"):
        await ledger.append(bytes(MAX_PAYLOAD_SIZE + 1))
    await (await ledger.append(bytes(MAX_PAYLOAD_SIZE)))
    await ledger.close()


class RecoveredByAnother(ChainStore):
    """A chain store in which another client closes the last ledger just before its owner does."""

    async def close_last_ledger(self, writer: LedgerWriter) -> LedgerMetadata:
        await self.client.open_ledger(writer.ledger_id)
        return await super().close_last_ledger(writer)


class Surprised(ManagedLedger):
    """A managed ledger whose ledgers are closed by another client."""

    store_class = RecoveredByAnother


@in_simulation
async def test_entries_in_a_ledger_that_another_client_closes_are_kept(client: BookKeeper) -> None:
    ledger = Surprised(TOPIC, PATH, client, ManagedLedgerConfig())
    await ledger.open()
    first = await stored(ledger, 0, 3)
    futures = await append_all(ledger, [b"3", b"4"])
    writer = ledger.writer
    assert writer is not None
    await asyncio.sleep(0)
    # The entries are on their way to the bookies, but the writer will receive no response.
    writer.end(LabkitError("the writer has failed"))
    positions = [await future for future in futures]
    assert {ledger_id for ledger_id, _ in positions} == {first[0][0]}
    last = await stored(ledger, 5, 6)
    assert last[0][0] != first[0][0]
    assert await read_all(ledger) == [0, 1, 2, 3, 4, 5]


@in_simulation
async def test_entries_without_a_next_ledger_fail_as_do_later_ones(client: BookKeeper) -> None:
    ledger = await opened(client)
    ended: list[LabkitError] = []
    ledger.when_ended(ended.append)
    no_bookies = BKNotEnoughBookiesException("two of three")
    with patch.object(client, "create_ledger", side_effect=no_bookies):
        futures = await append_all(ledger, [b"%d" % number for number in range(8)])
        for future in futures[:5]:
            await future
        for future in futures[5:]:
            with pytest.raises(BKNotEnoughBookiesException):
                await future
    # Enough bookies are available again, but it is too late.
    with pytest.raises(BKNotEnoughBookiesException):
        await ledger.append(b"8")
    assert ended == [no_bookies]
    again = await opened(client)
    assert await read_all(again) == [0, 1, 2, 3, 4]


@in_simulation
async def test_owner_that_has_ended_closes_and_begins_no_ledger(client: BookKeeper) -> None:
    ledger = await opened(client)
    await append_all(ledger, [b"%d" % number for number in range(5)])
    # This happens in the turn in which the next ledger is requested.
    ledger.abandon(LabkitError("overtaken"))
    await asyncio.sleep(5)
    [ledger_id] = await client.list_ledgers()
    assert (await client.ledger_metadata(ledger_id)).state is LedgerState.OPEN
    assert [link.ledger_id for link in (await read_chain(client, PATH))[0]] == [ledger_id]


@pytest.mark.parametrize("after_ms", range(16))
@in_simulation
async def test_rollover_whose_caller_is_cancelled_is_finished_and_loses_no_entry(
    client: BookKeeper, after_ms: int
) -> None:
    ledger = await opened(client)
    appending = asyncio.create_task(append_all(ledger, [b"%d" % number for number in range(7)]))
    await asyncio.sleep(after_ms / 1000)
    appending.cancel()
    with suppress(asyncio.CancelledError):
        await appending
    await until(lambda: not ledger.queue.is_waiting)
    await stored(ledger, 7, 9)
    assert await read_all(ledger) == list(range(9))
    await ledger.close()
    chain, _ = await read_chain(client, PATH)
    assert await client.list_ledgers() == [link.ledger_id for link in chain]


@pytest.mark.parametrize("after_ms", [quarter / 4 for quarter in range(8, 24)])
@in_simulation
async def test_opening_that_is_cancelled_leaves_no_ledger_without_a_chain(
    client: BookKeeper, after_ms: float
) -> None:
    opening = asyncio.create_task(opened(client))
    await asyncio.sleep(after_ms / 1000)
    opening.cancel()
    with suppress(asyncio.CancelledError):
        await opening
    await (await opened(client)).close()
    chain, _ = await read_chain(client, PATH)
    assert await client.list_ledgers() == [link.ledger_id for link in chain]


class NeverResponding:
    """Replaces a client's method; records that it was called, and never returns."""

    def __init__(self) -> None:
        self.called = asyncio.Event()

    async def __call__(self, *_: object, **__: object) -> Any:
        self.called.set()
        await asyncio.Event().wait()


@in_simulation
async def test_entries_of_a_cancelled_append_precede_a_termination(client: BookKeeper) -> None:
    ledger = await opened(client)
    create_ledger, begun = client.create_ledger, asyncio.Event()

    async def slow(*arguments: Any, **options: Any) -> LedgerWriter:
        begun.set()
        await asyncio.sleep(0.1)
        return await create_ledger(*arguments, **options)

    with patch.object(client, "create_ledger", slow):
        appending = asyncio.create_task(append_all(ledger, [b"%d" % n for n in range(7)]))
        await begun.wait()
    terminating = asyncio.create_task(ledger.terminate())
    await asyncio.sleep(0)
    appending.cancel()
    last = await terminating
    await asyncio.sleep(1)
    assert last == ledger.last_confirmed
    assert await read_all(ledger) == list(range(7))
    assert ledger.writer is None


@in_simulation
async def test_closed_owner_leaves_no_ledger_from_a_cancelled_rollover(client: BookKeeper) -> None:
    ledger = await opened(client)
    set_node, stored_once = client.store.set, asyncio.Event()

    async def slow(path: str, data: bytes, version: int) -> int:
        version = await set_node(path, data, version)
        stored_once.set()
        await asyncio.sleep(0.1)
        return version

    with patch.object(client.store, "set", slow):
        appending = asyncio.create_task(append_all(ledger, [b"%d" % n for n in range(7)]))
        await stored_once.wait()
    closing = asyncio.create_task(ledger.close())
    await asyncio.sleep(0)
    appending.cancel()
    await closing
    chain, _ = await read_chain(client, PATH)
    assert await client.list_ledgers() == [link.ledger_id for link in chain]


@in_simulation
async def test_pause_before_the_next_ledger_makes_no_other_call_wait(client: BookKeeper) -> None:
    ledger = await opened(client)

    def open_writer() -> LedgerWriter | None:
        return None if ledger.writer is None or ledger.writer.is_ended else ledger.writer

    async def fail_ledger() -> None:
        await until(open_writer)
        writer = open_writer()
        assert writer is not None
        writer.end(LabkitError("no bookie responds"))

    for _ in range(6):
        await fail_ledger()
        await stored(ledger, 0, 0)
    await fail_ledger()
    first = asyncio.create_task(append_all(ledger, [b"0"]))
    await until(lambda: ledger.writer is None)
    second = asyncio.create_task(append_all(ledger, [b"1"]))
    await ledger.set_property("name", "value")
    await ledger.trim()
    assert ledger.writer is None
    assert not first.done()
    for future in [*await first, *await second]:
        await future
    assert await read_all(ledger) == [0, 1]
    await ledger.close()


@in_simulation
async def test_termination_whose_caller_is_cancelled_ends_the_owner(client: BookKeeper) -> None:
    ledger = await opened(client)
    await stored(ledger, 0, 3)
    never = NeverResponding()
    with patch.object(client.store, "set", never):
        terminating = asyncio.create_task(ledger.terminate())
        await never.called.wait()
        terminating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await terminating
    with pytest.raises(BKLedgerClosedException, match="may have been terminated"):
        await ledger.append(b"x")


@pytest.mark.parametrize("nth", range(5))
@in_simulation
async def test_one_lost_metadata_response_ends_no_rollover(client: BookKeeper, nth: int) -> None:
    ledger = await opened(client)
    await stored(ledger, 0, 4)
    lost: list[str] = []
    count = 0

    def losing(name: str, change: Callable[..., Awaitable[object]]) -> Callable[..., object]:
        async def changed(*arguments: Any, **options: Any) -> object:
            nonlocal count
            result = await change(*arguments, **options)
            count += 1
            if count == nth + 1:
                lost.append(name)
                raise DOWN
            return result

        return changed

    with pytest.MonkeyPatch.context() as patched:
        for name in ("create", "set", "delete"):
            patched.setattr(client.store, name, losing(name, getattr(client.store, name)))
        await stored(ledger, 4, 7)
    assert len(lost) == 1
    assert [link.entry_count for link in ledger.ledgers] == [5, 2]
    assert await read_all(ledger) == list(range(7))
    await ledger.close()


# Opening and closing


@in_simulation
async def test_managed_ledger_takes_nothing_before_it_is_open(client: BookKeeper) -> None:
    ledger = ManagedLedger(TOPIC, PATH, client, SMALL)
    with pytest.raises(BKLedgerClosedException, match="is not open yet"):
        await ledger.append(b"x")
    with pytest.raises(BKLedgerClosedException, match="is not open yet"):
        await ledger.open_cursor("s", "earliest")
    assert await ledger.trim() == []
    # There is nothing to close, and nothing was created.
    await ledger.close()
    assert await client.list_ledgers() == []
    assert await read_chain(client, PATH) == ([], -1)


@in_simulation
async def test_closed_owner_is_closed_again_without_a_change(client: BookKeeper) -> None:
    ledger = await opened(client)
    await stored(ledger, 0, 3)
    await ledger.close()
    assert ledger.writer is None
    before = await read_chain(client, PATH)
    await ledger.close()
    assert await read_chain(client, PATH) == before
    assert [link.entry_count for link in before[0]] == [3]
    assert all(link.closed_at_ms for link in before[0])


@pytest.mark.parametrize("error", [BKWriteException("no bookie answers"), DOWN])
@in_simulation
async def test_owner_that_cannot_close_its_ledger_says_so_and_is_closed_all_the_same(
    client: BookKeeper, error: LabkitError
) -> None:
    ledger = await opened(client)
    await stored(ledger, 0, 3)
    with patch.object(LedgerWriter, "close", side_effect=error), pytest.raises(type(error)):
        await ledger.close()
    for call in (ledger.append(b"x"), ledger.set_property("a", "1")):
        with pytest.raises(BKLedgerClosedException, match="open the topic again"):
            await call
    again = await opened(client)
    assert await read_all(again) == [0, 1, 2]


@in_simulation
async def test_owner_whose_close_is_cancelled_is_closed_all_the_same(client: BookKeeper) -> None:
    ledger = await opened(client)
    cursor = await ledger.open_cursor("s", "earliest")
    positions = await stored(ledger, 0, 3)
    cursor.acknowledge(positions[:1])
    never = NeverResponding()
    with patch.object(CursorStore, "close", never):
        closing = asyncio.create_task(ledger.close())
        await never.called.wait()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
    with pytest.raises(BKLedgerClosedException, match="open the topic again"):
        await ledger.append(b"x")
    again = await opened(client)
    assert await read_all(again) == [0, 1, 2]


# Cursors that are opened meanwhile


class HeldCreation:
    """Holds the creation of a cursor's node until the test releases it."""

    def __init__(self, client: BookKeeper) -> None:
        self.begun = asyncio.Event()
        self.released = asyncio.Event()
        self._create = client.store.create_child

    async def __call__(self, path: str, data: bytes, parent_version: int) -> None:
        self.begun.set()
        await self.released.wait()
        await self._create(path, data, parent_version)


@in_simulation
async def test_no_ledger_that_a_new_cursor_needs_is_trimmed_meanwhile(client: BookKeeper) -> None:
    ledger = await opened(client, KEEP_NOTHING)
    other = await ledger.open_cursor("other", "earliest")
    positions = await stored(ledger, 0, 6)
    other.acknowledge_up_to(positions[4])
    await other.flush()
    held = HeldCreation(client)
    with patch.object(client.store, "create_child", held):
        opening = asyncio.create_task(ledger.open_cursor("s", "earliest"))
        await held.begun.wait()
        trimming = asyncio.create_task(ledger.trim())
        await asyncio.sleep(0.1)
        held.released.set()
        cursor = await opening
    assert await trimming == []
    assert cursor.unacknowledged_count == 6
    await ledger.close()


@in_simulation
async def test_cursor_created_during_a_trim_starts_in_a_kept_ledger(client: BookKeeper) -> None:
    ledger = await opened(client, KEEP_NOTHING)
    other = await ledger.open_cursor("other", "earliest")
    positions = await stored(ledger, 0, 6)
    other.acknowledge_up_to(positions[4])
    await other.flush()
    trimming = asyncio.create_task(ledger.trim())
    await asyncio.sleep(0)
    cursor = await ledger.open_cursor("s", "earliest")
    assert await trimming == [positions[0][0]]
    assert ledger.chain.has_ledger(cursor.mark_delete[0])
    await ledger.close()


@pytest.mark.parametrize("closes", [False, True])
@in_simulation
async def test_cursor_that_is_being_created_when_its_owner_ends_is_not_opened(
    client: BookKeeper, closes: bool
) -> None:
    ledger = await opened(client)
    held = HeldCreation(client)
    with patch.object(client.store, "create_child", held):
        opening = asyncio.create_task(ledger.open_cursor("s", "earliest"))
        await held.begun.wait()
        if closes:
            closing = asyncio.create_task(ledger.close())
            await asyncio.sleep(0)
            held.released.set()
            await closing
        else:
            ledger.abandon(LabkitError("overtaken"))
            held.released.set()
        with pytest.raises(LabkitError, match=r"was closed|overtaken"):
            await opening
    assert dict(ledger.cursors) == {}
    await ledger.close()


# Maintenance


@in_simulation
async def test_trim_that_fails_is_made_up_for_at_the_next_interval(client: BookKeeper) -> None:
    ledger = await opened(client, replace(KEEP_NOTHING, check_interval_ms=1000))
    cursor = await ledger.open_cursor("s", "earliest", durable=True)
    positions = await stored(ledger, 0, 6)
    assert [link.entry_count for link in ledger.ledgers] == [5, 1]
    set_node = client.store.set

    async def fails(path: str, data: bytes, version: int) -> int:
        if path == PATH:
            raise DOWN
        return await set_node(path, data, version)

    with patch.object(client.store, "set", fails):
        cursor.acknowledge_up_to(positions[4])
        await cursor.flush()
        with pytest.raises(MetadataUnavailableError):
            await ledger.trim()
        await asyncio.sleep(3)
        assert len(ledger.ledgers) == 2
    await asyncio.sleep(1.1)
    assert [link.entry_count for link in ledger.ledgers] == [1]
    assert positions[0][0] not in await client.list_ledgers()
    await ledger.close()


def test_ledgers_behind_a_snapshot_that_cannot_be_stored_are_not_trimmed() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client, KEEP_NOTHING)
        cursor = await ledger.open_cursor("s", "earliest")
        positions = await stored(ledger, 0, 6)
        await cursor.flush()
        cursor.acknowledge_up_to(positions[4], {"x" * MAX_PAYLOAD_SIZE: 4})
        with pytest.raises(BKIncorrectParameterException):
            await cursor.flush()
        assert await ledger.trim() == []
        assert len(await client.list_ledgers()) == 2
        await ledger.close()
        last = await opened(client, KEEP_NOTHING)
        assert await read_all(last) == list(range(6))
        last.cursors["s"].acknowledge_up_to(positions[4], {"x": 4})
        await last.cursors["s"].flush()
        assert await last.trim() == [positions[0][0]]
        await last.close()

    trace = tell(story)
    reports = [event.subscription for event in trace.events if event.kind == "cursor.unstored"]
    assert reports
    assert "cursor s of public/default" in reports[0]


@pytest.mark.parametrize("closes", [False, True])
@in_simulation
async def test_upkeep_ends_with_its_owner(client: BookKeeper, closes: bool) -> None:
    ledger = await opened(client, replace(SMALL, check_interval_ms=100))
    times = 0
    trim = ledger.trim

    async def counted() -> list[int]:
        nonlocal times
        times += 1
        return await trim()

    with patch.object(ledger, "trim", counted):
        await asyncio.sleep(1.05)
        assert times == 10
        if closes:
            await ledger.close()
        else:
            ledger.abandon(LabkitError("overtaken"))
        await asyncio.sleep(5)
        assert times == 10


@in_simulation
async def test_waiting_entries_are_not_pushed_after_a_takeover(client: BookKeeper) -> None:
    ledger = await opened(client, SMALL)
    writer = ledger.writer
    assert writer is not None

    async def taken_over() -> None:
        ledger.abandon(ManagedLedgerFencedError("another owner has changed a cursor"))

    writer.drain = taken_over  # type: ignore[method-assign]
    with pytest.raises(ManagedLedgerFencedError):
        await ledger.append(b"late")
    assert writer.last_add_pushed == -1


# Terminated chains


def test_terminated_chain_takes_no_entry_from_any_owner_and_is_read_to_its_end() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        cursor = await ledger.open_cursor("s", "earliest")
        pushed = await append_all(ledger, [b"%d" % number for number in range(7)])
        last = await ledger.terminate()
        positions = [await position for position in pushed]
        assert last == positions[-1] == ledger.terminated
        for owner in (ledger, await opened(client)):
            with pytest.raises(ManagedLedgerTerminatedError, match="no entries can be appended"):
                await owner.append(b"x")
            assert (await owner.terminate(), owner.last_confirmed) == (last, last)
            assert owner.writer is None
        assert await read_all(owner) == list(range(7))
        cursor = owner.cursors["s"]
        assert cursor.unacknowledged_count == 7
        cursor.acknowledge_up_to(positions[2])
        await owner.close()
        assert (await opened(client)).cursors["s"].unacknowledged_count == 4

    assert [event.detail for event in rolled(tell(story))] == ["opened", "entries"]


@in_simulation
async def test_empty_chain_is_terminated_too(client: BookKeeper) -> None:
    last = await (await opened(client)).terminate()
    ledger = await opened(client)
    assert (ledger.terminated, last[1], ledger.ledgers) == (last, -1, ())
    cursor = await ledger.open_cursor("s", "latest")
    assert cursor.unacknowledged_count == 0
    await ledger.close()


@in_simulation
async def test_owner_that_cannot_store_its_termination_is_replaced(client: BookKeeper) -> None:
    ledger = await opened(client)
    await stored(ledger, 0, 2)
    with (
        patch.object(client.store, "set", side_effect=DOWN),
        pytest.raises(MetadataUnavailableError),
    ):
        await ledger.terminate()
    with pytest.raises(MetadataUnavailableError):
        await ledger.append(b"x")
    following = await opened(client)
    await stored(following, 2, 3)
    assert await read_all(following) == [0, 1, 2]
    await following.close()


@in_simulation
async def test_bytes_and_entries_of_the_open_ledger_are_counted(client: BookKeeper) -> None:
    ledger = await opened(client)
    await stored(ledger, 0, 7)
    assert [(link.entry_count, link.size_bytes) for link in ledger.ledgers] == [(5, 5), (2, 2)]
    assert ledger.queue.stored_count == 7
    await ledger.close()
    ledger = await opened(client)
    assert [(link.entry_count, link.size_bytes) for link in ledger.ledgers][:2] == [(5, 5), (2, 2)]
    assert ledger.queue.stored_count == 0
    await ledger.close()


# The chain


async def settled(ledger: ManagedLedger, count: int) -> None:
    """Wait until the upkeep has reduced the chain to `count` ledgers."""
    await until(lambda: len(ledger.ledgers) == count)


@in_simulation
async def test_entries_are_stored_and_read_in_order_over_all_ledgers(client: BookKeeper) -> None:
    ledger = await opened(client)
    positions = await stored(ledger, 0, 12)
    first, second, third = sorted({ledger_id for ledger_id, _ in positions})
    assert positions == [(first, n) for n in range(5)] + [(second, n) for n in range(5)] + [
        (third, 0),
        (third, 1),
    ]
    assert ledger.last_confirmed == (third, 1)
    assert [link.entry_count for link in ledger.ledgers] == [5, 5, 2]
    assert await read_all(ledger) == list(range(12))
    assert await read_all(ledger, (second, 3)) == [8, 9, 10, 11]
    assert await read_all(ledger, ledger.chain.next_position((first, 4))) == [5, *range(6, 12)]
    await ledger.close()
    again = await opened(client)
    # The new owner has nothing in memory, so it reads from the bookies.
    assert await read_all(again) == list(range(12))
    await again.close()


def test_tailing_read_asks_no_bookie() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        await stored(ledger, 0, 13)
        assert await read_all(ledger) == list(range(13))
        await asyncio.sleep(0)

    trace = tell(story)
    reads = [e for e in trace.events if e.kind == "read.sent" and e.node == "p"]
    assert reads == []


# Retention


@in_simulation
async def test_closed_ledger_is_trimmed_by_itself_when_nothing_keeps_it(client: BookKeeper) -> None:
    ledger = await opened(client, KEEP_NOTHING)
    positions = await stored(ledger, 0, 11)
    await settled(ledger, 1)
    assert ledger.last_confirmed == positions[-1]
    assert await read_all(ledger, positions[0]) == [10]
    await ledger.close()


@in_simulation
async def test_deleted_cursor_keeps_nothing(client: BookKeeper) -> None:
    ledger = await opened(client, KEEP_NOTHING)
    await ledger.open_cursor("slow", "earliest")
    await ledger.open_cursor("reader", "earliest", durable=False)
    await stored(ledger, 0, 6)
    await asyncio.sleep(0.1)
    assert len(ledger.ledgers) == 2
    await ledger.delete_cursor("slow")
    assert list(ledger.cursors) == ["reader"]
    await settled(ledger, 1)
    assert await client.store.children(PATH) == []
    await ledger.close()


# Owners


async def append_two(former: ManagedLedger) -> None:
    await asyncio.gather(*await append_all(former, [b"late", b"later"]))


CHANGES: dict[str, tuple[Callable[[ManagedLedger], Awaitable[object]], str]] = {
    "append entries": (append_two, "the chain of persistent"),
    "set a property": (lambda former: former.set_property("a", "1"), "the chain of persistent"),
    "create a cursor": (lambda former: former.open_cursor("late", "latest"), "the chain of persis"),
    "open a new cursor": (
        lambda former: former.open_cursor("new", "latest"),
        "the chain of persis",
    ),
    "delete a cursor": (lambda former: former.delete_cursor("old"), "cursor old of public/default"),
    "store a cursor": (
        lambda former: former.cursors["old"].reset("latest"),
        "cursor old of public",
    ),
}
"""What a former owner may try, and which part of the topic the new owner has changed."""


@pytest.mark.parametrize(("change", "part"), CHANGES.values(), ids=CHANGES)
@in_simulation
async def test_a_former_owner_changes_nothing_and_ends_once_and_for_good(
    client: BookKeeper, change: Callable[[ManagedLedger], Awaitable[object]], part: str
) -> None:
    former = await opened(client)
    ended: list[LabkitError] = []
    former.when_ended(ended.append)
    await former.open_cursor("old", "earliest")
    await stored(former, 0, 3)
    new = await opened(client)
    await new.open_cursor("new", "earliest")
    with pytest.raises(ManagedLedgerFencedError, match=f"{part}.*open the topic again"):
        await change(former)
    for call in (former.append(b"late"), former.open_cursor("late", "latest"), append_two(former)):
        with pytest.raises(ManagedLedgerFencedError):
            await call
    await former.close()
    assert len(ended) == 1
    await stored(new, 3, 5)
    assert await read_all(new) == [0, 1, 2, 3, 4]
    assert new.properties == {}
    assert [cursor.unacknowledged_count for cursor in new.cursors.values()] == [5, 5]
    new.cursors["old"].acknowledge_up_to(new.last_confirmed)
    await new.close()
    assert await client.store.children(PATH) == ["new", "old"]


@pytest.mark.parametrize("nth", range(1, 30, 4))
def test_owner_that_dies_anywhere_leaves_a_chain_with_all_that_was_acknowledged(nth: int) -> None:
    acknowledged: list[int] = []

    async def old(client: BookKeeper) -> None:
        ledger = await opened(client)
        for first in range(0, 40, 4):
            for number, future in enumerate(
                await append_all(ledger, [b"%d" % n for n in range(first, first + 4)]), first
            ):
                await future
                acknowledged.append(number)

    async def new(client: BookKeeper) -> None:
        ledger = await opened(client)
        numbers = await read_all(ledger)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= len(acknowledged)
        await stored(ledger, 100, 103)
        assert (await read_all(ledger))[-3:] == [100, 101, 102]
        await ledger.close()

    crash = Crash("p", "kept", down_ms=60_000, when=On("lac.advanced", nth=nth))
    simulate(Story(old), Story(new, "q", At(500)), faults=(crash,))


@pytest.mark.parametrize("pause_at_ms", [10, 13, 16, 20, 24])
def test_paused_owner_that_comes_back_is_fenced(pause_at_ms: int) -> None:
    acknowledged: list[int] = []
    ends: list[LabkitError] = []

    async def old(client: BookKeeper) -> None:
        ledger = await opened(client)
        ledger.when_ended(ends.append)
        try:
            for number in range(60):
                await (await ledger.append(b"%d" % number))
                acknowledged.append(number)
        except LabkitError:
            pass
        await ledger.close()

    async def new(client: BookKeeper) -> None:
        ledger = await opened(client)
        found = len(acknowledged)
        numbers = await read_all(ledger)
        assert numbers[:found] == list(range(found))
        await asyncio.sleep(3)
        # The old owner was paused before a message reached it, so the entries that it acknowledges
        # now have already been read.
        assert len(acknowledged) <= len(numbers)
        await ledger.close()

    pause = Pause("p", 2000, At(pause_at_ms))
    simulate(Story(old), Story(new, "q", At(pause_at_ms + 5)), faults=(pause,))
    assert len(ends) == 1
