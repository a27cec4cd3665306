"""What an owner hears of its ledgers, and how a managed ledger begins and ends."""

import asyncio
from dataclasses import replace

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import MAX_PAYLOAD_SIZE, LedgerWriter
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKLedgerClosedException,
    BKNotEnoughBookiesException,
    BKWriteException,
    LabkitError,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.chain.chain_store import ChainStore, read_chain
from labkit.system.topic.chain.guarded_node import ManagedLedgerFencedError
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.worlds.sim.trace import Trace
from tests.system.topic.simulated import PATH, SMALL, TOPIC, opened, read_all, stored, tell
from tests.until import until

DOWN = MetadataUnavailableError("it does not answer")
KEEP_NOTHING = replace(SMALL, retention_time_ms=0, retention_size_bytes=0)


def rolled(trace: Trace) -> list[str]:
    """Why each ledger was begun."""
    return [event.note for event in trace.events if event.kind == "ledger.rolled"]


# What it says


def test_readers_hear_of_a_new_end_once_in_a_turn_however_many_entries_were_confirmed() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client, ManagedLedgerConfig())
        ends: list[Position] = []
        ledger.when_confirmed(lambda: ends.append(ledger.last_confirmed))
        # They are pushed with several callbacks.
        positions = await stored(ledger, 0, 200)
        positions += await stored(ledger, 200, 201)
        await asyncio.sleep(0)
        assert ends == sorted(set(ends))
        assert ends[-1] == positions[-1]
        await ledger.close()

    tell(story)


def test_each_ledger_is_recorded_with_the_reason_for_it() -> None:
    async def story(client: BookKeeper) -> None:
        config = ManagedLedgerConfig(
            max_entries_per_ledger=5,
            max_ledger_size_bytes=100,
            max_ledger_age_ms=1000,
            check_interval_ms=100,
        )
        ledger = await opened(client, config)
        await stored(ledger, 0, 5)
        await until(lambda: len(ledger.ledgers) == 2)
        await (await ledger.append(b"x" * 100))
        await until(lambda: len(ledger.ledgers) == 3)
        await stored(ledger, 5, 6)
        await until(lambda: len(ledger.ledgers) == 4)
        assert ledger.writer is not None
        failed = ledger.writer.ledger_id
        await client.open_ledger(failed)  # Which stops its writer.
        await stored(ledger, 6, 7)
        await ledger.close()

    notes = rolled(tell(story))
    assert notes[:3] == [f"{TOPIC}: opened", f"{TOPIC}: 5 entries", f"{TOPIC}: 100 bytes"]
    assert notes[3].endswith(" ms old")
    assert 1000 <= int(notes[3].split()[-3]) < 1150
    assert notes[4].endswith(" failed")


def test_end_reaches_all_that_asked_with_its_reason_and_close_does_not_count_as_one() -> None:
    async def story(client: BookKeeper) -> None:
        told: list[tuple[str, LabkitError]] = []

        async def opened_with_listeners() -> ManagedLedger:
            ledger = await opened(client)
            ledger.when_ended(lambda error: told.append(("a", error)))
            ledger.when_ended(lambda error: told.append(("b", error)))
            return ledger

        await (await opened_with_listeners()).close()
        assert told == []
        ledger = await opened_with_listeners()
        first = LabkitError("first")
        ledger.end(first)
        ledger.end(LabkitError("second"))
        assert told == [("a", first), ("b", first)]
        with pytest.raises(LabkitError, match="first"):
            await ledger.append(b"x")

    tell(story)


# Appending


def test_entry_of_the_largest_size_is_taken() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        with pytest.raises(BKIncorrectParameterException, match="fits into no frame"):
            await ledger.append(bytes(MAX_PAYLOAD_SIZE + 1))
        await (await ledger.append(bytes(MAX_PAYLOAD_SIZE)))
        await ledger.close()

    tell(story)


class RecoveredByAnother(ChainStore):
    """Another client closes the last ledger just before its owner does."""

    async def seal(self, writer: LedgerWriter) -> LedgerMetadata:
        await self.client.open_ledger(writer.ledger_id)
        return await super().seal(writer)


