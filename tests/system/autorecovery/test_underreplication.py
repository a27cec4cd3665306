"""Tests for underreplication marks and locks on the simulated metadata store."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

import pytest

from labkit.system.autorecovery.formats import UnderreplicatedLedger
from labkit.system.autorecovery.underreplication import (
    NEVER_MS,
    LedgerUnderreplicationManager,
    UnavailableException,
)
from labkit.system.metadata.store import ANY_VERSION, NoNodeError
from labkit.system.model.errors import BKMetadataSerializationException
from tests.system.autorecovery.world import PATHS, World, simulated


async def two_managers(
    world: World,
) -> tuple[LedgerUnderreplicationManager, LedgerUnderreplicationManager]:
    managers = [world.new_manager(await world.metadata.session(node)) for node in ("m1", "m2")]
    await managers[0].prepare()
    return managers[0], managers[1]


async def is_waiting(waiting: Awaitable[object]) -> bool:
    """Return whether `waiting` is still not done after five seconds; do not cancel it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(5):
            await asyncio.shield(waiting)
            return False
    return True


@simulated
async def test_prepare_creates_the_nodes_once(world: World) -> None:
    one, other = await two_managers(world)
    await one.mark(7, ["b1"])
    await other.prepare()
    assert await world.store.children(PATHS.root) == ["LAYOUT", "ledgers", "locks"]
    assert await other.ledgers() == [7]


@simulated
async def test_marking_again_adds_bookies_and_reports_whether_the_mark_changed(
    world: World,
) -> None:
    one, other = await two_managers(world)
    assert await one.mark(7, ["b1"])
    assert not await other.mark(7, ["b1"])
    assert (await world.store.get(PATHS.mark(7)))[1] == 0
    await asyncio.sleep(10)
    now_ms = world.wall_clock_ms()
    assert await other.mark(7, ["b1", "b2"])
    assert await one.find(7) == UnderreplicatedLedger(("b1", "b2"), now_ms)
    assert await one.find(8) is None


@simulated
async def test_an_error_about_a_malformed_mark_names_the_ledger(world: World) -> None:
    one, other = await two_managers(world)
    await one.mark(7, ["b1"])
    await world.store.set(PATHS.mark(7), b"replica: 7", ANY_VERSION)
    with pytest.raises(BKMetadataSerializationException, match="the mark of ledger 7: "):
        await other.find(7)


@simulated
async def test_a_ledger_with_a_malformed_mark_can_be_marked_again_during_its_repair(
    world: World,
) -> None:
    one, other = await two_managers(world)
    await one.mark(7, ["b1"])
    await world.store.set(PATHS.mark(7), b"replica: 7", ANY_VERSION)
    assert await one.lock_any() == 7
    assert await other.mark(7, ["b2"])
    assert not await one.unmark_and_release(7)
    mark = await other.find(7)
    assert mark is not None
    assert mark.bookies == ("b2",)


@simulated
async def test_a_mark_of_many_bookies_fits_into_its_node(
    world: World,
) -> None:
    one, other = await two_managers(world)
    names = [f"{'b' * 200}{number}" for number in range(6000)]
    assert await one.mark(7, names[:5000])
    before = await world.store.get(PATHS.mark(7))
    assert len(before[0]) < 300_000
    assert await other.mark(7, names)
    assert (await world.store.get(PATHS.mark(7)))[1] > before[1]


@simulated
async def test_concurrent_marks_of_a_ledger_are_merged(world: World) -> None:
    one, other = await two_managers(world)
    names = [f"b{number}" for number in range(8)]
    await asyncio.gather(
        *((one, other)[number % 2].mark(7, [name]) for number, name in enumerate(names))
    )
    mark = await one.find(7)
    assert mark is not None
    assert sorted(mark.bookies) == names


@simulated
async def test_a_ledger_is_locked_by_one_worker_at_a_time(world: World) -> None:
    one, other = await two_managers(world)
    await one.mark(7, ["b1"])
    assert await one.lock_any() == 7
    waiting = asyncio.ensure_future(other.lock_any())
    assert await is_waiting(waiting)
    assert (await world.store.get(PATHS.lock(7)))[0] == b'bookieId: "host"\n'
    await one.release(7)
    assert await waiting == 7


