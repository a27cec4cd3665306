"""Test when an entry of a fragment counts as copied, with bookies that respond only on command."""

import asyncio
from collections.abc import Coroutine

import pytest

from labkit.system.autorecovery.config import UNLIMITED
from labkit.system.autorecovery.fragment_copy import RateLimit, copy_fragment
from labkit.system.autorecovery.fragments import Fragment, UnderreplicatedFragment
from labkit.system.autorecovery.ledger_view import LedgerView
from labkit.system.model.wire import BatchReadRequest
from tests.system.client.scripted_bookies import LEDGER, Script
from tests.until import until

ENTRIES = range(3)


def script_of(entries: range = ENTRIES, *sources: int, write_quorum: int = 3) -> Script:
    """Create three bookies and two spares; the sources store the entries and answer reads."""
    script = Script(3, write_quorum, 2, spares=2)
    for source in sources or (0,):
        script.bookies[source].serves = True
        for entry_id in entries:
            script.put(entry_id, entry_id - 1, source)
    return script


def copy_of(
    script: Script, *places: int, entries: range = ENTRIES, window: int = 100
) -> Coroutine[None, None, None]:
    """Copy the entries to b4 and b5, as replacements for the copies at these ensemble indices."""
    quorum = script.metadata.write_quorum
    fragment = Fragment(0, entries[-1], ("b1", "b2", "b3"), quorum, closed=True)
    return copy_fragment(
        LedgerView(LEDGER, script.metadata, entries[-1]),
        UnderreplicatedFragment(fragment, places),
        dict(zip(places, ("b4", "b5"), strict=False)),
        script.client.context,
        RateLimit(UNLIMITED),
        window,
    )


def batches(script: Script, bookie: int) -> list[tuple[int, int]]:
    """Return the first entry and the maximum count of each batch read that this bookie received."""
    asked = script.bookies[bookie].asked
    return [
        (each.first_entry_id, each.max_count)
        for each in asked
        if isinstance(each, BatchReadRequest)
    ]


@pytest.mark.parametrize(("first", "second"), [(3, 4), (4, 3)])
async def test_an_entry_is_copied_when_every_target_has_acknowledged_it(
    first: int, second: int
) -> None:
    script = script_of()
    running = asyncio.create_task(copy_of(script, 1, 2))
    await until(lambda: all(script.bookies[at].adds == [*ENTRIES] for at in (3, 4)))
    script.bookies[first].ack(*ENTRIES)
    assert len(script.recorded("entry.copied")) == len(ENTRIES)
    script.bookies[second].ack(*ENTRIES[:-1])
    # Run the event loop a few times, so that the copy would finish if it did not wait.
    for _ in range(5):
        await asyncio.sleep(0)
    assert not running.done()
    script.bookies[second].ack(ENTRIES[-1])
    await running


async def test_the_next_batch_is_read_while_the_previous_one_is_being_stored() -> None:
    entries = range(15)
    script = script_of(entries)
    running = asyncio.create_task(copy_of(script, 1, 2, entries=entries, window=4))
    await until(lambda: script.bookies[3].adds == [*range(4)])
    # One batch is waiting to be stored, and the next one is being read.
    await until(lambda: batches(script, 0) == [(0, 4), (4, 4), (8, 4)])
    assert script.bookies[3].adds == [*range(4)]

    async def store(start: int, end: int) -> None:
        await until(lambda: script.bookies[4].adds == [*range(end)])
        for bookie in script.bookies[3:]:
            bookie.ack(*range(start, end))

    for batch in ((0, 4), (4, 8), (8, 12), (12, 15)):
        await store(*batch)
    await running
    assert batches(script, 0) == [(0, 4), (4, 4), (8, 4), (12, 3)]
    assert script.bookies[0].reads == []


async def test_an_entry_that_the_first_source_lacks_is_read_from_another_one() -> None:
    script = script_of(range(5), 0, 1)
    del script.bookies[0].entries[2]
    script.bookies[3].serves = True
    await copy_of(script, 2, entries=range(5))
    assert [*script.bookies[3].entries] == [0, 1, 2, 3, 4]