class Surprised(ManagedLedger):
    """Its ledgers are closed by another client."""

    store_class = RecoveredByAnother


def test_entries_that_a_ledger_has_when_another_client_closes_it_are_stored_there() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = Surprised(TOPIC, PATH, client, ManagedLedgerConfig())
        await ledger.open()
        first = await stored(ledger, 0, 3)
        futures = await ledger.append_all([b"3", b"4"])
        writer = ledger.writer
        assert writer is not None
        await asyncio.sleep(0)
        # The entries are on their way to the bookies; no answer will be heard.
        writer.end(LabkitError("the writer has failed"))
        positions = [await future for future in futures]
        assert {ledger_id for ledger_id, _ in positions} == {first[0][0]}
        last = await stored(ledger, 5, 6)
        assert last[0][0] != first[0][0]
        assert await read_all(ledger) == [0, 1, 2, 3, 4, 5]

    tell(story)


def test_entries_without_room_for_a_next_ledger_fail_and_so_do_all_later_ones() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        ended: list[LabkitError] = []
        ledger.when_ended(ended.append)
        no_bookies = BKNotEnoughBookiesException("two of three")

        async def fails(*_: int, **__: object) -> LedgerWriter:
            raise no_bookies

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(client, "create_ledger", fails)
            futures = await ledger.append_all([b"%d" % number for number in range(8)])
            for future in futures[:5]:
                await future
            for future in futures[5:]:
                with pytest.raises(BKNotEnoughBookiesException):
                    await future
        # Now there would be bookies again: too late.
        with pytest.raises(BKNotEnoughBookiesException):
            await ledger.append(b"8")
        assert ended == [no_bookies]
        again = await opened(client)
        assert await read_all(again) == [0, 1, 2, 3, 4]

    tell(story)


def test_owner_that_has_ended_neither_closes_its_ledger_nor_begins_the_next() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        await ledger.append_all([b"%d" % number for number in range(5)])
        ledger.end(LabkitError("overtaken"))  # The next ledger is wanted in this turn.
        await asyncio.sleep(5)
        [ledger_id] = await client.list_ledgers()
        assert (await client.ledger_metadata(ledger_id)).state is LedgerState.OPEN
        assert [link.ledger_id for link in (await read_chain(client, PATH))[0]] == [ledger_id]

    tell(story)


# Its beginning and its end


def test_managed_ledger_takes_nothing_before_it_is_open() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = ManagedLedger(TOPIC, PATH, client, SMALL)
        with pytest.raises(BKLedgerClosedException, match="is not open yet"):
            await ledger.append(b"x")
        with pytest.raises(BKLedgerClosedException, match="is not open yet"):
            await ledger.open_cursor("s", "earliest")
        assert await ledger.trim() == []
        # Nothing to close, and nothing was made.
        await ledger.close()
        assert await client.list_ledgers() == []
        assert await read_chain(client, PATH) == ([], -1)

    tell(story)


def test_closed_one_has_no_writer_and_is_closed_again_without_a_change() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        await stored(ledger, 0, 3)
        await ledger.close()
        assert ledger.writer is None
        before = await read_chain(client, PATH)
        await ledger.close()
        assert await read_chain(client, PATH) == before
        assert [link.entry_count for link in before[0]] == [3]
        assert all(link.closed_at_ms for link in before[0])

    tell(story)


@pytest.mark.parametrize("error", [BKWriteException("no bookie answers"), DOWN])
def test_owner_that_cannot_close_its_ledger_says_so_and_is_closed_all_the_same(
    error: LabkitError,
) -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        await stored(ledger, 0, 3)

        async def fails(_: LedgerWriter) -> None:
            raise error

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(LedgerWriter, "close", fails)
            with pytest.raises(type(error)):
                await ledger.close()
        with pytest.raises(BKLedgerClosedException, match="open the topic again"):
            await ledger.append(b"x")
        again = await opened(client)
        assert await read_all(again) == [0, 1, 2]

    tell(story)


