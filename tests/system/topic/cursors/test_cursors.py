"""Cursors in the simulated world: what was acknowledged is found again, and never more."""

import asyncio
from dataclasses import replace

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.topic.chain.acknowledged import CursorState, Range
from labkit.system.topic.chain.formats import IN_NODE, CursorNode, encode_cursor_node
from tests.system.topic.simulated import (
    PATH,
    SMALL,
    found_by,
    node_of,
    opened,
    states_in,
    stored,
    tell,
    with_cursor,
)

# Where it begins


def test_cursor_begins_with_the_entry_that_is_asked_for() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        before = await ledger.open_cursor("before", "latest")
        positions = await stored(ledger, 0, 12)
        earliest = await ledger.open_cursor("earliest", "earliest")
        latest = await ledger.open_cursor("latest", "latest")
        seventh = await ledger.open_cursor("seventh", positions[7], durable=False)
        fifth = await ledger.open_cursor("fifth", positions[5])
        far = await ledger.open_cursor("far", (2**63 - 1, 2**63 - 1))
        assert found_by(before, positions) == found_by(earliest, positions) == []
        assert found_by(latest, positions) == found_by(far, positions) == list(range(12))
        assert found_by(seventh, positions) == list(range(7))
        assert found_by(fifth, positions) == list(range(5))
        assert ledger.next_position(fifth.mark_delete) == positions[5]
        assert await ledger.open_cursor("fifth", "latest") is fifth
        counts = [each.unacknowledged_count for each in ledger.cursors.values()]
        assert counts == [12, 12, 0, 5, 7, 0]
        await ledger.close()

    tell(story)


def test_new_cursor_is_durable_before_anything_is_acknowledged() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        await stored(ledger, 0, 3)
        await ledger.open_cursor(
            "a b/c~*", "latest", properties={"p": 7}, cursor_properties={"filter": "x"}
        )
        # Its owner is gone without a word.
        again = await opened(client)
        assert await client.store.children(PATH) == ["a+b%2Fc%7E*"]
        [cursor] = again.cursors.values()
        assert (cursor.name, dict(cursor.properties)) == ("a b/c~*", {"p": 7})
        assert cursor.cursor_properties == {"filter": "x"}
        assert cursor.unacknowledged_count == 0
        await again.close()

    tell(story)


# Where it is kept


def test_first_acknowledgement_makes_a_ledger_and_each_write_is_the_whole_state() -> None:
    async def story(client: BookKeeper) -> None:
        ledger, cursor, positions = await with_cursor(client)
        assert (await node_of(client)).ledger_id == IN_NODE
        cursor.acknowledge([positions[3], positions[1]])
        await cursor.flush()
        node = await node_of(client)
        metadata = await client.ledger_metadata(node.ledger_id)
        assert metadata.custom_metadata == (
            ("application", b"pulsar"),
            ("component", b"managed-ledger"),
            ("pulsar/managed-ledger", b"public/default/persistent/t"),
            ("pulsar/cursor", b"s"),
        )
        cursor.acknowledge_up_to(positions[1], {"producer": 5})
        cursor.acknowledge_batch(positions[6], 4, 0b1010)
        await cursor.flush()
        first = positions[0][0]
        properties = (("begun", 1),)
        assert await states_in(client, node.ledger_id) == [
            CursorState(
                (first, -1),
                (Range((first, 0), (first, 1)), Range((first, 2), (first, 3))),
                properties=properties,
            ),
            CursorState(
                (first, 1),
                (Range((first, 2), (first, 3)),),
                ((positions[6], 0b1010),),
                (("producer", 5),),
            ),
        ]
        await ledger.close()

    tell(story)


def test_acknowledgements_are_stored_by_themselves_and_at_most_once_a_second() -> None:
    async def story(client: BookKeeper) -> None:
        ledger, cursor, positions = await with_cursor(client, entries=10)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for position in positions:
            cursor.acknowledge([position])
            await asyncio.sleep(0.25)
        await asyncio.sleep(1.5)
        states = await states_in(client, (await node_of(client)).ledger_id)
        seconds = int(loop.time() - began)
        assert 3 <= len(states) <= seconds + 1
        assert states[0].mark_delete == positions[0]
        assert states[-1].mark_delete == positions[-1]
        await ledger.close()

    tell(story)


