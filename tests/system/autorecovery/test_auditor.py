"""When the auditor marks ledgers, and when it must not."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import Rules
from labkit.system.autorecovery.lost_bookies import when_to_audit
from labkit.system.autorecovery.underreplication import NEVER_MS
from labkit.system.metadata.store import MetadataUnavailableError
from tests.system.autorecovery.world import LATENCY_S, World, run


async def start(world: World, **config: Any) -> None:
    world.config = AutoRecoveryConfig(**config)
    await world.start_autorecovery("a")


def marked(world: World) -> list[tuple[int, str]]:
    return [(row.ledger, row.note) for row in world.events("ledger.underreplicated")]


def test_ledgers_of_a_lost_bookie_are_marked_open_and_closed_ones() -> None:
    async def rule(world: World) -> None:
        closed = await world.closed_ledger(3)
        writer = await world.client.create_ledger(3, 3, 2)
        elsewhere = await world.client.create_ledger(1, 1, 1)
        await start(world)
        await world.stop_bookie("b2")
        await asyncio.sleep(1)
        assert marked(world) == [(closed, "b2"), (writer.ledger_id, "b2")]
        assert [row.peer for row in world.events("bookie.lost")] == ["b2"]
        assert elsewhere.ledger_id not in [ledger_id for ledger_id, _ in marked(world)]

    run(rule)


def test_bookie_that_comes_back_in_time_is_not_lost() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await start(world, lost_bookie_recovery_delay_s=60)
        await world.stop_bookie("b2")
        await asyncio.sleep(50)
        await world.start_bookie("b2")
        await asyncio.sleep(200)
        assert marked(world) == []
        await world.stop_bookie("b2")
        await asyncio.sleep(50)
        assert marked(world) == []
        await asyncio.sleep(20)
        assert marked(world) == [(0, "b2")]

    run(rule)


def test_an_auditor_whose_rule_ignores_the_delay_marks_at_once() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        world.rules = Rules(when_to_audit=lambda missing, delay, now: now if missing else None)
        await start(world, lost_bookie_recovery_delay_s=60)
        await world.stop_bookie("b2")
        await asyncio.sleep(5)
        assert marked(world) == [(0, "b2")]

    run(rule)


def test_second_lost_bookie_ends_the_wait() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await start(world, lost_bookie_recovery_delay_s=600)
        await world.stop_bookie("b2")
        await asyncio.sleep(20)
        assert marked(world) == []
        await world.stop_bookie("b3")
        await asyncio.sleep(1)
        assert marked(world) == [(0, "b2,b3")]

    run(rule)


def test_bookie_that_goes_while_an_audit_is_made_has_its_time_to_come_back() -> None:
    """And its time begins then, not with the next news."""

    async def rule(world: World) -> None:
        times: list[tuple[float, list[str]]] = []

        def decide(missing: Mapping[str, float], delay_s: float, now_s: float) -> float | None:
            due = when_to_audit(missing, delay_s, now_s)
            times.append((now_s, list(missing)))
            if due is not None and due <= now_s:
                world.metadata.zookeeper.expire("b3")
            return due

        await world.closed_ledger(3)
        world.rules = Rules(when_to_audit=decide)
        await start(world, lost_bookie_recovery_delay_s=60)
        await world.stop_bookie("b2")
        await asyncio.sleep(140)
        assert [row.peer for row in world.events("bookie.lost")] == ["b2"]
        audit_s, noticed_s, over_s = (now_s for now_s, missing in times[-3:])
        assert [missing for _, missing in times[-3:]] == [["b2"], ["b3"], ["b3"]]
        assert noticed_s - audit_s < 1
        assert over_s - noticed_s == pytest.approx(60)

    run(rule)


def test_bookies_that_lose_their_sessions_with_the_auditor_may_register_again() -> None:
    """As after a restart of the metadata store: nobody is taken for lost."""

    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await start(world)
        for node in ("a", *world.bookies):
            world.metadata.zookeeper.expire(node)
        await world.start_autorecovery("b")
        for name in world.bookies:
            await world.start_bookie(name)
            await asyncio.sleep(1)
        await asyncio.sleep(30)
        assert [row.node for row in world.events("auditor.elected")] == ["a", "b"]
        assert marked(world) == []

    run(rule)


def test_lost_bookie_is_reported_once() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await start(world)
        await world.stop_bookie("b2")
        await asyncio.sleep(1)
        await world.stop_bookie("b5")
        await world.start_bookie("b5")
        await asyncio.sleep(5)
        assert marked(world) == [(0, "b2")]

    run(rule)


def test_read_only_bookie_is_not_lost() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await start(world)
        for read_only in (True, False, True):
            await world.start_bookie("b2", read_only=read_only)
            await asyncio.sleep(5)
        assert marked(world) == []
        assert world.events("bookie.lost") == []

    run(rule)


def test_bookie_that_went_before_there_was_an_auditor_is_found() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await world.stop_bookie("b2")
        await start(world, lost_bookie_recovery_delay_s=60)
        await asyncio.sleep(30)
        assert marked(world) == []
        await asyncio.sleep(40)
        assert marked(world) == [(0, "b2")]

    run(rule)


@pytest.mark.parametrize("written", [0, 600])
def test_writing_the_delays_own_value_or_0_audits_at_once(written: int) -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await start(world, lost_bookie_recovery_delay_s=600)
        await world.stop_bookie("b2")
        await asyncio.sleep(10)
        assert marked(world) == []
        await world.manager.set_lost_bookie_recovery_delay(written)
        await asyncio.sleep(1)
        assert marked(world) == [(0, "b2")]

    run(rule)


def test_another_delay_holds_for_the_bookie_that_is_waited_for() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await start(world, lost_bookie_recovery_delay_s=600)
        await world.stop_bookie("b2")
        await asyncio.sleep(10)
        await world.manager.set_lost_bookie_recovery_delay(60)
        await asyncio.sleep(40)
        assert marked(world) == []
        await asyncio.sleep(15)
        assert marked(world) == [(0, "b2")]

    run(rule)


def test_nothing_is_marked_while_disabled() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await world.manager.disable()
        await start(world)
        await world.stop_bookie("b2")
        await asyncio.sleep(100)
        assert marked(world) == []
        await world.manager.enable()
        await asyncio.sleep(1)
        assert marked(world) == [(0, "b2")]

    run(rule)


def test_ledger_check_finds_copies_that_a_living_bookie_lost() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(10)
        await start(world, auditor_periodic_check_interval_s=300)
        await asyncio.sleep(5)
        first_ms = await world.manager.checked_ms(world.manager.nodes.ledgers_checked)
        assert first_ms != NEVER_MS
        world.bookies["b3"].lose(0, 9)
        await asyncio.sleep(280)
        assert marked(world) == []
        await asyncio.sleep(30)
        assert marked(world) == [(0, "b3")]
        assert (
            await world.manager.checked_ms(world.manager.nodes.ledgers_checked)
            >= first_ms + 300_000
        )

    run(rule)


def test_copy_between_first_and_last_is_missed_unless_a_percentage_is_tested() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(10)
        world.bookies["b3"].lose(0, 4)
        await start(world)
        await asyncio.sleep(30)
        assert await world.manager.checked_ms(world.manager.nodes.ledgers_checked) != NEVER_MS
        assert marked(world) == []
        world.metadata.crash("a")
        world.config = AutoRecoveryConfig(
            auditor_ledger_verification_percentage=100, auditor_periodic_check_interval_s=60
        )
        await world.start_autorecovery("b")
        await asyncio.sleep(70)
        assert marked(world) == [(0, "b3")]

    run(rule)


def test_next_auditor_does_not_check_all_ledgers_again_before_it_is_due() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(10)
        world.config = AutoRecoveryConfig(auditor_periodic_check_interval_s=300)
        await world.start_autorecovery("a", "b")
        await asyncio.sleep(100)
        world.metadata.crash("a")
        world.bookies["b3"].lose(0, 9)
        await asyncio.sleep(150)
        assert marked(world) == []
        await asyncio.sleep(100)
        assert marked(world) == [(0, "b3")]

    run(rule)


def test_periodic_checks_wait_while_a_bookie_may_come_back() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(10)
        await start(
            world,
            lost_bookie_recovery_delay_s=500,
            auditor_periodic_bookie_check_interval_s=100,
            auditor_periodic_check_interval_s=100,
        )
        await world.stop_bookie("b2")
        await asyncio.sleep(400)
        assert marked(world) == []
        await asyncio.sleep(120)
        assert marked(world) == [(0, "b2")]

    run(rule)


def test_ledger_whose_metadata_is_damaged_hides_no_other() -> None:
    async def rule(world: World) -> None:
        for _ in range(3):
            await world.closed_ledger(3)
        await world.store.set("/ledgers/00/0000/L0001", b"not metadata", -1)
        await start(world)
        await world.stop_bookie("b2")
        await asyncio.sleep(2)
        assert [ledger_id for ledger_id, _ in marked(world)] == [0, 2]
        assert {row.ledger for row in world.events("ledger.unchecked")} == {1}

    run(rule)


def test_nothing_is_lost_while_the_metadata_store_cannot_be_read() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await start(world, auditor_periodic_bookie_check_interval_s=20)
        world.metadata.cut("a")
        with pytest.raises(MetadataUnavailableError):
            await world.instances["a"]
        world.metadata.heal()
        await asyncio.sleep(60)
        assert marked(world) == []
        assert world.events("bookie.lost") == []

    run(rule)


def test_round_that_an_auditor_began_is_ended_by_the_next() -> None:
    async def rule(world: World) -> None:
        for _ in range(20):
            await world.closed_ledger(1)
        await world.manager.disable()
        await world.start_autorecovery("a", "b")
        await world.stop_bookie("b2")
        await world.manager.enable()
        while len(marked(world)) < 5:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(LATENCY_S)
        world.metadata.crash("a")
        await world.until_replicated()
        by = {row.node: 0 for row in world.events("ledger.underreplicated")}
        assert list(by) == ["a", "b"]
        for ledger_id in range(20):
            assert await world.missing(ledger_id) == []

    run(rule)


@pytest.mark.parametrize("gives_lists", [True, False])
def test_replicas_check_reports_and_marks_nothing(gives_lists: bool) -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(10)
        world.bookies["b1"].gives_lists = gives_lists
        world.bookies["b3"].lose(0, 4)
        world.bookies["b1"].lose(0, 5)
        world.bookies["b2"].lose(0, 5)
        await start(world, auditor_replicas_check_interval_s=300)
        await asyncio.sleep(10)
        [report] = world.events("replicas.missing")
        assert report.note == (
            "entries without a copy: 0, with fewer than Qa: 1, with fewer than Qw: 1"
        )
        assert marked(world) == []
        assert await world.manager.checked_ms(world.manager.nodes.replicas_checked) != NEVER_MS
        asked = {row.entry for row in world.events("read.sent") if row.node == "a"}
        assert (asked == set(range(10))) is not gives_lists

    run(rule)


def test_checks_that_are_off_are_not_made() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(10)
        world.bookies["b3"].lose(0, 9)
        await start(world, auditor_periodic_check_interval_s=0)
        await asyncio.sleep(100)
        assert marked(world) == []
        assert await world.manager.checked_ms(world.manager.nodes.ledgers_checked) == NEVER_MS
        assert await world.manager.checked_ms(world.manager.nodes.replicas_checked) == NEVER_MS

    run(rule)