@simulated
async def test_of_two_concurrent_workers_one_gets_the_lock(
    world: World,
) -> None:
    one, other = await two_managers(world)
    waiting = [asyncio.ensure_future(manager.lock_any()) for manager in (one, other)]
    assert await is_waiting(waiting[0])
    await world.manager.mark(7, ["b1"])
    done, pending = await asyncio.wait(waiting, timeout=20)
    assert len(done) == len(pending) == 1
    await world.manager.mark(8, ["b1"])
    assert await pending.pop() == 8


@simulated
async def test_a_repaired_ledger_leaves_no_nodes_behind(world: World) -> None:
    one, _ = await two_managers(world)
    await one.mark(7, ["b1"])
    await one.lock_any()
    assert await one.unmark_and_release(7)
    assert await one.ledgers() == []
    assert await world.store.children(f"{PATHS.root}/ledgers") == []
    assert await world.store.children(f"{PATHS.root}/locks") == []


@simulated
async def test_parent_nodes_of_other_marks_are_kept(world: World) -> None:
    one, _ = await two_managers(world)
    await one.mark(0x1_0007, ["b1"])
    await one.mark(0x1_0008, ["b1"])
    first = await one.lock_any()
    assert await one.unmark_and_release(first)
    assert await one.ledgers() == [0x1_0007 + 0x1_0008 - first]


@pytest.mark.promise("A mark is removed only if the ledger was not marked again")
@simulated
async def test_a_ledger_that_was_marked_again_stays_marked(world: World) -> None:
    one, other = await two_managers(world)
    await one.mark(7, ["b1"])
    await one.lock_any()
    await other.mark(7, ["b2"])
    assert not await one.unmark_and_release(7)
    assert await one.ledgers() == [7]
    assert await other.lock_any() == 7


@simulated
async def test_waiting_for_a_lock_sends_no_requests_while_nothing_changes(world: World) -> None:
    one, _ = await two_managers(world)
    waiting = asyncio.ensure_future(one.lock_any())
    await asyncio.sleep(5)
    await one.mark(7, ["b1"])
    assert await waiting == 7
    waiting = asyncio.ensure_future(one.lock_any())
    asked = world.metadata.asked()
    await asyncio.sleep(5)
    asked.clear()
    await asyncio.sleep(300)
    assert set(asked) == {"ping"}
    await world.manager.mark(8, ["b1"])
    assert await waiting == 8


@simulated
async def test_a_ledger_whose_mark_was_deleted_during_the_repair_is_released(world: World) -> None:
    one, other = await two_managers(world)
    await one.mark(7, ["b1"])
    assert await one.lock_any() == 7
    await world.store.delete(PATHS.mark(7))
    assert await one.unmark_and_release(7)
    assert await world.store.children(PATHS.locks) == []
    await one.mark(7, ["b2"])
    assert await other.lock_any() == 7


@simulated
async def test_no_worker_gets_a_ledger_while_autorecovery_is_disabled(world: World) -> None:
    one, other = await two_managers(world)
    await other.disable()
    with pytest.raises(UnavailableException, match="already disabled"):
        await other.disable()
    await one.mark(7, ["b1"])
    waiting = asyncio.ensure_future(one.lock_any())
    assert await is_waiting(waiting)
    assert not await one.is_enabled()
    await other.enable()
    assert await waiting == 7
    with pytest.raises(UnavailableException, match="already enabled"):
        await other.enable()


@simulated
async def test_the_delay_is_kept_in_the_metadata_store(world: World) -> None:
    one, other = await two_managers(world)
    with pytest.raises(UnavailableException, match="no auditor"):
        await one.lost_bookie_recovery_delay_s()
    await one.init_lost_bookie_recovery_delay(60)
    await other.init_lost_bookie_recovery_delay(5)
    assert await other.lost_bookie_recovery_delay_s() == 60
    await other.set_lost_bookie_recovery_delay(5)
    assert await one.lost_bookie_recovery_delay_s() == 5
    assert await world.store.get(f"{PATHS.root}/lostBookieRecoveryDelay") == (b"5", 1)


