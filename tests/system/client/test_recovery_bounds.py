"""Where recovery begins to read, and what it lets readers learn before the ledger is closed."""

from labkit.system.client.ensemble import with_ensemble
from labkit.system.model.entry import decode_entry
from labkit.system.model.ledger import LedgerState
from tests.system.client.recovering import end, recovered, serving
from tests.system.client.scripted_bookies import LEDGER


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
    """Another recovery may close the ledger in front of them: no reader may have seen them then."""
    script = serving()
    for entry_id in range(6):
        script.put(entry_id, -1, 0, 1)
    reader = await recovered(script)
    assert end(reader.metadata)[:2] == (LedgerState.CLOSED, 5)
    copies = script.bookies[2].entries
    assert [
        decode_entry(copies[n], script.digest, LEDGER, n).last_add_confirmed for n in range(6)
    ] == [-1] * 6