def test_clean_close_leaves_the_state_in_the_node_and_deletes_the_ledger() -> None:
    async def story(client: BookKeeper) -> None:
        ledger, cursor, positions = await with_cursor(client)
        cursor.acknowledge(positions[2:4])
        await cursor.flush()
        used = (await node_of(client)).ledger_id
        cursor.acknowledge_batch(positions[8], 3, 0b100)
        state = cursor.state
        await ledger.close()
        assert await node_of(client) == CursorNode(IN_NODE, state)
        assert used not in await client.list_ledgers()
        again = await opened(client)
        assert again.cursors["s"].state == state
        assert again.cursors["s"].left_in_batch(positions[8]) == 0b100
        await again.close()

    tell(story)


def test_cursor_of_too_many_ranges_stays_in_its_ledger() -> None:
    async def story(client: BookKeeper) -> None:
        ledger, cursor, positions = await with_cursor(client, max_ranges_in_node=1)
        cursor.acknowledge([positions[1], positions[3], positions[7]])
        await ledger.close()
        node = await node_of(client)
        assert len((await states_in(client, node.ledger_id))[-1].ranges) == 3
        again = await opened(client, replace(SMALL, max_ranges_in_node=1))
        assert found_by(again.cursors["s"], positions) == [1, 3, 7]
        assert (await node_of(client)).ledger_id == node.ledger_id
        again.cursors["s"].acknowledge_up_to(positions[3])
        await again.close()
        # Few enough now.
        assert (await node_of(client)).ledger_id == IN_NODE
        assert node.ledger_id not in await client.list_ledgers()

    tell(story)


def test_ranges_beyond_the_limit_come_again() -> None:
    async def story(client: BookKeeper) -> None:
        ledger, cursor, positions = await with_cursor(client, max_ranges_stored=2)
        cursor.acknowledge([positions[n] for n in (0, 2, 4, 6, 8)])
        assert found_by(cursor, positions) == [0, 2, 4, 6, 8]
        await cursor.flush()
        again = await opened(client)
        assert found_by(again.cursors["s"], positions) == [0, 2, 4]
        await again.close()
        await ledger.close()

    tell(story)


def test_cursor_goes_on_in_a_new_ledger_when_its_own_is_full_or_old() -> None:
    async def story(client: BookKeeper) -> None:
        ledger, cursor, positions = await with_cursor(
            client, max_entries_per_cursor_ledger=2, max_cursor_ledger_age_ms=10_000
        )
        used = []
        for position in positions[:5]:
            cursor.acknowledge([position])
            await cursor.flush()
            used.append((await node_of(client)).ledger_id)
        assert [used.index(each) for each in used] == [0, 0, 2, 2, 4]
        await asyncio.sleep(11)
        cursor.acknowledge([positions[5]])
        await cursor.flush()
        newest = (await node_of(client)).ledger_id
        assert newest > used[-1]
        assert not set(used) & set(await client.list_ledgers())
        assert [s.mark_delete for s in await states_in(client, newest)] == [positions[5]]
        await ledger.close()

    tell(story)


def test_cursor_whose_ledger_fails_goes_on_in_a_new_one() -> None:
    async def story(client: BookKeeper) -> None:
        _ledger, cursor, positions = await with_cursor(client)
        cursor.acknowledge(positions[:2])
        await cursor.flush()
        first = (await node_of(client)).ledger_id
        await client.open_ledger(first)  # Somebody recovers it: nothing can be added any more.
        cursor.acknowledge(positions[2:4])
        await cursor.flush()
        assert (await node_of(client)).ledger_id > first
        again = await opened(client)
        assert found_by(again.cursors["s"], positions) == [0, 1, 2, 3]
        await again.close()

    tell(story)


def test_cursor_whose_new_ledger_is_empty_or_gone_is_where_its_node_says() -> None:
    async def story(client: BookKeeper) -> None:
        ledger, _cursor, positions = await with_cursor(client)
        state = CursorState(positions[2])
        empty = (await client.create_ledger()).ledger_id
        for number, ledger_id in enumerate((empty, 999_999)):
            data = encode_cursor_node(CursorNode(ledger_id, state))
            await client.store.create(f"{PATH}/other-{number}", data)
        again = await opened(client)
        for number in range(2):
            other = again.cursors[f"other-{number}"]
            assert (other.mark_delete, other.unacknowledged_count) == (positions[2], 7)
            assert (await node_of(client, f"{PATH}/other-{number}")).ledger_id == IN_NODE
        await again.close()
        await ledger.close()

    tell(story)


