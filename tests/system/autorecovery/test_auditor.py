"""Test what the auditor does if something happens in the middle of an audit."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from labkit.system.autorecovery import auditor
from labkit.system.autorecovery.audit_rules import when_to_audit
from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import Rules
from labkit.system.autorecovery.ledger_view import LedgerView, view_ledger
from labkit.system.autorecovery.metadata_silence import MetadataSilence
from labkit.system.autorecovery.underreplication import NEVER_MS, LedgerUnderreplicationManager
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import ANY_VERSION, MetadataStore
from labkit.system.model.ledger import LedgerMetadata
from tests.system.autorecovery.world import LATENCY_S, PATHS, World, simulated

GRACE_S = 10.0
"""How long bookies have to register again after a silence of the metadata store."""


async def start(world: World, **config: Any) -> None:
    world.config = AutoRecoveryConfig(**config)
    await world.start_autorecovery("a")


async def last_check_ms(world: World, check: str = "ledgers_checked") -> int:
    return await world.manager.last_check_ms(getattr(world.manager.paths, check))


def marked(world: World) -> list[tuple[int, str]]:
    return [(row.ledger, ",".join(row.bookies)) for row in world.events("ledger.underreplicated")]


@simulated
async def test_a_malformed_time_of_a_check_counts_as_never_and_is_replaced(world: World) -> None:
    await world.manager.record_check(PATHS.ledgers_checked)
    await world.store.set(PATHS.ledgers_checked, b"\xff", ANY_VERSION)
    assert await last_check_ms(world) == NEVER_MS
    await start(world)
    await asyncio.sleep(30)
    assert await last_check_ms(world) != NEVER_MS


@simulated
async def test_a_bookie_that_leaves_during_an_audit_has_the_full_delay_to_return(
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


@simulated
async def test_a_bookie_that_returns_during_an_audit_and_leaves_later_is_lost(
    world: World,
) -> None:
    ledger_id = await world.closed_ledger(3)
    await start(world)
    list_ledgers = BookKeeper.list_ledgers
    has_begun, has_returned = asyncio.Event(), asyncio.Event()

    async def listed_slowly(client: BookKeeper) -> list[int]:
        has_begun.set()
        await has_returned.wait()
        return await list_ledgers(client)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BookKeeper, "list_ledgers", listed_slowly)
        await world.stop_bookie("b2")
        await has_begun.wait()
        await world.start_bookie("b2")
        has_returned.set()
        await asyncio.sleep(5)
    assert marked(world) == []
    await world.stop_bookie("b2")
    await asyncio.sleep(5)
    assert marked(world) == [(ledger_id, "b2")]


@simulated
async def test_a_bookie_that_leaves_while_the_last_ledger_is_checked_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check reads the list of bookies first, so its watch no longer wakes the auditor."""
    checked = await world.closed_ledger(3, (5, 5, 3))
    last = await world.closed_ledger(3, (1, 1, 1))
    is_last, has_left = asyncio.Event(), asyncio.Event()

    async def viewed_slowly(client: BookKeeper, ledger_id: int) -> LedgerView:
        ledger = await view_ledger(client, ledger_id)
        if ledger_id == last:
            is_last.set()
            await has_left.wait()
        return ledger

    monkeypatch.setattr(auditor, "view_ledger", viewed_slowly)
    starting = asyncio.ensure_future(start(world))
    await is_last.wait()
    await world.stop_bookie("b5")
    await asyncio.sleep(0.1)  # virtual time, long enough for the watch to fire
    has_left.set()
    await starting
    await asyncio.sleep(30)
    assert marked(world) == [(checked, "b5")]


@simulated
async def test_metadata_is_read_a_hundred_ledgers_at_a_time(world: World) -> None:
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
async def test_a_ledger_that_is_deleted_during_an_audit_or_a_check_is_skipped(
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


@pytest.mark.parametrize("check", ["periodic", "replicas"])
@pytest.mark.parametrize("how", ["disabled", "missing"])
@simulated
async def test_an_interrupted_check_is_not_recorded_and_starts_again(
    world: World, check: str, how: str
) -> None:
    for _ in range(50):
        await world.closed_ledger(1)
    for bookie in world.bookies.values():
        bookie.gives_no_lists = True
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
async def test_the_auditor_leaves_no_tasks_behind(world: World) -> None:
    await start(world, auditor_periodic_bookie_check_interval_s=1)
    await asyncio.sleep(10)
    waits = len(asyncio.all_tasks())
    await asyncio.sleep(100)
    assert len(asyncio.all_tasks()) <= waits + 2


@simulated
async def test_an_audit_during_a_silence_marks_nothing_and_is_repeated(
    world: World,
) -> None:
    watchers: list[MetadataSilence] = []

    def watching(store: MetadataStore) -> MetadataSilence:
        watchers.append(MetadataSilence(store))
        return watchers[-1]

    world.rules = Rules(metadata_silence=watching)
    ledger_id = await world.closed_ledger(3)
    await start(world, auditor_periodic_bookie_check_interval_s=1000)
    await asyncio.sleep(5)
    path = f"/ledgers/00/0000/L{ledger_id:04}"
    data, version = await world.store.get(path)
    await world.store.set(path, data.replace(b"b2", b"x2"), version)
    silent_at: list[float] = []
    is_enabled = LedgerUnderreplicationManager.is_enabled

    async def silent(manager: LedgerUnderreplicationManager) -> bool:
        if not silent_at:
            silent_at.append(asyncio.get_running_loop().time())
            watchers[0].silence_ended()
        return await is_enabled(manager)

    with pytest.MonkeyPatch.context() as patched:
        await asyncio.sleep(900)
        patched.setattr(LedgerUnderreplicationManager, "is_enabled", silent)
        await asyncio.sleep(150)
        assert marked(world) == [(ledger_id, "x2")]
    [row] = world.events("ledger.underreplicated")
    assert GRACE_S <= row.time_us / 1e6 - silent_at[0] < GRACE_S + 1
