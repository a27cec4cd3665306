"""Tests for cursors whose owners die, pause, lose their sessions or are replaced."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import LabkitError
from labkit.system.topic.chain.guarded_node import ManagedLedgerFencedError
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.cursors.formats import IN_NODE
from labkit.worlds.sim.scenario.faults import Crash, Pause, SessionLoss, SlowMetadata
from labkit.worlds.sim.settings.triggers import At, On
from tests.repeat import repeated
from tests.system.topic.simulated import (
    SMALL,
    Story,
    all_entries,
    found_by,
    in_simulation,
    node_of,
    opened,
    simulate,
    stored,
    with_cursor,
)


@in_simulation
async def test_next_owner_stops_a_cursor_of_the_former_which_ends(client: BookKeeper) -> None:
    old, cursor, positions = await with_cursor(client)
    ends: list[LabkitError] = []
    old.when_ended(ends.append)
    cursor.acknowledge(positions[:3])
    await cursor.flush()
    new = await opened(client)
    cursor.acknowledge(positions[3:6])
    with pytest.raises(ManagedLedgerFencedError, match="cursor s of public/default"):
        await cursor.flush()
    assert len(ends) == 1
    with pytest.raises(ManagedLedgerFencedError):
        await old.append(b"late")
    assert found_by(new.cursors["s"], positions) == [0, 1, 2]
    new.cursors["s"].acknowledge(positions[3:4])
    await new.close()
    await old.close()
    last = await opened(client)
    assert found_by(last.cursors["s"], positions) == [0, 1, 2, 3]
    await last.close()


@in_simulation
async def test_former_owner_of_a_terminated_topic_creates_no_cursor(client: BookKeeper) -> None:
    old = await opened(client)
    await old.terminate()
    old = await opened(client)
    await opened(client)
    with pytest.raises(ManagedLedgerFencedError):
        await old.open_cursor("s", "latest")


async def acknowledge_all(
    client: BookKeeper, acknowledged: list[Position], positions: list[Position]
) -> None:
    """Acknowledge entries one by one in a mixed order, storing the cursor as often as possible."""
    ledger = await opened(
        client, replace(SMALL, cursor_persist_interval_ms=0, max_entries_per_cursor_ledger=3)
    )
    cursor = await ledger.open_cursor("s", "earliest")
    positions += await stored(ledger, 0, 30)
    for number in range(30):
        position = positions[number * 7 % 30]
        acknowledged.append(position)
        cursor.acknowledge([position])
        if number % 3 == 0:
            await cursor.flush()
        await asyncio.sleep(0.003)
    await ledger.close()


@pytest.mark.parametrize("crash_at_ms", range(12, 132, 4))
def test_after_a_crash_acked_entries_may_return_and_none_is_skipped(crash_at_ms: int) -> None:
    acknowledged: list[Position] = []
    positions: list[Position] = []

    async def old(client: BookKeeper) -> None:
        await acknowledge_all(client, acknowledged, positions)

    async def new(client: BookKeeper) -> None:
        ledger = await opened(client)
        cursor = ledger.cursors["s"]
        assert all(e in acknowledged for e in positions if cursor.is_acknowledged(e))
        # Everything that was flushed before the last two acknowledgements is found.
        flushed = acknowledged[: (len(acknowledged) - 1) // 3 * 3 - 2]
        assert [e for e in flushed if not cursor.is_acknowledged(e)] == []
        cursor.acknowledge_up_to(ledger.last_confirmed)
        assert cursor.unacknowledged_count == 0
        named = (await node_of(client)).ledger_id
        assert named == IN_NODE
        await ledger.close()

    crash = Crash("p", "kept", down_ms=60_000, when=At(crash_at_ms))
    simulate(Story(old), Story(new, "q", At(200)), faults=(crash,))


@pytest.mark.parametrize("pause_at_ms", range(15, 135, 12))
def test_paused_owner_does_not_spoil_the_cursor_of_the_next(pause_at_ms: int) -> None:
    acknowledged: list[Position] = []
    positions: list[Position] = []

    async def old(client: BookKeeper) -> None:
        with pytest.raises(LabkitError):
            await acknowledge_all(client, acknowledged, positions)

    async def new(client: BookKeeper) -> None:
        ledger = await opened(client)
        before = set(acknowledged)
        cursor = await ledger.open_cursor("s", "earliest")
        found = [e for e in positions if cursor.is_acknowledged(e)]
        assert set(found) <= before
        await asyncio.sleep(3)
        assert [e for e in positions if cursor.is_acknowledged(e)] == found
        cursor.acknowledge(found[:1])
        await cursor.flush()
        await ledger.close()
        last = await opened(client)
        assert [e for e in positions if last.cursors["s"].is_acknowledged(e)] == found
        await last.close()

    pause = Pause("p", 1000, At(pause_at_ms))
    simulate(Story(old), Story(new, "q", At(pause_at_ms + 1)), faults=(pause,))


@pytest.mark.parametrize("at_ms", range(20, 90, 10))
def test_owner_whose_session_is_cut_goes_on_or_leaves_a_true_cursor(at_ms: int) -> None:
    acknowledged: list[Position] = []
    positions: list[Position] = []

    async def old(client: BookKeeper) -> None:
        try:
            await acknowledge_all(client, acknowledged, positions)
        except LabkitError:
            await asyncio.sleep(0)

    async def new(client: BookKeeper) -> None:
        ledger = await opened(client)
        cursor = await ledger.open_cursor("s", "earliest")
        assert all(e in acknowledged for e in positions if cursor.is_acknowledged(e))
        await ledger.close()

    faults = (SessionLoss("p", At(at_ms)), SlowMetadata(3, 30, At(at_ms)))
    simulate(Story(old), Story(new, "q", On("step.ended", node="p")), faults=faults)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", repeated(range(0, 16, 4)))
def test_whatever_goes_wrong_no_unacknowledged_entry_is_skipped(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 4):
        owners_in_a_storm(seed)


def owners_in_a_storm(seed: int) -> None:
    """Let three owners follow each other during faults; the first one may still be running."""
    acknowledged: list[Position] = []
    positions: list[Position] = []
    durable: list[Position] = []

    async def own(client: BookKeeper) -> None:
        for _ in range(20):
            with suppress(LabkitError):
                await take_turn(client, acknowledged, durable, positions)
                return
            await asyncio.sleep(0.05)

    judged: list[Position] = []

    async def last(client: BookKeeper) -> None:
        # New ledgers need only two bookies, because the others may be full or permanently down.
        ledger = await opened(client, replace(SMALL, ensemble_size=2, write_quorum=2))
        cursor = await ledger.open_cursor("s", "earliest")
        known = dict.fromkeys(acknowledged)
        entries = [e.position for e in await all_entries(ledger)]
        assert [e for e in positions if e not in entries] == []
        assert [e for e in entries if cursor.is_acknowledged(e) and e not in known] == []
        assert [e for e in durable if not cursor.is_acknowledged(e)] == []
        judged.extend(entries)
        await ledger.close()

    owners = Story(own), Story(own, "q", At(40)), Story(own, "r", At(120))
    # The last owner starts after the storm, although a fault may still hit it.
    simulate(*owners, Story(last, "z", At(30_000)), bad_weather=seed)
    assert set(judged) >= set(positions) != set(), "the last owner has checked nothing"


async def take_turn(
    client: BookKeeper,
    acknowledged: list[Position],
    durable: list[Position],
    positions: list[Position],
) -> None:
    ledger = await opened(client, replace(SMALL, max_entries_per_cursor_ledger=3))
    cursor = await ledger.open_cursor("s", "earliest")
    for number in range(12):
        positions += await stored(ledger, number, number + 1)
        entries = await all_entries(ledger)
        mine = [e.position for e in entries if not cursor.is_acknowledged(e.position)][::2]
        acknowledged += mine
        cursor.acknowledge(mine)
        if number % 2:
            await cursor.flush()
            durable += mine
        await asyncio.sleep(0.004)
    await ledger.close()
