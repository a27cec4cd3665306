"""Test that a writer ignores acknowledgements of a bookie that may have forgotten a fence."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import (
    BKClientClosedException,
    BKLedgerFencedException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.model.wire import Code
from tests.system.client.scripted_bookies import LEDGER, Script
from tests.until import until
from tests.virtual_time import in_virtual_time


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every connection as if it had been made long after the ledger was created."""
    monkeypatch.setattr("labkit.system.client.fence_check._TOO_SHORT_FOR_A_RESTART_S", 0.0)
    monkeypatch.setattr("labkit.system.client.fence_check._RETRY_S", 0.0)
    monkeypatch.setattr(
        "labkit.system.client.protocol.per_channel_bookie_client._RETRY_AFTER_S", 0.0
    )


def reads_of(script: Script) -> list[str]:
    """Return a list to which all further reads of the ledger's metadata and syncs are appended."""
    asked: list[str] = []
    store = script.store
    get, sync = store.get, store.sync

    async def noted_get(path: str, *rest: object) -> object:
        if path.endswith("L0007"):
            asked.append("get")
        return await get(path, *rest)  # type: ignore[arg-type]

    async def noted_sync() -> None:
        asked.append("sync")
        await sync()

    store.get, store.sync = noted_get, noted_sync  # type: ignore[method-assign, assignment]
    return asked


async def store_state(script: Script, state: LedgerState) -> None:
    metadata, version = await script.manager.read(LEDGER)
    ended = metadata.closed(-1, 0) if state is LedgerState.CLOSED else in_recovery(metadata)
    await script.manager.write(LEDGER, ended, version)


def in_recovery(metadata: LedgerMetadata) -> LedgerMetadata:
    return replace(metadata, state=LedgerState.IN_RECOVERY)


async def test_new_connections_need_one_read_behind_a_sync_and_adds_need_none() -> None:
    script = Script(3, 3, 2)
    script.all_serve()
    asked = reads_of(script)
    writer = script.writer()
    assert await writer.add(b"first") == 0
    assert asked[:2] == ["sync", "get"]
    await until(lambda: all(writer.fence_check.passed(bookie) for bookie in writer.channels))
    before = len(asked)
    for number in range(1, 50):
        assert await writer.add(b"more") == number
    assert len(asked) == before


async def test_an_acknowledgement_waits_for_the_metadata() -> None:
    script = Script(1, 1, 1)
    script.all_serve()
    answer = asyncio.Event()
    get = script.store.get

    async def late_get(path: str, *rest: object) -> object:
        if path.endswith("L0007"):
            await answer.wait()
        return await get(path, *rest)  # type: ignore[arg-type]

    script.store.get = late_get  # type: ignore[method-assign, assignment]
    writer = script.writer()
    added = writer.add(b"x")
    await until(lambda: any(row.kind == "add.acked" for row in script.rows))
    assert writer.last_add_confirmed == -1
    answer.set()
    assert await added == 0


@pytest.mark.parametrize("state", [LedgerState.IN_RECOVERY, LedgerState.CLOSED])
async def test_a_ledger_that_is_no_longer_open_ends_its_writer(state: LedgerState) -> None:
    script = Script(3, 3, 2)
    script.all_serve()
    writer = script.writer()
    await store_state(script, state)
    with pytest.raises(BKLedgerFencedException):
        await writer.add(b"x")
    assert writer.last_add_confirmed == -1
    with pytest.raises(BKLedgerFencedException):
        writer.add(b"y")


async def test_a_ledger_that_is_deleted_ends_its_writer() -> None:
    script = Script(1, 1, 1)
    script.all_serve()
    writer = script.writer()
    await script.manager.delete(LEDGER)
    with pytest.raises(BKNoSuchLedgerExistsOnMetadataServerException):
        await writer.add(b"x")


async def test_a_bookie_that_came_back_is_not_trusted_before_the_metadata_are_read_again() -> None:
    script = Script(1, 1, 1)
    script.all_serve()
    [bookie] = script.bookies
    writer = script.writer()
    await writer.add(b"before")
    await store_state(script, LedgerState.CLOSED)
    bookie.drop()
    # The bookie was emptied, so it has neither the entry nor the fence.
    bookie.entries.clear()
    with pytest.raises(BKLedgerFencedException):
        await writer.add(b"after")
    assert list(bookie.entries) == [1]
    assert writer.last_add_confirmed == 0


async def test_a_store_that_does_not_respond_is_asked_again() -> None:
    script = Script(1, 1, 1)
    script.all_serve()
    failures = 3
    sync = script.store.sync

    async def failing_sync() -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise MetadataUnavailableError("the metadata store is not responding")
        await sync()

    script.store.sync = failing_sync  # type: ignore[method-assign]
    writer = script.writer()
    assert await writer.add(b"x") == 0
    assert failures == -1


async def test_an_ensemble_change_shows_that_the_ledger_is_open() -> None:
    script = Script(2, 2, 2, spares=1)
    b1, b2, b3 = script.bookies
    writer = script.writer()
    added = writer.add(b"x")
    await script.until_asked(1, 0, 1)
    b1.reject(0, Code.IO_ERROR)
    await until(lambda: b3.adds == [0])
    b2.ack(0)
    b3.ack(0)
    assert await added == 0
    assert writer.fence_check.passed(writer.channels[1])


async def created(script: Script) -> LedgerWriter:
    """Create the ledger that the scripted bookies serve, instead of finding it in the store."""
    await script.manager.delete(LEDGER)

    async def only_id() -> int:
        return LEDGER

    script.client.context.manager.new_ledger_id = only_id  # type: ignore[method-assign]
    return await script.client.create_ledger(1, 1, 1)


@in_virtual_time
async def test_a_ledger_that_was_closed_before_its_creator_got_the_response_takes_no_add() -> None:
    script = Script(1, 1, 1)
    script.all_serve()
    create = script.store.create

    async def slow_create(path: str, *rest: Any, **options: Any) -> str:
        name = await create(path, *rest, **options)
        await store_state(script, LedgerState.CLOSED)
        await asyncio.sleep(1.0)
        return name

    script.store.create = slow_create  # type: ignore[method-assign]
    writer = await created(script)
    with pytest.raises(BKLedgerFencedException):
        await writer.add(b"x")


async def test_an_acknowledgement_that_waits_for_the_metadata_fails_when_the_client_is_closed() -> (
    None
):
    script = Script(1, 1, 1)
    script.all_serve()

    async def unavailable() -> None:
        raise MetadataUnavailableError("the metadata store is not responding")

    script.store.sync = unavailable  # type: ignore[method-assign]
    writer = await created(script)
    added = writer.add(b"x")
    await until(lambda: any(row.kind == "add.acked" for row in script.rows))
    script.client.close()
    assert isinstance(added.exception(), BKClientClosedException)
