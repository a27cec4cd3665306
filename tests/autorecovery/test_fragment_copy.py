"""When an entry of a fragment counts as copied, by bookies that answer when the test says."""

import asyncio

import pytest

from labkit.autorecovery.config import AutoRecoveryConfig
from labkit.autorecovery.copies import Ledger
from labkit.autorecovery.fragments import Fragment, Underreplicated
from labkit.autorecovery.replicator import FragmentCopy
from tests.client.scripted_bookies import LEDGER, Script
from tests.until import until

ENTRIES = range(3)


@pytest.mark.parametrize(("first", "second"), [(3, 4), (4, 3)])
async def test_entry_is_copied_when_each_of_its_targets_has_it(first: int, second: int) -> None:
    script = Script(3, 3, 2, spares=2)
    script.bookies[0].serves = True
    for entry_id in ENTRIES:
        script.put(entry_id, entry_id - 1, 0)
    fragment = Fragment(0, ENTRIES[-1], ("b1", "b2", "b3"), 3, closed=True)
    copy = FragmentCopy(
        Ledger(LEDGER, script.metadata, ENTRIES[-1]),
        Underreplicated(fragment, (1, 2)),
        {1: "b4", 2: "b5"},
        script.client.context,
        AutoRecoveryConfig(),
    )
    running = asyncio.create_task(copy.run())
    await until(lambda: all(script.bookies[at].adds == [*ENTRIES] for at in (3, 4)))
    script.bookies[first].ack(*ENTRIES)
    assert len(script.recorded("entry.copied")) == len(ENTRIES)
    script.bookies[second].ack(*ENTRIES[:-1])
    # Turns of the loop in which a copy that is done would end.
    for _ in range(5):
        await asyncio.sleep(0)
    assert not running.done()
    script.bookies[second].ack(ENTRIES[-1])
    await running
