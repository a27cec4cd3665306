"""Tests for a ledger writer with scripted bookies."""

import asyncio
import gc

import pytest

from labkit.system.client.context import ClientConfig
from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.model.entry import (
    MAX_ENTRY_ID,
    DigestType,
    Entry,
    decode_entry,
    encode_entry,
    make_digest,
    make_master_key,
)
from labkit.system.model.errors import (
    BKClientClosedException,
    BKIncorrectParameterException,
    BKMetadataVersionException,
    BKNotEnoughBookiesException,
)
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.model.wire import MAX_FRAME_SIZE, AddBatch, Code, encode_add
from tests.system.client.scripted_bookies import LEDGER, Script
from tests.until import until
from tests.virtual_time import in_virtual_time


def requests(script: Script, place: int) -> list[AddBatch]:
    return [request for request in script.bookies[place].asked if isinstance(request, AddBatch)]


@in_virtual_time
async def test_entries_are_confirmed_in_order_whatever_the_order_of_acks() -> None:
    script = Script(3, 3, 2)
    writer = script.writer()
    confirmed: list[int] = []
    adds = [writer.add(b"x") for _ in range(4)]
    for added in adds:
        added.add_done_callback(lambda done: confirmed.append(done.result()))
    await script.until_asked(4)
    for bookie in script.bookies[:2]:
        bookie.ack(3, 1, 2)
    assert writer.last_add_confirmed == -1
    assert not any(added.done() for added in adds)
    for bookie in script.bookies[1:]:
        bookie.ack(0)
    assert writer.last_add_confirmed == 3
    await asyncio.gather(*adds)
    assert confirmed == [0, 1, 2, 3]


@pytest.mark.promise("An entry carries the LastAddConfirmed of the time when it was sent")
@in_virtual_time
async def test_entry_carries_the_last_add_confirmed_of_the_moment_it_was_pushed() -> None:
    script = Script(1, 1, 1)
    writer = script.writer()
    for number in range(3):
        writer.add(b"xy")
        await script.until_asked(number + 1)
        if number:
            script.bookies[0].ack(number - 1)
    script.bookies[0].ack(2)
    entries = [
        decode_entry(request.entries[0], script.digest, LEDGER, request.entry_ids[0])
        for request in requests(script, 0)
    ]
    assert [(entry.last_add_confirmed, entry.length) for entry in entries] == [
        (-1, 2),
        (-1, 4),
        (0, 6),
    ]


async def push_three_that_fail(*, closes: bool) -> None:
    """Push three entries that fail because the client is closed or the bookie rejects them."""
    script = Script(1, 1, 1)
    writer = script.writer()
    for _ in range(3):
        writer.add(b"x")
    await script.until_asked(3)
    if closes:
        script.client.close()
    else:
        for entry_id in range(3):
            script.bookies[0].reject(entry_id, Code.IO_ERROR)
    await until(lambda: writer.is_ended)


@pytest.mark.parametrize(("closes", "count"), [(False, 1), (True, 0)])
@in_virtual_time
async def test_adds_that_fail_together_and_that_nothing_awaits_are_one_complaint(
    closes: bool, count: int
) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
    await push_three_that_fail(closes=closes)
    gc.collect()
    assert len(complaints) == count


@in_virtual_time
async def test_writer_that_failed_is_not_said_to_have_confirmed() -> None:
    script = Script(1, 1, 1)
    writer = script.writer()
    added = writer.add(b"x")
    await script.until_asked(1)
    script.bookies[0].reject(0, Code.IO_ERROR)
    with pytest.raises(BKNotEnoughBookiesException):
        await writer.all_confirmed()
    with pytest.raises(BKNotEnoughBookiesException):
        await added


@in_virtual_time
async def test_closed_client_fails_adds_and_does_not_connect() -> None:
    script = Script(1, 1, 1)
    writer = script.writer()
    waiting = writer.add(b"x")
    await script.until_asked(1)
    script.client.close()
    with pytest.raises(BKClientClosedException, match="client was closed"):
        await waiting
    other = script.writer()
    with pytest.raises(BKClientClosedException):
        await other.add(b"y")
    assert script.bookies[0].connect_count == 1


@in_virtual_time
async def test_payload_above_the_limit_of_a_frame_is_rejected_and_takes_no_id() -> None:
    script = Script(1, 1, 1)
    writer = script.writer()
    with pytest.raises(BKIncorrectParameterException, match=f"at most {MAX_PAYLOAD_SIZE}"):
        writer.add(bytes(MAX_PAYLOAD_SIZE + 1))
    assert writer.last_add_pushed == -1
    assert writer.length == 0


def test_largest_payload_fits_into_a_frame_with_the_largest_digest() -> None:
    digest = make_digest(DigestType.HMAC, b"password")
    entry = Entry(LEDGER, MAX_ENTRY_ID, -1, 2**63 - 1, bytes(MAX_PAYLOAD_SIZE))
    body = encode_add(make_master_key(b"password"), encode_entry(entry, digest))
    assert LENGTH_SIZE + len(body) <= MAX_FRAME_SIZE


@in_virtual_time
async def test_ledger_closed_by_another_client_at_another_entry_is_an_error() -> None:
    script = Script(1, 1, 1)
    await script.manager.write(LEDGER, script.metadata.closed(5, 50), 0)
    with pytest.raises(BKMetadataVersionException, match=r"at entry 5.* up to -1"):
        await script.writer().close()


@in_virtual_time
async def test_closed_writer_says_of_what_it_had_confirmed_that_it_is() -> None:
    script = Script(1, 1, 1)
    script.all_serve()
    writer = script.writer()
    assert await writer.add(b"x") == 0
    await writer.close()
    await writer.all_confirmed()


@in_virtual_time
async def test_writer_keeps_its_rules_while_its_events_are_not_heard() -> None:
    script = Script(3, 3, 2, spares=1)
    writer = script.writer(script.new_client("quiet", heard=False))
    adds = [writer.add(b"x") for _ in range(2)]
    await script.until_asked(2, 0, 1, 2)
    b1, b2, b3, b4 = script.bookies
    b1.ack(0, 1)
    assert writer.last_add_confirmed == -1
    b2.reject(0, Code.IO_ERROR)
    await until(lambda: b4.adds == [0, 1])
    b4.ack(0)
    assert [added.done() for added in adds] == [True, False]
    b3.ack(1)
    assert await asyncio.gather(*adds) == [0, 1]
    assert script.rows == []


@in_virtual_time
async def test_cancelling_the_future_of_an_add_does_not_cancel_those_who_wait_for_the_writer() -> (
    None
):
    script = Script(1, 1, 1, config=ClientConfig(request_timeout_s=60.0, max_pending_adds=1))
    writer = script.writer()
    writer.add(b"x").cancel()
    await script.until_asked(1)
    waiting = [asyncio.create_task(writer.drain()), asyncio.create_task(writer.all_confirmed())]
    await asyncio.sleep(0.01)
    assert not any(each.done() for each in waiting)
    script.bookies[0].ack(0)
    await asyncio.gather(*waiting)
    assert writer.last_add_confirmed == 0
