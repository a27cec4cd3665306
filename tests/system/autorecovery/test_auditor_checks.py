"""Test what an auditor records, which ledgers its checks skip, and what interrupts them."""

import asyncio
from typing import Any

import pytest

from labkit.system.autorecovery.underreplication import NEVER_MS
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.ledger import LedgerMetadata
from tests.system.autorecovery.test_audit_times import GRACE_S, hang
from tests.system.autorecovery.test_auditor import last_check_ms, marked, start
from tests.system.autorecovery.world import LATENCY_S, World, payload, simulated


@simulated
async def test_delay_is_recorded_when_the_auditor_begins_and_at_each_change(world: World) -> None:
    await start(world, lost_bookie_recovery_delay_s=60)
    await asyncio.sleep(5)
    assert await world.manager.lost_bookie_recovery_delay_s() == 60
    for delay_s in (30, 30, 0):
        await world.manager.set_lost_bookie_recovery_delay(delay_s)
        await asyncio.sleep(5)
    assert [row.seconds for row in world.events("auditor.delay")] == [60, 30, 30, 0]


@simulated
async def test_metadata_are_read_a_hundred_ledgers_at_a_time(world: World) -> None:
    for _ in range(250):
        await world.client.create_ledger(1, 1, 1)
    under_way, most = 0, 0
    metadata = BookKeeper.ledger_metadata

    async def counted(client: BookKeeper, ledger_id: int) -> LedgerMetadata:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await metadata(client, ledger_id)
        finally:
            under_way -= 1

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BookKeeper, "ledger_metadata", counted)
        await start(world, auditor_periodic_check_interval_s=0)
        await world.stop_bookie("b1")
        await asyncio.sleep(20)
    assert most == 100
    assert [ledger_id for ledger_id, _ in marked(world)] == list(range(250))


@simulated
async def test_ledger_that_is_deleted_during_an_audit_or_a_check_is_passed_over_in_silence(
    world: World,
) -> None:
    ledgers = [await world.closed_ledger(3) for _ in range(3)]
    list_ledgers = BookKeeper.list_ledgers

    async def listed_before(client: BookKeeper) -> list[int]:
        await list_ledgers(client)
        return ledgers

    await world.client.delete_ledger(ledgers[1])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BookKeeper, "list_ledgers", listed_before)
        await start(world)
        await asyncio.sleep(5)
        await world.stop_bookie("b2")
        await asyncio.sleep(5)
    assert [ledger_id for ledger_id, _ in marked(world)] == [ledgers[0], ledgers[2]]
    assert world.events("ledger.unchecked") == []
    assert await last_check_ms(world) != NEVER_MS


@simulated
async def test_ledger_that_cannot_be_checked_is_recorded_with_the_reason_and_hides_no_other(
    world: World,
) -> None:
    ledgers = [await world.closed_ledger(3) for _ in range(3)]
    await world.store.set(f"/ledgers/00/0000/L{ledgers[1]:04}", b"not metadata", -1)
    world.bookies["b3"].lose(ledgers[2], 2)
    await start(world, auditor_replicas_check_interval_s=1000)
    await asyncio.sleep(5)
    assert [ledger_id for ledger_id, _ in marked(world)] == [ledgers[2]]
    unchecked = world.events("ledger.unchecked")
    assert {row.ledger for row in unchecked} == {ledgers[1]}
    # The audit, the ledger check and the replicas check each record one event.
    assert len(unchecked) == 3
    assert all(row.explanation for row in unchecked)
    assert await last_check_ms(world) != NEVER_MS
    assert await last_check_ms(world, "replicas_checked") != NEVER_MS


@pytest.mark.parametrize("check", ["periodic", "replicas"])
@pytest.mark.parametrize("how", ["disabled", "missing"])
@simulated
async def test_check_that_is_interrupted_is_not_noted_as_made_and_starts_over(
    world: World, check: str, how: str
) -> None:
    for _ in range(50):
        await world.closed_ledger(1)
    for bookie in world.bookies.values():
        bookie.gives_lists = False
    intervals: dict[str, Any] = {
        f"auditor_{each}_check_interval_s": 1000 * (each == check)
        for each in ("periodic", "replicas")
    }
    starting = asyncio.ensure_future(start(world, lost_bookie_recovery_delay_s=300, **intervals))
    async with asyncio.timeout(10):
        while len(world.events("read.sent")) < 30:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(LATENCY_S)
    await (world.manager.disable() if how == "disabled" else world.stop_bookie("b5"))
    await starting
    await asyncio.sleep(100)
    recorded = "ledgers_checked" if check == "periodic" else "replicas_checked"
    assert await last_check_ms(world, recorded) == NEVER_MS
    await (world.manager.enable() if how == "disabled" else world.start_bookie("b5"))
    await asyncio.sleep(100)
    assert await last_check_ms(world, recorded) != NEVER_MS
    assert marked(world) == []


@simulated
async def test_checks_wait_for_the_end_of_the_grace_period(world: World) -> None:
    await world.closed_ledger(10)
    await start(world, auditor_periodic_check_interval_s=100)
    await asyncio.sleep(90)
    before_ms = await last_check_ms(world)
    await hang(world)
    began_s = asyncio.get_running_loop().time()
    await asyncio.sleep(GRACE_S - 1)
    assert await last_check_ms(world) == before_ms
    await asyncio.sleep(10)
    after_ms = await last_check_ms(world)
    assert after_ms > before_ms
    assert after_ms >= 1_700_000_000_000 + 1000 * (began_s + GRACE_S)


@simulated
async def test_open_ledgers_are_checked_but_their_replicas_are_not_counted(world: World) -> None:
    writer = await world.client.create_ledger(3, 3, 2)
    for number in range(4):
        await writer.add(payload(number))
    await asyncio.sleep(1)
    world.bookies["b3"].lose(writer.ledger_id, 0)
    await start(world, auditor_replicas_check_interval_s=1000)
    await asyncio.sleep(5)
    assert world.events("replicas.missing") == []
    assert marked(world) == [(writer.ledger_id, "b3")]


@simulated
async def test_auditor_that_runs_for_long_leaves_no_wait_behind(world: World) -> None:
    await start(world, auditor_periodic_bookie_check_interval_s=1)
    await asyncio.sleep(10)
    waits = len(asyncio.all_tasks())
    await asyncio.sleep(100)
    assert len(asyncio.all_tasks()) <= waits + 2
