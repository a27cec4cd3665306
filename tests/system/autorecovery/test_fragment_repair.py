"""Tests for the steps of a fragment's repair, with bookies that respond only on command."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.fragment_copy import (
    EntryUnreadableException,
    RateLimit,
    copy_fragment,
)
from labkit.system.autorecovery.fragments import Fragment, UnderreplicatedFragment
from labkit.system.autorecovery.ledger_view import LedgerView, missing_copies
from labkit.system.autorecovery.replicator import (
    LedgerFragmentReplicator,
)
from labkit.system.client.reads import BookieReads
from labkit.system.model.entry import decode_entry
from labkit.system.model.errors import (
    BKNoSuchEntryException,
    BKNotEnoughBookiesException,
    BKWriteException,
    LabkitError,
)
from labkit.system.model.wire import BatchReadRequest, Code, Opcode
from tests.system.client.scripted_bookies import LEDGER, Script
from tests.until import until

CLOSED = Fragment(0, 4, ("b1", "b2", "b3"), 3, closed=True)


class Repair:
    """Ledger 7 with five entries on b1 and b3 that b2 has lost; b4 and b5 are spare bookies."""

    def __init__(self, spares: int = 2, *, striped: bool = False, **config: Any) -> None:
        self.script = Script(3, 3, 2, spares=spares)
        self.script.all_serve()
        for entry_id in range(5):
            self.script.put(entry_id, entry_id - 1, 0, 2)
        self.config = AutoRecoveryConfig(**config)
        # Entries of striped ledgers are read one by one, and entries of other ledgers in batches.
        metadata = (
            replace(self.script.metadata, write_quorum=2) if striped else self.script.metadata
        )
        self.ledger = LedgerView(LEDGER, metadata, 4)
        self.replicator = LedgerFragmentReplicator(self.script.client.context, self.config)

    def short(self, *places: int, fragment: Fragment = CLOSED) -> UnderreplicatedFragment:
        return UnderreplicatedFragment(fragment, places)

    async def replicate(self, *places: int) -> None:
        await self.replicator.replicate(self.ledger, self.short(*places))

    def copy(
        self, short: UnderreplicatedFragment, targets: dict[int, str]
    ) -> Coroutine[None, None, None]:
        context = self.script.client.context
        config = self.config
        rate = RateLimit(config.replication_rate_by_bytes)
        window_size = config.rereplication_entry_batch_size
        return copy_fragment(self.ledger, short, targets, context, rate, window_size)

    def recorded(self, *kinds: str) -> list[tuple[str, int, str, str]]:
        return [
            (row.kind, row.entry, row.peer, row.error or ",".join(row.ensemble or row.bookies))
            for row in self.script.rows
            if row.kind in kinds
        ]

    def entries(self, place: int) -> list[int]:
        return sorted(self.script.bookies[place].entries)

    async def unregister(self, *names: str) -> None:
        for name in names:
            await self.script.store.delete(f"/ledgers/available/{name}")


# Steps of a repair


async def test_repair_copies_then_changes_the_metadata_and_records_each_step() -> None:
    repair = Repair()
    await repair.unregister("b2")
    await repair.replicate(1)
    assert repair.entries(3) == [0, 1, 2, 3, 4]
    assert await repair.script.segments() == [(0, "b1 b4 b3")]
    steps = repair.recorded("add.sent", "entry.copied", "ensemble.set", "fragment.replicated")
    for kind in ("add.sent", "entry.copied"):
        told = sorted(step for step in steps if step[0] == kind)
        assert told == [(kind, entry_id, "b4", "") for entry_id in range(5)]
    assert steps[-2:] == [
        ("ensemble.set", 0, "", "b1,b4,b3"),
        ("fragment.replicated", 0, "", "b4"),
    ]


async def test_a_registered_bookie_gets_its_copies_back_if_there_is_no_spare_bookie() -> None:
    repair = Repair(spares=0)
    await repair.replicate(1)
    assert repair.entries(1) == [0, 1, 2, 3, 4]
    assert await repair.script.segments() == [(0, "b1 b2 b3")]
    # The metadata already lists b2.
    assert repair.recorded("ensemble.set", "fragment.replicated") == [
        ("fragment.replicated", 0, "", "b2")
    ]


async def test_a_registered_bookie_with_missing_copies_is_replaced_by_a_spare_one() -> None:
    repair = Repair(spares=1)
    await repair.replicate(1)
    assert (repair.entries(1), repair.entries(3)) == ([], [0, 1, 2, 3, 4])
    assert await repair.script.segments() == [(0, "b1 b4 b3")]


async def test_unregistered_bookies_are_replaced_first_and_the_error_names_the_others() -> None:
    repair = Repair(spares=1)
    await repair.unregister("b1", "b2")
    with pytest.raises(BKNotEnoughBookiesException, match="to replace the copies of b2"):
        await repair.replicate(0, 1)
    assert await repair.script.segments() == [(0, "b4 b2 b3")]
    assert repair.recorded("fragment.replicated") == [("fragment.replicated", 0, "", "b4")]


async def test_new_bookies_are_published_even_if_restoring_other_copies_fails() -> None:
    repair = Repair(spares=1)
    await repair.unregister("b1")
    # b2 has lost its copies and does not respond to reads.
    repair.script.bookies[1].serves = False
    replicating = asyncio.ensure_future(repair.replicate(0, 1))
    await until(lambda: repair.script.bookies[1].adds == [0, 1, 2])
    assert await repair.script.segments() == [(0, "b4 b2 b3")]
    repair.script.bookies[1].reject(0, Code.IO_ERROR)
    with pytest.raises(LabkitError):
        await replicating


async def test_a_conflicting_change_of_the_metadata_is_retried() -> None:
    repair = Repair()
    await repair.unregister("b2")
    store = repair.script.store

    async def meanwhile() -> None:
        metadata, version = await repair.script.manager.read(LEDGER)
        await repair.script.manager.write(LEDGER, metadata, version)

    store.before_next_set = meanwhile
    await repair.replicate(1)
    assert await repair.script.segments() == [(0, "b1 b4 b3")]
    assert len(repair.recorded("ensemble.set")) == 1


async def test_nothing_is_recorded_if_another_client_has_replaced_the_bookie() -> None:
    repair = Repair()
    metadata, version = await repair.script.manager.read(LEDGER)
    await repair.replicator.publish(LEDGER, repair.short(1), {1: "b4"})
    assert await repair.script.segments() == [(0, "b1 b4 b3")]
    repair.script.rows.clear()
    await repair.replicator.publish(LEDGER, repair.short(1), {1: "b5"})
    assert await repair.script.segments() == [(0, "b1 b4 b3")]
    assert repair.recorded("ensemble.set", "fragment.replicated") == []
    assert (metadata.segments[0].ensemble, version) == (("b1", "b2", "b3"), 0)


async def test_a_move_copies_the_entries_and_then_replaces_the_bookie() -> None:
    repair = Repair()
    await repair.replicator.move(repair.ledger, CLOSED, {0: "b5"})
    assert repair.entries(4) == [0, 1, 2, 3, 4]
    assert await repair.script.segments() == [(0, "b5 b2 b3")]
    assert repair.recorded("fragment.replicated") == [("fragment.replicated", 0, "", "b5")]


# Reading the copies


async def test_an_entry_is_readable_if_any_bookie_of_its_write_set_has_it() -> None:
    repair = Repair()
    short = repair.short(1)
    assert await repair.replicator.can_read(repair.ledger, short, 2)
    del repair.script.bookies[0].entries[2]
    assert await repair.replicator.can_read(repair.ledger, short, 2)
    del repair.script.bookies[2].entries[2]
    assert not await repair.replicator.can_read(repair.ledger, short, 2)
    assert await repair.replicator.can_read(repair.ledger, short, 3)


async def test_the_error_about_an_unreadable_entry_names_it() -> None:
    repair = Repair()
    for place in (0, 2):
        del repair.script.bookies[place].entries[3]
    with pytest.raises(EntryUnreadableException) as unreadable:
        await repair.copy(repair.short(1), {1: "b4"})
    assert unreadable.value.entry_id == 3
    with pytest.raises(EntryUnreadableException):
        await repair.replicate(1)
    assert await repair.script.segments() == [(0, "b1 b2 b3")]


async def test_missing_copies_are_returned_with_their_errors() -> None:
    repair = Repair()
    reads = BookieReads(LEDGER, repair.script.metadata, repair.script.client.context)
    del repair.script.bookies[0].entries[2]
    assert await missing_copies(reads, "b1", []) == {}
    assert await missing_copies(reads, "b1", [0, 1, 4]) == {}
    missing = await missing_copies(reads, "b1", [0, 2, 4, 9])
    assert {n: type(error) for n, error in missing.items()} == {
        2: BKNoSuchEntryException,
        9: BKNoSuchEntryException,
    }


async def test_all_responses_are_waited_for() -> None:
    repair = Repair()
    source = repair.script.bookies[0]
    source.serves = False
    reads = BookieReads(LEDGER, repair.script.metadata, repair.script.client.context)
    asking = asyncio.ensure_future(missing_copies(reads, "b1", [0, 1, 2]))
    await until(lambda: source.reads == [0, 1, 2])
    source.say(Opcode.READ, Code.OK, 1, source.entries[1])
    source.say(Opcode.READ, Code.NO_ENTRY, 0)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not asking.done()
    source.say(Opcode.READ, Code.IO_ERROR, 2)
    assert sorted(await asking) == [0, 2]


# Storing the copies


@pytest.mark.parametrize(("first", "second"), [(3, 4), (4, 3)])
async def test_an_entry_is_copied_when_every_target_has_acknowledged_it(
    first: int, second: int
) -> None:
    repair = Repair()
    bookies = repair.script.bookies
    bookies[3].serves = bookies[4].serves = False
    running = asyncio.create_task(repair.copy(repair.short(0, 1), {0: "b4", 1: "b5"}))
    await until(lambda: bookies[3].adds == bookies[4].adds == [0, 1, 2, 3, 4])
    bookies[first].ack(0, 1, 2, 3, 4)
    assert len(repair.recorded("entry.copied")) == 5
    bookies[second].ack(0, 1, 2, 3)
    # Run the event loop a few times, so that the copy would finish if it did not wait.
    for _ in range(5):
        await asyncio.sleep(0)
    assert not running.done()
    bookies[second].ack(4)
    await running


async def test_the_next_batch_is_read_while_the_previous_one_is_being_stored() -> None:
    repair = Repair(rereplication_entry_batch_size=4)
    source, *_, one, other = repair.script.bookies
    one.serves = other.serves = False
    for entry_id in range(5, 15):
        repair.script.put(entry_id, entry_id - 1, 0)
    fragment = replace(CLOSED, last=14)
    running = asyncio.create_task(
        repair.copy(repair.short(1, 2, fragment=fragment), {1: "b4", 2: "b5"})
    )

    def batches() -> list[tuple[int, int]]:
        asked = (each for each in source.asked if isinstance(each, BatchReadRequest))
        return [(each.first_entry_id, each.max_count) for each in asked]

    # One batch is waiting to be stored, and the next one is being read.
    await until(lambda: batches() == [(0, 4), (4, 4), (8, 4)])
    assert one.adds == [0, 1, 2, 3]
    for start, end in ((0, 4), (4, 8), (8, 12), (12, 15)):
        await until(lambda end=end: other.adds == [*range(end)])  # type: ignore[misc]
        for bookie in (one, other):
            bookie.ack(*range(start, end))
    await running
    assert batches() == [(0, 4), (4, 4), (8, 4), (12, 3)]
    assert source.reads == []


async def test_an_entry_that_the_first_source_lacks_is_read_from_another_one() -> None:
    repair = Repair()
    del repair.script.bookies[0].entries[2]
    await repair.copy(repair.short(1), {1: "b4"})
    assert [*repair.script.bookies[3].entries] == [0, 1, 2, 3, 4]


async def test_copies_contain_the_highest_known_last_add_confirmed() -> None:
    repair = Repair()
    repair.script.put(4, 9, 0, 2)
    await repair.copy(repair.short(1), {1: "b4"})
    stored = repair.script.bookies[3].entries
    entries = [decode_entry(stored[n], repair.script.digest, LEDGER, n) for n in range(5)]
    assert [entry.last_add_confirmed for entry in entries] == [4, 4, 4, 4, 9]
    assert [entry.length for entry in entries] == [10, 20, 30, 40, 50]
    assert [entry.payload for entry in entries] == [b"entry %04d" % n for n in range(5)]


async def test_a_target_that_rejects_an_entry_ends_the_copy() -> None:
    repair = Repair(rereplication_entry_batch_size=2)
    target = repair.script.bookies[3]
    target.serves = False
    copying = asyncio.ensure_future(repair.copy(repair.short(1), {1: "b4"}))
    await until(lambda: target.adds == [0, 1])
    target.ack(0)
    await until(lambda: target.adds == [0, 1, 2])
    target.reject(1, Code.IO_ERROR)
    with pytest.raises(BKWriteException):
        await copying
    target.ack(2)
    for _ in range(10):
        await asyncio.sleep(0)
    assert target.adds == [0, 1, 2]
    [failed] = repair.recorded("add.failed")
    assert failed[:3] == ("add.failed", 1, "b4")
    assert failed[3] == "BKWriteException"
    assert [entry for _, entry, _, _ in repair.recorded("entry.copied")] == [0, 2]


async def test_only_entries_of_the_targets_write_sets_are_copied() -> None:
    repair = Repair(striped=True)
    striped = Fragment(1, 4, ("b1", "b2", "b3"), 2, closed=True)
    await repair.copy(repair.short(1, fragment=striped), {1: "b4"})
    assert repair.entries(3) == [1, 3, 4]
    assert repair.script.bookies[4].asked == []


async def test_a_response_after_the_end_of_the_copy_is_ignored() -> None:
    repair = Repair(striped=True)
    source = repair.script.bookies[0]
    source.serves = False
    target = repair.script.bookies[3]
    target.serves = False
    copying = asyncio.ensure_future(repair.copy(repair.short(1), {1: "b4"}))
    await until(lambda: source.reads == [0, 3] and target.adds == [1, 2, 4])
    target.reject(1, Code.IO_ERROR)
    with pytest.raises(BKWriteException):
        await copying
    source.say(Opcode.READ, Code.OK, 3, source.entries[3])
    source.say(Opcode.READ, Code.IO_ERROR, 0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert target.adds == [1, 2, 4]


async def test_a_bookie_gets_its_first_and_last_copies_back_after_all_others() -> None:
    """A check tests only these, so it notices that a repair was interrupted."""
    repair = Repair(spares=0)
    fragment = Fragment(0, 9, ("b1", "b2", "b3"), 3, closed=True)
    for entry_id in range(5, 10):
        repair.script.put(entry_id, entry_id - 1, 0, 2)
    bookie = repair.script.bookies[1]
    bookie.serves = False
    running = asyncio.create_task(repair.copy(repair.short(1, fragment=fragment), {1: "b2"}))
    for entry_ids in ([3, 4, 5, 6], [0, 1, 2], [7, 8, 9]):
        sent = len(bookie.adds) + len(entry_ids)
        await until(lambda sent=sent: len(bookie.adds) == sent)  # type: ignore[misc]
        assert bookie.adds[-len(entry_ids) :] == entry_ids
        bookie.ack(*entry_ids)
    await running
