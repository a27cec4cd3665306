"""Tests for fencing and recovery, with bookies whose entries the test sets.

Unless stated otherwise, E = Qw = 3 and Qa = 2, and each entry has 10 bytes of payload.
"""

import asyncio
from dataclasses import replace

import pytest

from labkit.system.client.ensemble import with_ensemble
from labkit.system.client.quorum import Verdict, judge
from labkit.system.client.recovery import LedgerRecovery
from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.model.entry import Entry, decode_entry
from labkit.system.model.errors import (
    BKException,
    BKLedgerFencedException,
    BKLedgerRecoveryException,
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    BKReadException,
    BKUnauthorizedAccessException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from labkit.system.model.wire import AddBatch, Flag, ReadRequest
from tests.system.client.recovering import end, numbered, payloads, recovered, serving
from tests.system.client.scripted_bookies import LEDGER, Script
from tests.until import until

FENCE_FIRST = Flag.FENCE | Flag.HIGH_PRIORITY


# The end of the ledger


async def test_empty_ledger_is_closed_without_entries() -> None:
    script = serving()
    reader = await recovered(script)
    assert end(reader.metadata) == (LedgerState.CLOSED, -1, 0)
    assert all(bookie.fenced for bookie in script.bookies)


@pytest.mark.promise(
    "Recovery keeps every acknowledged entry and writes it back to its whole write set"
)
async def test_acknowledged_entries_and_those_found_behind_them_are_kept() -> None:
    script = serving()
    script.put(0, -1, 0, 1, 2)
    script.put(1, 0, 1, 2)
    script.put(2, 1, 0, 2)
    script.put(3, 2, 1)
    reader = await recovered(script)
    assert end(reader.metadata) == (LedgerState.CLOSED, 3, 40)
    assert await payloads(reader) == numbered(4)


async def test_what_is_found_once_is_written_back_to_its_whole_write_set() -> None:
    script = serving()
    script.put(0, -1, 1)
    await recovered(script)
    await until(lambda: all(0 in bookie.entries for bookie in script.bookies))
    adds = [r for bookie in script.bookies for r in bookie.asked if isinstance(r, AddBatch)]
    assert [add.flags for add in adds] == [Flag.RECOVERY_ADD | Flag.HIGH_PRIORITY] * 3
    entry = decode_entry(script.bookies[2].entries[0], script.digest, LEDGER, 0)
    assert (entry.payload, entry.length, entry.last_add_confirmed) == (b"entry 0000", 10, -1)


async def test_entries_that_were_confirmed_before_are_not_written_again() -> None:
    script = serving()
    for entry_id in range(5):
        script.put(entry_id, entry_id - 1, 0, 1, 2)
    await recovered(script)
    assert [sorted(set(bookie.adds)) for bookie in script.bookies] == [[4]] * 3


async def test_length_is_that_of_the_last_entry_when_nothing_is_found_behind_it() -> None:
    script = serving()
    for entry_id in range(3):
        script.put(entry_id, entry_id - 1, 0, 1, 2)
    script.metadata = replace(
        script.metadata, segments=(*script.metadata.segments, Segment(3, ("b3", "b2", "b1")))
    )
    await script.manager.write(LEDGER, script.metadata, 0)
    reader = await recovered(script)
    assert end(reader.metadata) == (LedgerState.CLOSED, 2, 30)


async def test_entries_in_front_of_the_last_segment_are_confirmed_whatever_its_bookies_know() -> (
    None
):
    script = serving(spares=3)
    for entry_id in range(5):
        script.put(entry_id, entry_id - 1, 0, 1, 2)
    changed = with_ensemble(script.metadata, 5, ("b4", "b5", "b6"))
    await script.manager.write(LEDGER, changed, 0)
    reader = await recovered(script)
    assert end(reader.metadata)[:2] == (LedgerState.CLOSED, 4)
    assert [entry for _, entry, _ in script.recorded("recovery.covered")] == [4]
    assert [bookie.adds for bookie in script.bookies] == [[]] * 6


async def test_length_is_0_where_no_bookie_can_tell_it() -> None:
    script = serving(spares=3)
    for entry_id in range(5):
        script.put(entry_id, entry_id - 1, 0, 1, 2)
    for bookie in script.bookies[:3]:
        bookie.unreadable = [4]
    changed = with_ensemble(script.metadata, 5, ("b4", "b5", "b6"))
    await script.manager.write(LEDGER, changed, 0)
    reader = await recovered(script)
    assert end(reader.metadata) == (LedgerState.CLOSED, 4, 0)


async def test_entries_written_back_carry_what_was_confirmed_before() -> None:
    """Another recovery may close the ledger before these entries, so no reader may have
    read them.
    """
    script = serving()
    for entry_id in range(6):
        script.put(entry_id, -1, 0, 1)
    reader = await recovered(script)
    assert end(reader.metadata)[:2] == (LedgerState.CLOSED, 5)
    copies = script.bookies[2].entries
    assert [
        decode_entry(copies[n], script.digest, LEDGER, n).last_add_confirmed for n in range(6)
    ] == [-1] * 6


async def test_an_entry_of_another_client_may_be_larger_than_labkit_allows() -> None:
    script = serving()
    payload = bytes(MAX_PAYLOAD_SIZE + 1)
    for bookie in script.bookies:
        bookie.entries[0] = script.stored(0, payload)
    reader = await recovered(script)
    assert end(reader.metadata) == (LedgerState.CLOSED, 0, len(payload))


async def test_closed_ledger_is_opened_without_a_word_to_any_bookie() -> None:
    script = serving()
    await script.manager.write(LEDGER, script.metadata.closed(4, 50), 0)
    reader = await recovered(script)
    assert end(reader.metadata) == (LedgerState.CLOSED, 4, 50)
    assert not any(bookie.asked for bookie in script.bookies)
    assert script.recorded("recovery.started") == []


async def test_wrong_password_recovers_nothing() -> None:
    script = serving()
    with pytest.raises(BKUnauthorizedAccessException):
        await script.client.open_ledger(LEDGER, password=b"wrong")
    assert (await script.stored_metadata()).state is LedgerState.OPEN


async def test_recovery_of_a_ledger_that_was_deleted_meanwhile_says_that_there_is_none() -> None:
    script = serving()
    await script.manager.delete(LEDGER)
    recovery = LedgerRecovery(LEDGER, script.metadata, 0, script.client.context)
    with pytest.raises(BKNoSuchLedgerExistsOnMetadataServerException):
        await recovery.run()
    assert script.recorded("recovery.failed") == [("recovery.failed", -1, "")]


# What responses prove


NO = [BKNoSuchEntryException(""), BKNoSuchLedgerExistsException("")]
SILENT = BKReadException("")
FOUND = Entry(LEDGER, 0, -1, 0, b"")


@pytest.mark.promise('Only "no such entry" proves that an entry was never acknowledged')
@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([], Verdict.UNKNOWN),
        ([NO[0]], Verdict.UNKNOWN),
        ([NO[0], NO[1]], Verdict.NEVER_ACKNOWLEDGED),
        ([NO[0], SILENT, SILENT], Verdict.UNKNOWN),
        ([SILENT, SILENT, SILENT], Verdict.UNKNOWN),
        ([SILENT, SILENT, FOUND], Verdict.FOUND),
        ([NO[0], FOUND], Verdict.FOUND),
        ([NO[0], SILENT, NO[0]], Verdict.NEVER_ACKNOWLEDGED),
    ],
)
def test_entry_is_lost_only_if_too_few_are_left_to_have_acknowledged_it(
    answers: list[Entry | BKException], verdict: Verdict
) -> None:
    assert judge(answers, write_quorum=3, ack_quorum=2) is verdict