@simulated
async def test_a_mark_that_was_deleted_before_the_lock_is_skipped(world: World) -> None:
    one, _ = await two_managers(world)
    await one.mark(7, ["b1"])
    create = one.store.create

    async def create_late(path: str, data: bytes, **options: bool) -> str:
        if path == PATHS.lock(7):
            with suppress(NoNodeError):
                await world.store.delete(PATHS.mark(7))
        return await create(path, data, **options)

    one.store.create = create_late  # type: ignore[method-assign]
    waiting = asyncio.ensure_future(one.lock_any())
    assert await is_waiting(waiting)
    assert await world.store.children(f"{PATHS.root}/locks") == []
    waiting.cancel()


@simulated
async def test_a_ledger_that_was_locked_by_its_id_cannot_be_unmarked(world: World) -> None:
    """Its mark was not read under the lock, so another client may have written it since."""
    one, other = await two_managers(world)
    assert await one.lock(7)
    assert not await other.lock(7)
    await other.mark(7, ["b1"])
    with pytest.raises(AssertionError, match="was not read under the lock"):
        await one.unmark_and_release(7)
    assert await other.ledgers() == [7]
    await one.release(7)
    assert await other.lock(7)


@simulated
async def test_releasing_another_workers_lock_does_nothing(world: World) -> None:
    one, other = await two_managers(world)
    assert await one.lock(7)
    await other.release(7)
    assert not await other.lock(7)
    for _ in range(2):
        await one.release(7)
    assert await other.lock(7)


@simulated
async def test_a_mark_need_not_list_any_bookie(
    world: World,
) -> None:
    one, _ = await two_managers(world)
    now_ms = world.wall_clock_ms()
    assert await one.mark(7, [])
    mark = await one.find(7)
    assert mark is not None
    assert mark.bookies == ()
    assert abs(mark.ctime_ms - now_ms) < 1000
    assert not await one.mark(7, [])


@simulated
async def test_nodes_other_than_marks_are_ignored(world: World) -> None:
    one, _ = await two_managers(world)
    await one.mark(7, ["b1"])
    folder = PATHS.mark(7).rpartition("/")[0]
    for name in ("other", "urL", "urL12x", "xurL0000000009"):
        await world.store.create(f"{folder}/{name}", b"")
    # These marks are in the wrong place.
    for name in ("urL7", "urL0000000009", f"urL{'7' * 5000}"):
        await world.store.create(f"{folder}/{name}", b"")
    assert await one.ledgers() == [7]
    assert await one.lock_any() == 7
    waiting = asyncio.ensure_future(one.lock_any())
    assert await is_waiting(waiting)
    asked = world.metadata.asked()
    await asyncio.sleep(300)
    assert set(asked) == {"ping"}
    waiting.cancel()


@simulated
async def test_a_worker_finds_marks_after_its_nodes_were_deleted(world: World) -> None:
    """`metaformat` deletes the nodes while workers wait for marks."""
    one, other = await two_managers(world)
    waiting = asyncio.ensure_future(one.lock_any())
    assert await is_waiting(waiting)
    for path in (PATHS.layout, PATHS.ledgers, PATHS.locks, PATHS.root):
        await world.store.delete(path)
    assert await is_waiting(waiting)
    await other.mark(7, ["b1"])
    assert not await is_waiting(waiting)
    assert await waiting == 7


@simulated
async def test_marks_are_listed_in_the_order_of_their_ids(world: World) -> None:
    one, _ = await two_managers(world)
    ids = [2**63 - 1, 0, 0x1_0000, 7, 0x1_0000_0000]
    for ledger_id in ids:
        await one.mark(ledger_id, ["b1"])
    assert await one.ledgers() == sorted(ids)


@simulated
async def test_each_check_has_its_own_time(world: World) -> None:
    one, other = await two_managers(world)
    for path in (PATHS.ledgers_checked, PATHS.replicas_checked, PATHS.placement_checked):
        assert await one.last_check_ms(path) == NEVER_MS
        for _ in range(2):
            await asyncio.sleep(9)
            then_ms = world.wall_clock_ms()
            await one.record_check(path)
            assert abs(await other.last_check_ms(path) - then_ms) < 1000
