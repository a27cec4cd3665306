"""Tests for outages in which all bookies are down but still registered: only a few ledgers are
created, and writing continues afterwards.
"""

import asyncio
from dataclasses import replace
from unittest.mock import patch

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import BKReadException
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.cursors.managed_cursors import ManagedCursors
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.worlds.sim.scenario.faults import PowerCut
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.trace import Trace
from tests.system.topic.simulated import (
    PATH,
    SMALL,
    TOPIC,
    Story,
    append_all,
    opened,
    read_all,
    simulate,
    stored,
    with_cursor,
)

OUTAGE = PowerCut("kept", down_ms=3000, when=At(900))
"""The outage is shorter than the session timeout, so the bookies stay registered throughout."""


def made_during_the_outage(trace: Trace) -> int:
    """Return the number of ledgers that were created during the outage."""
    began, ended = OUTAGE.when.ms, OUTAGE.when.ms + OUTAGE.down_ms  # type: ignore[union-attr]
    return sum(
        event.kind == "ledger.created" and began < event.time_us / 1000 < ended
        for event in trace.events
    )


@pytest.mark.promise(
    "While dead bookies are still registered, few ledgers are created, and nothing is lost"
)
def test_outages_cost_few_ledgers_lose_nothing_and_each_begins_with_short_pauses() -> None:
    async def goes_on_all_the_time(client: BookKeeper) -> None:
        ledger = await opened(client, ManagedLedgerConfig())
        await stored(ledger, 0, 3)
        added = []
        for number in range(3, 240):
            added += await append_all(ledger, [b"%d" % number])
            await asyncio.sleep(0.05)
        positions = [await each for each in added]
        assert positions == sorted(positions)
        assert await read_all(ledger) == list(range(240))
        await ledger.close()

    again = replace(OUTAGE, when=At(7000))
    trace = simulate(Story(goes_on_all_the_time), faults=(OUTAGE, again))
    assert 2 <= made_during_the_outage(trace) <= 8
    delays = [(e.time_us / 1000, e.seconds) for e in trace.events if e.kind == "ledger.delayed"]
    first = [pause_s for time_ms, pause_s in delays if time_ms < 7000]
    second = [pause_s for time_ms, pause_s in delays if time_ms > 7000]
    assert first[:3] == second[:3] == [0.1, 0.2, 0.4]


def test_chain_that_cannot_be_opened_for_its_cursors_leaves_one_empty_ledger_at_most() -> None:
    async def fails_to_open(client: BookKeeper) -> None:
        unreadable = BKReadException("no bookie has the cursor")
        await stored(await opened(client), 0, 3)
        for _ in range(3):
            ledger = ManagedLedger(TOPIC, PATH, client, SMALL)
            with (
                patch.object(ManagedCursors, "take_over", side_effect=unreadable),
                pytest.raises(BKReadException),
            ):
                await ledger.open()
            assert len(await client.list_ledgers()) == 2
        assert await read_all(await opened(client)) == [0, 1, 2]

    simulate(Story(fails_to_open))


def test_cursor_makes_few_ledgers_while_no_bookie_responds_and_is_stored_afterwards() -> None:
    async def acknowledges_all_the_time(client: BookKeeper) -> None:
        ledger, cursor, positions = await with_cursor(
            client, 60, max_entries_per_ledger=100, cursor_persist_interval_ms=10
        )
        await asyncio.sleep(1 - asyncio.get_running_loop().time())
        for position in positions:
            cursor.acknowledge([position])
            await asyncio.sleep(0.05)
        await asyncio.sleep(2)
        await cursor.flush()
        await ledger.close()
        again = await opened(client)
        assert again.cursors["s"].mark_delete == positions[-1]

    trace = simulate(Story(acknowledges_all_the_time), faults=(OUTAGE,))
    assert 2 <= made_during_the_outage(trace) <= 8
