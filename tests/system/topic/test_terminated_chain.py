"""A chain that is terminated, and the sizes that its owner counts, in the simulated world."""

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.topic.chain.chain_store import ManagedLedgerTerminatedError
from labkit.worlds.sim.trace import Trace
from tests.system.topic.simulated import opened, read_all, stored, tell


def rolled(trace: Trace) -> list[str]:
    """Why each ledger was begun."""
    return [event.note for event in trace.events if event.kind == "ledger.rolled"]


def test_terminated_chain_takes_no_entry_from_any_owner_and_is_read_to_its_end() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        cursor = await ledger.open_cursor("s", "earliest")
        pushed = await ledger.append_all([b"%d" % number for number in range(7)])
        last = await ledger.terminate()
        positions = [await position for position in pushed]
        assert last == positions[-1] == ledger.terminated
        for owner in (ledger, await opened(client)):
            with pytest.raises(ManagedLedgerTerminatedError, match="takes no entries"):
                await owner.append(b"x")
            assert (await owner.terminate(), owner.last_confirmed) == (last, last)
            assert owner.writer is None
        assert await read_all(owner) == list(range(7))
        cursor = owner.cursors["s"]
        assert cursor.unacknowledged_count == 7
        cursor.acknowledge_up_to(positions[2])
        await owner.close()
        assert (await opened(client)).cursors["s"].unacknowledged_count == 4

    assert [note.rpartition(" ")[2] for note in rolled(tell(story))] == ["opened", "entries"]


def test_empty_chain_is_terminated_too() -> None:
    async def story(client: BookKeeper) -> None:
        last = await (await opened(client)).terminate()
        ledger = await opened(client)
        assert (ledger.terminated, last[1], ledger.ledgers) == (last, -1, ())
        cursor = await ledger.open_cursor("s", "latest")
        assert cursor.unacknowledged_count == 0
        await ledger.close()

    tell(story)


def test_owner_that_cannot_store_the_termination_ends_and_the_next_one_takes_entries() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        await stored(ledger, 0, 2)

        async def fails(path: str, data: bytes, version: int) -> int:
            raise MetadataUnavailableError("it does not answer")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(client.store, "set", fails)
            with pytest.raises(MetadataUnavailableError):
                await ledger.terminate()
        with pytest.raises(MetadataUnavailableError):
            await ledger.append(b"x")
        following = await opened(client)
        await stored(following, 2, 3)
        assert await read_all(following) == [0, 1, 2]
        await following.close()

    tell(story)


def test_bytes_and_entries_of_the_open_ledger_are_counted() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        await stored(ledger, 0, 7)
        assert [(link.entry_count, link.size_bytes) for link in ledger.ledgers] == [(5, 5), (2, 2)]
        assert ledger.queue.stored_count == 7
        await ledger.close()
        ledger = await opened(client)
        assert [(link.entry_count, link.size_bytes) for link in ledger.ledgers][:2] == [
            (5, 5),
            (2, 2),
        ]
        assert ledger.queue.stored_count == 0
        await ledger.close()

    tell(story)
