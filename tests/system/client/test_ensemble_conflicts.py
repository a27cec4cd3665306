"""Tests for ensemble changes while other clients change the metadata or the metadata store is
unavailable.
"""

import asyncio
from dataclasses import replace

import pytest

from labkit.system.client.ensemble import with_ensemble
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import (
    BKLedgerClosedException,
    BKLedgerFencedException,
)
from labkit.system.model.ledger import LedgerState, Segment
from tests.system.client.scripted_bookies import LEDGER, Script, pushed
from tests.until import until


@pytest.mark.promise(
    "An ensemble change is a compare-and-set, so it respects a concurrent recovery, close or "
    "other change"
)
async def test_change_by_another_client_is_kept() -> None:
    script = Script(3, 3, 2, spares=2)
    _, [added] = await pushed(script, 1)

    async def another_client_writes() -> None:
        tagged = replace(script.metadata, custom_metadata=(("tag", b"x"),))
        await script.manager.write(LEDGER, tagged, 0)

    script.store.before_next_set = another_client_writes
    script.bookies[2].drop()
    await until(lambda: script.bookies[3].adds == [0])
    metadata = await script.stored_metadata()
    assert metadata.segments == (Segment(0, ("b1", "b2", "b4")),)
    assert metadata.custom_metadata == (("tag", b"x"),)
    assert not added.done()


async def test_place_that_another_client_has_filled_is_taken_over() -> None:
    script = Script(3, 3, 2, spares=2)
    await pushed(script, 1)

    async def another_client_replaces() -> None:
        other = with_ensemble(script.metadata, 0, ("b1", "b2", "b5"))
        await script.manager.write(LEDGER, other, 0)

    script.store.before_next_set = another_client_replaces
    script.bookies[2].drop()
    await until(lambda: script.bookies[4].adds == [0])
    assert script.bookies[3].adds == []


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (LedgerState.IN_RECOVERY, BKLedgerFencedException),
        (LedgerState.CLOSED, BKLedgerClosedException),
    ],
)
async def test_change_of_a_ledger_in_recovery_or_closed_ends_the_writer(
    other: LedgerState, error: type[Exception]
) -> None:
    script = Script(3, 3, 2, spares=1)
    writer, [added] = await pushed(script, 1)

    async def somebody_recovers() -> None:
        await script.manager.write(LEDGER, replace(script.metadata, state=other), 0)

    script.store.before_next_set = somebody_recovers
    script.bookies[2].drop()
    with pytest.raises(error):
        await added
    with pytest.raises(error):
        writer.add(b"late")
    assert await script.segments() == [(0, "b1 b2 b3")]
    assert script.bookies[3].asked == []


async def test_change_with_an_unknown_outcome_ends_the_writer() -> None:
    script = Script(3, 3, 2, spares=1)
    _, [added] = await pushed(script, 1)
    script.store.fail_next_set = MetadataUnavailableError("no answer")
    script.bookies[2].drop()
    for bookie in script.bookies[:2]:
        bookie.ack(0)
    with pytest.raises(MetadataUnavailableError):
        await added


async def test_writer_goes_on_without_metadata_while_the_quorum_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(3, 3, 2, spares=1)
    _, [added] = await pushed(script, 1)

    async def unavailable(path: str, on_change: object = None) -> list[str]:
        raise MetadataUnavailableError(path)

    monkeypatch.setattr(script.store, "children", unavailable)
    script.bookies[2].drop()
    for bookie in script.bookies[:2]:
        bookie.ack(0)
    assert await added == 0


async def test_close_during_a_change_closes_behind_what_is_confirmed() -> None:
    script = Script(3, 3, 2, spares=1)
    writer, adds = await pushed(script, 2)
    for bookie in script.bookies[:2]:
        bookie.ack(0)
    closing: list[asyncio.Task[None]] = []

    async def close() -> None:
        closing.append(asyncio.create_task(writer.close()))
        await asyncio.sleep(0)

    script.store.before_next_set = close
    script.bookies[2].drop()
    await until(lambda: closing)
    await closing[0]
    metadata = await script.stored_metadata()
    assert (metadata.state, metadata.last_entry_id) == (LedgerState.CLOSED, 0)
    assert isinstance(adds[1].exception(), BKLedgerClosedException)
    assert script.bookies[3].asked == []
