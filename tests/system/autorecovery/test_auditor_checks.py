"""What an auditor records, what its checks pass over, and what interrupts them."""

import asyncio
from functools import partial
from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.underreplication import NEVER_MS
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.ledger import LedgerMetadata
from tests.system.autorecovery.test_auditor import marked, start
from tests.system.autorecovery.test_silence import GRACE_S, hang
from tests.system.autorecovery.world import LATENCY_S, World, payload, run


def notes(world: World, kind: str) -> list[str]:
    return [row.note for row in world.events(kind)]


# The delay


def test_delay_is_recorded_when_the_auditor_begins_and_at_each_change() -> None:
    async def rule(world: World) -> None:
        await start(world, lost_bookie_recovery_delay_s=60)
        await asyncio.sleep(5)
        assert notes(world, "auditor.delay") == ["60 s"]
        assert await world.manager.lost_bookie_recovery_delay_s() == 60
        for delay_s in (30, 30, 0):
            await world.manager.set_lost_bookie_recovery_delay(delay_s)
            await asyncio.sleep(5)
        assert notes(world, "auditor.delay") == ["60 s", "30 s", "30 s", "0 s"]

    run(rule)


def test_delay_in_the_store_holds_and_not_that_of_the_configuration() -> None:
    async def rule(world: World) -> None:
        await world.manager.prepare()
        await world.manager.set_lost_bookie_recovery_delay(100)
        await world.closed_ledger(3)
        await start(world, lost_bookie_recovery_delay_s=5)
        await world.stop_bookie("b2")
        await asyncio.sleep(90)
        assert marked(world) == []
        await asyncio.sleep(15)
        assert marked(world) == [(0, "b2")]

    run(rule)


@pytest.mark.parametrize(("written", "audits"), [(60, True), (0, True), (59, False), (61, False)])
def test_audit_is_asked_for_by_writing_0_or_the_delay_that_holds(
    written: int, audits: bool
) -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(3)
        await start(world, lost_bookie_recovery_delay_s=60)
        await asyncio.sleep(5)
        # Nobody is missing, so an audit shows by what it reads.
        read: list[int] = []
        metadata = BookKeeper.ledger_metadata

        async def noted(client: BookKeeper, asked: int) -> LedgerMetadata:
            read.append(asked)
            return await metadata(client, asked)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(BookKeeper, "ledger_metadata", noted)
            await world.manager.set_lost_bookie_recovery_delay(written)
            await asyncio.sleep(5)
        assert read == [ledger_id] * audits

    run(rule)


# Audits


def test_disabled_auditor_reads_no_metadata_of_ledgers() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await world.manager.disable()
        read: list[int] = []
        metadata = BookKeeper.ledger_metadata

        async def noted(client: BookKeeper, asked: int) -> LedgerMetadata:
            read.append(asked)
            return await metadata(client, asked)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(BookKeeper, "ledger_metadata", noted)
            await start(world)
            await world.stop_bookie("b2")
            await asyncio.sleep(20)
            assert read == []
            await world.manager.enable()
            await asyncio.sleep(0.5)
        assert read != []

    run(rule)


def test_lost_bookie_is_found_before_the_ledgers_are_checked() -> None:
    """The check would take its ledgers for ledgers that lack copies, too."""

    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(3)
        await start(world, lost_bookie_recovery_delay_s=60)
        await world.manager.disable()
        await asyncio.sleep(1)
        await world.stop_bookie("b2")
        await asyncio.sleep(100)
        assert marked(world) == []
        await world.manager.enable()
        await asyncio.sleep(30)
        assert marked(world) == []
        await asyncio.sleep(40)
        assert marked(world) == [(ledger_id, "b2")]

    run(rule)


def test_ledger_is_recorded_as_short_of_copies_when_that_is_news() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(3)
        await start(world)
        await world.manager.mark(ledger_id, ["b2"])
        await world.manager.disable()
        await world.stop_bookie("b2")
        await world.stop_bookie("b1")
        await world.manager.enable()
        await asyncio.sleep(0.5)
        assert [row.peer for row in world.events("bookie.lost")] == ["b1", "b2"]
        assert marked(world) in ([(0, "b1,b2")], [])

    run(rule)


def test_metadata_are_read_a_hundred_ledgers_at_a_time() -> None:
    async def rule(world: World) -> None:
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

    run(rule)


def test_ledger_that_is_deleted_during_an_audit_or_a_check_is_passed_over_in_silence() -> None:
    async def rule(world: World) -> None:
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
        assert await world.manager.checked_ms(world.manager.nodes.ledgers_checked) != NEVER_MS

    run(rule)


