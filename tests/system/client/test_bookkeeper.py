"""Tests for creating, deleting and opening ledgers, with scripted bookies."""

from dataclasses import replace

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.deferred_sync import DeferredSyncWriter
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.entry import DigestType
from labkit.system.model.errors import (
    BKClientClosedException,
    BKIncorrectParameterException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    BKNotEnoughBookiesException,
    BKUnauthorizedAccessException,
)
from labkit.system.model.ledger import LedgerState
from tests.system.client.scripted_bookies import LEDGER, Script


@pytest.mark.parametrize(
    ("deferred_sync", "kind"), [(False, LedgerWriter), (True, DeferredSyncWriter)]
)
async def test_writer_of_a_new_ledger_syncs_late_only_if_that_is_wanted(
    deferred_sync: bool, kind: type[LedgerWriter]
) -> None:
    script = Script(3, 3, 2)
    writer = await script.client.create_ledger(3, 3, 2, deferred_sync=deferred_sync)
    assert type(writer) is kind
    [created] = [row for row in script.rows if row.kind == "ledger.created"]
    assert (created.ledger, created.deferred_sync) == (writer.ledger_id, deferred_sync)
    assert (created.ensemble_size, created.write_quorum, created.ack_quorum) == (3, 3, 2)


async def test_new_ledger_is_in_the_store_with_all_that_was_asked_for() -> None:
    script = Script(3, 3, 2)
    writer = await script.client.create_ledger(
        3,
        2,
        1,
        digest_type=DigestType.HMAC,
        password=b"secret",
        custom_metadata=(("application", b"test"),),
    )
    metadata = await script.client.ledger_metadata(writer.ledger_id)
    assert metadata == writer.metadata
    sizes = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
    assert sizes == (3, 2, 1)
    assert (metadata.digest_type, metadata.password) == (DigestType.HMAC, b"secret")
    assert metadata.custom_metadata == (("application", b"test"),)
    assert writer.ledger_id in await script.client.list_ledgers()


async def test_ledger_that_cannot_be_made_uses_up_no_id() -> None:
    script = Script(3, 3, 2)
    with pytest.raises(BKNotEnoughBookiesException):
        await script.client.create_ledger(4, 3, 2)
    with pytest.raises(BKIncorrectParameterException):
        await script.client.create_ledger(3, 2, 3)
    first = (await script.client.create_ledger(3, 3, 2)).ledger_id
    assert (await script.client.create_ledger(3, 3, 2)).ledger_id == first + 1


async def test_id_that_a_client_chose_for_its_ledger_is_passed_over() -> None:
    script = Script(3, 3, 2)
    drawn = (await script.client.create_ledger(3, 3, 2)).ledger_id
    chosen = replace(script.metadata, password=b"another's")
    await script.manager.create(drawn + 1, chosen)
    assert (await script.client.create_ledger(3, 3, 2)).ledger_id == drawn + 2
    assert await script.client.ledger_metadata(drawn + 1) == chosen


async def test_deleted_ledger_is_gone_and_that_is_reported() -> None:
    script = Script(3, 3, 2)
    await script.client.delete_ledger(LEDGER)
    assert [row.ledger for row in script.rows if row.kind == "ledger.deleted"] == [LEDGER]
    assert LEDGER not in await script.client.list_ledgers()
    with pytest.raises(BKNoSuchLedgerExistsOnMetadataServerException):
        await script.client.delete_ledger(LEDGER)
    assert [row.ledger for row in script.rows if row.kind == "ledger.deleted"] == [LEDGER]


async def test_reader_without_recovery_needs_the_password_and_leaves_the_ledger_open() -> None:
    script = Script(3, 3, 2)
    script.all_serve()
    await script.manager.write(LEDGER, replace(script.metadata, password=b"secret"), 0)
    opened = script.client.open_ledger_no_recovery
    with pytest.raises(BKUnauthorizedAccessException, match="wrong password for ledger"):
        await opened(LEDGER, password=b"wrong")
    reader = await opened(LEDGER, password=b"secret")
    assert not reader.is_closed
    assert not any(bookie.fenced for bookie in script.bookies)


async def test_client_works_with_the_usual_settings_and_the_clock_that_it_is_given() -> None:
    script = Script(1, 1, 1)
    recorder, network = script.client.recorder, script.network
    client = BookKeeper(
        script.store, network, recorder, lambda names, n: names[:n], lambda: 1, lambda: 1234
    )
    assert client.context.config == ClientConfig()
    assert client.wall_clock_ms() == 1234
    assert await client.writable_bookies() == ["b1"]


async def test_closing_the_client_ends_its_writers_and_leaves_their_ledgers_open() -> None:
    script = Script(1, 1, 1)
    writer = await script.client.create_ledger(1, 1, 1)
    script.client.close()
    with pytest.raises(BKClientClosedException, match="client was closed"):
        writer.add(b"x")
    metadata = await script.client.ledger_metadata(writer.ledger_id)
    assert metadata.state is LedgerState.OPEN
