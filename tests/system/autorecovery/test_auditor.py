"""Test when the auditor marks ledgers as underreplicated and when it must not."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from labkit.system.autorecovery.audit_rules import when_to_audit
from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import Rules
from labkit.system.autorecovery.underreplication import NEVER_MS
from labkit.system.metadata.store import ANY_VERSION, MetadataUnavailableError
from tests.system.autorecovery.world import PATHS, World, simulated


async def start(world: World, **config: Any) -> None:
    world.config = AutoRecoveryConfig(**config)
    await world.start_autorecovery("a")


async def last_check_ms(world: World, check: str = "ledgers_checked") -> int:
    return await world.manager.last_check_ms(getattr(world.manager.paths, check))


def marked(world: World) -> list[tuple[int, str]]:
    return [(row.ledger, ",".join(row.bookies)) for row in world.events("ledger.underreplicated")]


@pytest.mark.promise(
    "The ledgers of a lost bookie are marked after the delay and not before, including open ledgers"
)
@simulated
async def test_ledgers_of_a_lost_bookie_are_marked_open_and_closed_ones(world: World) -> None:
    closed = await world.closed_ledger(3)
    writer = await world.client.create_ledger(3, 3, 2)
    elsewhere = await world.client.create_ledger(1, 1, 1)
    await start(world)
    await world.stop_bookie("b2")
    await asyncio.sleep(1)
    assert marked(world) == [(closed, "b2"), (writer.ledger_id, "b2")]
    assert [row.peer for row in world.events("bookie.lost")] == ["b2"]
    assert elsewhere.ledger_id not in [ledger_id for ledger_id, _ in marked(world)]


@simulated
async def test_a_malformed_mark_ends_no_auditor_and_hides_no_other_ledger(world: World) -> None:
    first, second = [await world.closed_ledger(3) for _ in range(2)]
    # Another worker holds the lock, so nobody repairs the ledger and removes its mark.
    await world.manager.mark(first, ["b1"])
    await world.store.create(PATHS.lock(first), b"", ephemeral=True)
    await world.store.set(PATHS.mark(first), b"replica: 7", ANY_VERSION)
    await start(world)
    await world.stop_bookie("b2")
    await asyncio.sleep(1)
    assert marked(world) == [(second, "b2")]
    [unchecked] = world.events("ledger.unchecked")
    assert unchecked.ledger == first
    assert "mark of ledger" in unchecked.explanation
    assert not world.instances["a"].done()


@simulated
@pytest.mark.parametrize("data", [b"5\n", b"soon", b""])
async def test_a_malformed_delay_does_not_stop_the_auditor(world: World, data: bytes) -> None:
    ledger_id = await world.closed_ledger(3)
    await start(world, lost_bookie_recovery_delay_s=7)
    await world.store.set(PATHS.lost_bookie_recovery_delay, data, ANY_VERSION)
    await world.stop_bookie("b2")
    await asyncio.sleep(30)
    assert marked(world) == [(ledger_id, "b2")]
    *_, delay = world.events("auditor.delay")
    assert delay.seconds == 7
    assert "must be a number of seconds" in delay.explanation


@simulated
async def test_a_malformed_time_of_a_check_counts_as_never_and_is_replaced(world: World) -> None:
    await world.manager.record_check(PATHS.ledgers_checked)
    await world.store.set(PATHS.ledgers_checked, b"\xff", ANY_VERSION)
    assert await world.manager.last_check_ms(PATHS.ledgers_checked) == NEVER_MS
    await start(world)
    await asyncio.sleep(30)
    assert await world.manager.last_check_ms(PATHS.ledgers_checked) != NEVER_MS


@simulated
async def test_bookie_that_goes_while_an_audit_is_made_has_its_time_to_come_back(
    world: World,
) -> None:
    """The recovery delay starts when the bookie disappears, not at the next notification."""
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


@pytest.mark.promise("Ledgers, bookies and replicas are checked periodically")
@simulated
async def test_ledger_check_finds_copies_that_a_living_bookie_lost(world: World) -> None:
    await world.closed_ledger(10)
    await start(world, auditor_periodic_check_interval_s=300)
    await asyncio.sleep(5)
    first_ms = await last_check_ms(world)
    assert first_ms != NEVER_MS
    world.bookies["b3"].lose(0, 9)
    await asyncio.sleep(280)
    assert marked(world) == []
    await asyncio.sleep(30)
    assert marked(world) == [(0, "b3")]
    assert await last_check_ms(world) >= first_ms + 300_000


@simulated
async def test_next_auditor_does_not_check_all_ledgers_again_before_it_is_due(world: World) -> None:
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


@simulated
async def test_nothing_is_lost_while_the_metadata_store_cannot_be_read(world: World) -> None:
    await world.closed_ledger(3)
    await start(world, auditor_periodic_bookie_check_interval_s=20)
    world.metadata.cut("a")
    with pytest.raises(MetadataUnavailableError):
        await world.instances["a"]
    world.metadata.heal()
    await asyncio.sleep(60)
    assert marked(world) == []
    assert world.events("bookie.lost") == []


@simulated
async def test_replicas_check_reports_and_marks_nothing(world: World) -> None:
    await world.closed_ledger(10)
    world.bookies["b3"].lose(0, 4)
    for name in ("b1", "b2"):
        world.bookies[name].lose(0, 5)
    await start(world, auditor_replicas_check_interval_s=300)
    await asyncio.sleep(10)
    [report] = world.events("replicas.missing")
    assert report.explanation == (
        "entries without a copy: 0, with fewer than Qa: 1, with fewer than Qw: 1"
    )
    assert marked(world) == []
    assert await last_check_ms(world, "replicas_checked") != NEVER_MS