def test_ledger_that_cannot_be_checked_is_recorded_with_the_reason_and_hides_no_other() -> None:
    async def rule(world: World) -> None:
        ledgers = [await world.closed_ledger(3) for _ in range(3)]
        await world.store.set(f"/ledgers/00/0000/L{ledgers[1]:04}", b"not metadata", -1)
        world.bookies["b3"].lose(ledgers[2], 2)
        await start(world, auditor_replicas_check_interval_s=1000)
        await asyncio.sleep(5)
        assert [ledger_id for ledger_id, _ in marked(world)] == [ledgers[2]]
        unchecked = world.events("ledger.unchecked")
        assert {row.ledger for row in unchecked} == {ledgers[1]}
        # By the audit, the check of ledgers and that of replicas.
        assert len(unchecked) == 3
        assert all(row.note for row in unchecked)
        assert await world.manager.checked_ms(world.manager.nodes.ledgers_checked) != NEVER_MS
        assert await world.manager.checked_ms(world.manager.nodes.replicas_checked) != NEVER_MS

    run(rule)


def test_bookies_are_compared_again_at_intervals() -> None:
    async def rule(world: World) -> None:
        await start(world, auditor_periodic_bookie_check_interval_s=100)
        await asyncio.sleep(50)
        # A ledger that names a bookie that was never there.
        ledger_id = await world.closed_ledger(3)
        metadata = await world.ledger(ledger_id)
        path = f"/ledgers/00/0000/L{ledger_id:04}"
        data, version = await world.store.get(path)
        await world.store.set(path, data.replace(b"b2", b"x2"), version)
        assert (await world.ledger(ledger_id)) != metadata
        await asyncio.sleep(40)
        assert marked(world) == []
        await asyncio.sleep(15)
        assert marked(world) == [(ledger_id, "x2")]

    run(rule)


# Checks


@pytest.mark.parametrize("check", ["ledgers", "replicas"])
@pytest.mark.parametrize("how", ["disabled", "missing"])
def test_check_that_is_interrupted_is_not_noted_as_made_and_starts_over(
    check: str, how: str
) -> None:
    async def rule(world: World) -> None:
        for _ in range(50):
            await world.closed_ledger(1)
        interval = {"ledgers": "auditor_periodic_check", "replicas": "auditor_replicas_check"}
        off: dict[str, Any] = {f"{name}_interval_s": 0 for name in interval.values()}
        world.config = AutoRecoveryConfig(
            **off | {f"{interval[check]}_interval_s": 1000},
            lost_bookie_recovery_delay_s=300,
        )
        for bookie in world.bookies.values():
            bookie.gives_lists = False
        starting = asyncio.ensure_future(world.start_autorecovery("a"))
        async with asyncio.timeout(10):
            while len(world.events("read.sent")) < 30:  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(LATENCY_S)
        if how == "disabled":
            await world.manager.disable()
        else:
            await world.stop_bookie("b5")
        await starting
        await asyncio.sleep(100)

        async def checked() -> bool:
            checked_ms = {
                "ledgers": partial(world.manager.checked_ms, world.manager.nodes.ledgers_checked),
                "replicas": partial(world.manager.checked_ms, world.manager.nodes.replicas_checked),
            }[check]
            return await checked_ms() != NEVER_MS

        assert not await checked()
        if how == "disabled":
            await world.manager.enable()
        else:
            await world.start_bookie("b5")
        await asyncio.sleep(100)
        assert await checked()
        assert marked(world) == []

    run(rule)


def test_checks_wait_for_the_end_of_the_grace_period() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(10)
        await start(world, auditor_periodic_check_interval_s=100)
        await asyncio.sleep(90)
        before_ms = await world.manager.checked_ms(world.manager.nodes.ledgers_checked)
        await hang(world)
        began_s = asyncio.get_running_loop().time()
        await asyncio.sleep(GRACE_S - 1)
        assert await world.manager.checked_ms(world.manager.nodes.ledgers_checked) == before_ms
        await asyncio.sleep(10)
        after_ms = await world.manager.checked_ms(world.manager.nodes.ledgers_checked)
        assert after_ms > before_ms
        assert after_ms >= 1_700_000_000_000 + 1000 * (began_s + GRACE_S)

    run(rule)


def test_open_ledgers_are_checked_but_their_replicas_are_not_counted() -> None:
    async def rule(world: World) -> None:
        writer = await world.client.create_ledger(3, 3, 2)
        for number in range(4):
            await writer.add(payload(number))
        await asyncio.sleep(1)
        world.bookies["b3"].lose(writer.ledger_id, 0)
        await start(world, auditor_replicas_check_interval_s=1000)
        await asyncio.sleep(5)
        assert world.events("replicas.missing") == []
        assert marked(world) == [(writer.ledger_id, "b3")]

    run(rule)