async def test_entry_that_cannot_be_read_is_not_taken_for_the_end() -> None:
    script = serving()
    script.put(0, -1, 0, 1, 2)
    script.put(1, 0, 0, 1)
    script.bookies[0].unreadable = [1]
    script.bookies[1].unreadable = [1]
    # b3 denied having the entry, so it need not be repaired.
    advice = (
        r"it is unknown whether entry 1 was stored; no valid response from b2, b1 \(b2 .*\);"
        " start or repair these bookies, and open the ledger again"
    )
    with pytest.raises(BKLedgerRecoveryException, match=advice):
        await script.client.open_ledger(LEDGER)
    assert (await script.stored_metadata()).state is LedgerState.IN_RECOVERY
    script.bookies[1].unreadable = []
    assert await payloads(await recovered(script)) == numbered(2)


async def test_recovery_fails_while_too_few_bookies_can_be_fenced() -> None:
    script = serving()
    script.put(0, -1, 0, 1, 2)
    for bookie in script.bookies[1:]:
        bookie.die()
    with pytest.raises(BKLedgerRecoveryException, match="no valid response from b2, b3"):
        await script.client.open_ledger(LEDGER)
    assert (await script.stored_metadata()).state is LedgerState.IN_RECOVERY
    assert ("fence.failed", -1, "b2") in script.recorded("fence.failed")
    for bookie in script.bookies[1:]:
        bookie.is_up = True
    other = script.new_client("another")
    assert end((await recovered(script, other)).metadata) == (LedgerState.CLOSED, 0, 10)


# Fencing


async def test_all_recovery_reads_fence_with_high_priority() -> None:
    script = serving()
    await recovered(script)
    reads = [
        (r.entry_id, r.flags)
        for bookie in script.bookies
        for r in bookie.asked
        if isinstance(r, ReadRequest)
    ]
    assert sorted(set(reads)) == [(-1, Flag.FENCE), (0, FENCE_FIRST)]


async def late_add(script: Script) -> tuple[asyncio.Future[int], LedgerMetadata]:
    """Let entry 0 reach b2, and let it reach b3 only after a recovery that did not see b2's copy
    and whose initial fencing request did not reach b3.
    """
    b1, b2, b3 = script.bookies
    writer = script.writer()
    b1.serves = b3.serves = False
    added = writer.add(b"entry 0000")
    await until(lambda: b2.entries and b3.asked)
    [on_its_way] = b3.asked
    b1.serves = True
    kept, b2.entries = b2.entries, {}  # hide b2's copy from the recovery
    b2.serves = False
    recovering = asyncio.create_task(script.new_client("another").open_ledger(LEDGER))
    await until(lambda: b2.reads == [-1])
    b2.serves = True
    b2.serve(b2.connections[-1], b2.asked[-1])
    b2.serves = False
    await until(lambda: 0 in b3.reads)
    b3.serves = True
    b3.serve(b3.connections[-1], b3.asked[-1])
    reader = await recovering
    b2.entries = kept
    b3.serve(b3.connections[0], on_its_way)
    return added, reader.metadata


async def test_late_add_to_a_bookie_that_the_first_fence_missed_is_rejected() -> None:
    added, metadata = await late_add(serving())
    assert metadata.last_entry_id == -1
    with pytest.raises(BKLedgerFencedException):
        await added


async def test_without_fencing_reads_that_late_add_is_acknowledged_and_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LedgerRecovery, "fence_key_of_reads", lambda self: b"")
    added, metadata = await late_add(serving())
    assert metadata.last_entry_id == -1
    assert await added == 0