# What may be acknowledged


def test_acknowledgement_beyond_what_is_confirmed_is_refused_with_all_that_came_with_it() -> None:
    async def story(client: BookKeeper) -> None:
        ledger, cursor, positions = await with_cursor(client, entries=3)
        ledger_id = positions[0][0]
        for wrong in ((ledger_id, 3), (ledger_id + 1, 0)):
            with pytest.raises(BKIncorrectParameterException, match="last confirmed entry is"):
                cursor.acknowledge([positions[0], wrong])
            with pytest.raises(BKIncorrectParameterException):
                cursor.acknowledge_up_to(wrong)
            with pytest.raises(BKIncorrectParameterException):
                cursor.acknowledge_batch(wrong, 2, 0)
        assert found_by(cursor, positions) == []
        await ledger.close()

    tell(story)


def test_acknowledgement_of_what_is_not_there_needs_nothing() -> None:
    async def story(client: BookKeeper) -> None:
        ledger, cursor, positions = await with_cursor(client, entries=7)
        first = positions[0][0]
        cursor.acknowledge([(first, 99), (first - 1, 0), (first, -1)])
        assert cursor.state.ranges == ()
        for position in ((first, 99), (first - 1, 0), (first, -1)):
            cursor.acknowledge_batch(position, 64, 1)
        assert cursor.state.batches == ()
        # What lies beyond a closed ledger's end is its end.
        cursor.acknowledge_up_to((first, 99))
        assert cursor.mark_delete == (first, 4)
        await ledger.close()

    tell(story)


def test_cumulative_acknowledgement_in_front_of_a_ledger_is_found_again_as_it_was() -> None:
    async def story(client: BookKeeper) -> None:
        _ledger, cursor, positions = await with_cursor(client, entries=7)
        second = positions[5][0]
        cursor.acknowledge_up_to((second, -1))
        assert found_by(cursor, positions) == [0, 1, 2, 3, 4]
        await cursor.flush()
        again = await opened(client)
        assert again.cursors["s"].mark_delete == (second, -1)
        assert found_by(again.cursors["s"], positions) == [0, 1, 2, 3, 4]
        await again.close()

    tell(story)


def test_seek_makes_everything_behind_it_open_again_and_is_durable() -> None:
    async def story(client: BookKeeper) -> None:
        _ledger, cursor, positions = await with_cursor(client)
        cursor.acknowledge_up_to(positions[7])
        cursor.acknowledge([positions[9]])
        cursor.acknowledge_batch(positions[8], 2, 0b01)
        await cursor.flush()
        await cursor.reset(positions[5])
        assert found_by(cursor, positions) == [0, 1, 2, 3, 4]
        again = await opened(client)
        state = again.cursors["s"].state
        assert (state.ranges, state.batches) == ((), ())
        assert found_by(again.cursors["s"], positions) == [0, 1, 2, 3, 4]
        await again.cursors["s"].reset("latest")
        assert found_by(again.cursors["s"], positions) == list(range(10))
        await again.cursors["s"].reset("earliest")
        assert found_by(again.cursors["s"], positions) == []
        await again.close()

    tell(story)


def test_cursor_that_is_not_durable_leaves_nothing() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        cursor = await ledger.open_cursor("reader", "earliest", durable=False)
        positions = await stored(ledger, 0, 3)
        cursor.acknowledge(positions)
        await cursor.flush()
        await cursor.reset("earliest")
        assert cursor.unacknowledged_count == 3
        await ledger.close()
        again = await opened(client)
        assert list(again.cursors) == []
        await again.close()

    tell(story)


def test_part_of_a_batch_that_is_acknowledged_is_stored_without_anything_else() -> None:
    async def story(client: BookKeeper) -> None:
        _, cursor, positions = await with_cursor(client)
        cursor.acknowledge_batch(positions[3], 4, 0b0101)
        await asyncio.sleep(5)
        # Its owner is gone without a word.
        again = await opened(client)
        assert again.cursors["s"].left_in_batch(positions[3]) == 0b0101

    tell(story)
