"""Test how long a writer waits for acknowledgements, and how often it changes its ensemble."""

import asyncio

import pytest

from labkit.system.client.context import ClientConfig
from labkit.system.client.quorum_timeout import QuorumTimeoutMonitor
from labkit.system.model.errors import (
    BKAddEntryQuorumTimeoutException,
    BKWriteException,
)
from labkit.system.model.ledger import LedgerState
from labkit.system.model.wire import Code
from tests.system.client.recovering import end, payloads, recovered
from tests.system.client.scripted_bookies import Script, pushed
from tests.until import DEADLINE_S, until
from tests.virtual_time import in_virtual_time

HASTY = ClientConfig(request_timeout_s=60.0, add_entry_quorum_timeout_s=0.05)
ONE_CHANGE = ClientConfig(request_timeout_s=60.0, max_allowed_ensemble_changes=1)


@pytest.mark.promise(
    "A writer fails if an add lacks Qa acknowledgements after `addEntryQuorumTimeoutSec`, or "
    "after more than `maxNumEnsembleChanges` ensemble changes; recovery has neither limit"
)
@in_virtual_time
async def test_add_without_its_acknowledgements_in_time_ends_the_writer() -> None:
    script = Script(3, 3, 2, config=HASTY)
    writer, adds = await pushed(script, 2)
    QuorumTimeoutMonitor(writer, HASTY).start()
    script.bookies[0].ack(0, 1)
    script.bookies[1].ack(0)
    assert await adds[0] == 0
    with pytest.raises(BKAddEntryQuorumTimeoutException) as late:
        await adds[1]
    assert "entry 1 has 1 of 2 acknowledgements after 0.05 s; check b1, b2, b3" in str(late.value)
    assert writer.is_ended
    with pytest.raises(BKAddEntryQuorumTimeoutException):
        writer.add(b"three")
    await writer.close()
    assert (writer.metadata.state, writer.metadata.last_entry_id) == (LedgerState.CLOSED, 0)


@in_virtual_time
async def test_every_writer_of_the_client_has_the_timeout() -> None:
    script = Script(1, 1, 1, config=HASTY)
    writer = await script.client.create_ledger(1, 1, 1)
    with pytest.raises(BKAddEntryQuorumTimeoutException, match="entry 0 has 0 of 1"):
        await writer.add(b"")


@in_virtual_time
async def test_add_that_has_its_acknowledgements_is_not_late_while_the_ensemble_changes() -> None:
    script = Script(3, 3, 2, spares=1, config=HASTY)
    writer, [added] = await pushed(script, 1)
    QuorumTimeoutMonitor(writer, HASTY).start()
    stored = asyncio.Event()
    script.store.before_next_set = stored.wait
    script.bookies[2].reject(0, Code.IO_ERROR)
    script.bookies[0].ack(0)
    script.bookies[1].ack(0)
    await asyncio.sleep(4 * HASTY.add_entry_quorum_timeout_s)
    assert not writer.is_ended
    assert not added.done()
    stored.set()
    assert await added == 0


@in_virtual_time
async def test_add_is_late_only_when_its_own_time_is_up() -> None:
    """An add's timeout starts when the add is pushed. Without a pending add, nothing times out."""
    script = Script(1, 1, 1, config=HASTY)
    script.all_serve()
    writer = script.writer()
    QuorumTimeoutMonitor(writer, HASTY).start()
    for entry_id in range(3):
        await asyncio.sleep(2 * HASTY.add_entry_quorum_timeout_s)
        assert await writer.add(b"") == entry_id
    await asyncio.sleep(2 * HASTY.add_entry_quorum_timeout_s)
    script.bookies[0].serves = False
    added = writer.add(b"")
    await asyncio.sleep(0.4 * HASTY.add_entry_quorum_timeout_s)
    assert not writer.is_ended
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(BKAddEntryQuorumTimeoutException):
            await added


@pytest.mark.parametrize("off", [0.0, -1.0])
@in_virtual_time
async def test_without_a_timeout_a_writer_waits_as_long_as_its_bookies(off: float) -> None:
    config = ClientConfig(request_timeout_s=60.0, add_entry_quorum_timeout_s=off)
    script = Script(1, 1, 1, config=config)
    writer = await script.client.create_ledger(1, 1, 1)
    added = writer.add(b"")
    await script.until_asked(1)
    await asyncio.sleep(0.1)
    assert not added.done()
    assert not writer.is_ended
    writer.end(BKWriteException("the test is over"))
    assert isinstance(added.exception(), BKWriteException)


@in_virtual_time
async def test_writer_that_needs_more_ensemble_changes_than_allowed_ends() -> None:
    script = Script(2, 2, 2, spares=2, config=ONE_CHANGE)
    writer, adds = await pushed(script, 2)
    script.bookies[1].reject(0, Code.IO_ERROR)
    await until(lambda: script.bookies[2].adds == [0, 1])
    for bookie in script.bookies[0], script.bookies[2]:
        bookie.ack(0)
    assert await adds[0] == 0
    script.bookies[2].reject(1, Code.IO_ERROR)
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(
            BKWriteException,
            match="changed 1 times, and bookkeeper_maxNumEnsembleChanges allows no more",
        ):
            await adds[1]
    assert await script.segments() == [(0, "b1 b3")]
    assert script.bookies[3].asked == []
    await writer.close()
    assert end(await script.stored_metadata()) == (LedgerState.CLOSED, 0, 7)


@in_virtual_time
async def test_change_that_another_client_prevented_does_not_count() -> None:
    script = Script(2, 2, 2, spares=1, config=ONE_CHANGE)
    _, [added] = await pushed(script, 1)

    async def custom_metadata_change() -> None:
        metadata, version = await script.manager.read(7)
        await script.manager.write(7, metadata, version)

    script.store.before_next_set = custom_metadata_change
    script.bookies[1].reject(0, Code.IO_ERROR)
    await until(lambda: script.bookies[2].adds == [0])
    script.bookies[0].ack(0)
    script.bookies[2].ack(0)
    assert await added == 0


@in_virtual_time
async def test_recovery_replaces_as_many_bookies_as_it_needs() -> None:
    config = ClientConfig(60.0, max_allowed_ensemble_changes=0, add_entry_quorum_timeout_s=0.001)
    script = Script(3, 3, 2, spares=1, config=config)
    script.all_serve()
    script.put(0, -1, 0)
    script.bookies[2].die()
    reader = await recovered(script)
    assert await payloads(reader) == [b"entry 0000"]
    assert await script.segments() == [(0, "b1 b2 b4")]