def test_overtaken_owner_closes_without_an_error_and_changes_nothing() -> None:
    async def story(client: BookKeeper) -> None:
        old = await opened(client)
        await stored(old, 0, 3)
        new = await opened(client)
        before = await read_chain(client, PATH)
        await old.close()
        assert await read_chain(client, PATH) == before
        await stored(new, 3, 4)
        assert await read_all(new) == [0, 1, 2, 3]

    tell(story)


def test_cursors_are_stored_when_their_owner_closes() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        cursor = await ledger.open_cursor("s", "earliest")
        positions = await stored(ledger, 0, 4)
        cursor.acknowledge_up_to(positions[2])
        await ledger.close()
        again = await opened(client)
        assert again.cursors["s"].mark_delete == positions[2]
        assert again.next_position(positions[2]) == positions[3]
        assert again.previous_position(positions[3]) == positions[2]

    tell(story)


# Upkeep


def test_trim_that_fails_is_made_up_for_at_the_next_interval() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client, replace(KEEP_NOTHING, check_interval_ms=1000))
        cursor = await ledger.open_cursor("s", "earliest", durable=True)
        positions = await stored(ledger, 0, 6)
        assert [link.entry_count for link in ledger.ledgers] == [5, 1]
        set_node = client.store.set

        async def fails(path: str, data: bytes, version: int) -> int:
            if path == PATH:
                raise DOWN
            return await set_node(path, data, version)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(client.store, "set", fails)
            cursor.acknowledge_up_to(positions[4])
            await cursor.flush()
            with pytest.raises(MetadataUnavailableError):
                await ledger.trim()
            await asyncio.sleep(3)
            assert len(ledger.ledgers) == 2
        await asyncio.sleep(1.1)
        assert [link.entry_count for link in ledger.ledgers] == [1]
        assert positions[0][0] not in await client.list_ledgers()
        await ledger.close()

    tell(story)


def test_ledgers_behind_a_snapshot_that_cannot_be_stored_are_not_trimmed() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client, KEEP_NOTHING)
        cursor = await ledger.open_cursor("s", "earliest")
        positions = await stored(ledger, 0, 6)
        await cursor.flush()
        cursor.acknowledge_up_to(positions[4], {"x" * MAX_PAYLOAD_SIZE: 4})
        with pytest.raises(BKIncorrectParameterException):
            await cursor.flush()
        assert await ledger.trim() == []
        assert len(await client.list_ledgers()) == 2
        await ledger.close()
        last = await opened(client, KEEP_NOTHING)
        assert await read_all(last) == list(range(6))
        last.cursors["s"].acknowledge_up_to(positions[4], {"x": 4})
        await last.cursors["s"].flush()
        assert await last.trim() == [positions[0][0]]
        await last.close()

    trace = tell(story)
    reports = [event.note for event in trace.events if event.kind == "cursor.unstored"]
    assert reports
    assert "cursor s of public/default" in reports[0]


@pytest.mark.parametrize("closes", [False, True])
def test_upkeep_ends_with_its_owner(closes: bool) -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client, replace(SMALL, check_interval_ms=100))
        times = 0
        trim = ledger.trim

        async def counted() -> list[int]:
            nonlocal times
            times += 1
            return await trim()

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ledger, "trim", counted)
            await asyncio.sleep(1.05)
            assert times == 10
            if closes:
                await ledger.close()
            else:
                ledger.end(LabkitError("overtaken"))
            await asyncio.sleep(5)
            assert times == 10

    tell(story)


def test_fenced_owner_trims_nothing_more() -> None:
    async def story(client: BookKeeper) -> None:
        old = await opened(client, KEEP_NOTHING)
        await stored(old, 0, 3)
        await opened(client)
        futures = await old.append_all([b"x"])
        with pytest.raises(ManagedLedgerFencedError):
            await futures[0]
        assert await old.trim() == []

    tell(story)


def test_entries_that_wait_while_another_owner_takes_over_are_not_pushed() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client, SMALL)
        writer = ledger.writer
        assert writer is not None

        async def taken_over() -> None:
            ledger.end(ManagedLedgerFencedError("another owner has changed a cursor"))

        writer.drain = taken_over  # type: ignore[method-assign]
        with pytest.raises(ManagedLedgerFencedError):
            await ledger.append(b"late")
        assert writer.last_add_pushed == -1

    tell(story)
