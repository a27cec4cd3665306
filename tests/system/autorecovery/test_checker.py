"""What a check of a ledger's copies concludes from the bookies' answers."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from labkit.system.autorecovery import checker as checkers
from labkit.system.autorecovery.checker import LedgerChecker
from labkit.system.autorecovery.fragments import Underreplicated, missing_places
from labkit.system.autorecovery.ledger_view import missing_copies, view_ledger
from labkit.system.autorecovery.metadata_silence import SettledBookies
from labkit.system.model.errors import BKException
from tests.system.autorecovery.world import World, payload, run


class Settled:
    """The bookies that are registered; the store never falls silent."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.silence_count = 0

    async def now(self) -> SimpleNamespace:
        return SimpleNamespace(alive=[b.name for b in self.world.bookies.values() if b.is_up])


async def open_ledger(world: World, entry_count: int) -> int:
    """A ledger on b1, b2 and b3 whose writer goes on; all but its last entry are confirmed."""
    writer = await world.client.create_ledger(3, 3, 2)
    for number in range(entry_count):
        await writer.add(payload(number))
    await asyncio.sleep(1)
    return writer.ledger_id


async def checked(world: World, ledger_id: int) -> list[Underreplicated]:
    bookies = cast(SettledBookies, Settled(world))
    checker = LedgerChecker(world.client.context, bookies, 0, lambda n: 0, missing_places)
    return await checker.check(await view_ledger(world.client, ledger_id))


def test_open_ledger_that_misses_no_copy_is_sound() -> None:
    async def rule(world: World) -> None:
        for count in range(4):
            assert await checked(world, await open_ledger(world, count)) == []

    run(rule)


def test_only_confirmed_entry_that_all_bookies_have_lost_is_missed() -> None:
    async def rule(world: World) -> None:
        ledger_id = await open_ledger(world, 2)
        for name in ("b1", "b2", "b3"):
            world.bookies[name].lose(ledger_id, 0)
        [short] = await checked(world, ledger_id)
        assert short.bookies == ("b1", "b2", "b3")

    run(rule)


def test_entry_that_may_be_confirmed_is_missed_if_some_bookies_have_it() -> None:
    async def rule(world: World) -> None:
        ledger_id = await open_ledger(world, 1)
        world.bookies["b3"].lose(ledger_id, 0)
        [short] = await checked(world, ledger_id)
        assert short.bookies == ("b3",)
        for name in ("b1", "b2"):
            world.bookies[name].lose(ledger_id, 0)
        assert await checked(world, ledger_id) == []

    run(rule)


def test_check_is_repeated_if_the_metadata_store_fell_silent_meanwhile() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(3)
        settled, looks = Settled(world), 0
        sound_now = settled.now

        async def now() -> SimpleNamespace:
            nonlocal looks
            looks += 1
            registered = await sound_now()
            if looks == 1:
                registered.alive.remove("b2")
                asyncio.get_running_loop().call_soon(setattr, settled, "silence_count", 1)
            return registered

        settled.now = now  # type: ignore[method-assign]
        bookies = cast(SettledBookies, settled)
        checker = LedgerChecker(world.client.context, bookies, 0, lambda n: 0, missing_places)
        assert await checker.check(await view_ledger(world.client, ledger_id)) == []
        assert looks == 2

    run(rule)


def test_check_that_finds_nothing_is_not_repeated_whatever_the_metadata_store_did() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(3)
        settled, looks = Settled(world), 0
        sound_now = settled.now

        async def now() -> SimpleNamespace:
            nonlocal looks
            looks += 1
            asyncio.get_running_loop().call_soon(setattr, settled, "silence_count", looks)
            return await sound_now()

        settled.now = now  # type: ignore[method-assign]
        bookies = cast(SettledBookies, settled)
        checker = LedgerChecker(world.client.context, bookies, 0, lambda n: 0, missing_places)
        assert await checker.check(await view_ledger(world.client, ledger_id)) == []
        assert looks == 1

    run(rule)


def test_first_entry_may_be_there_if_a_bookie_that_should_have_it_does_not_answer() -> None:
    async def rule(world: World) -> None:
        ledger_id = await open_ledger(world, 1)
        for name in ("b1", "b2"):
            world.bookies[name].lose(ledger_id, 0)
        ledger = await view_ledger(world.client, ledger_id)
        world.bookies["b3"].is_up = False
        bookies = cast(SettledBookies, Settled(world))
        checker = LedgerChecker(world.client.context, bookies, 0, lambda n: 0, missing_places)
        [short] = await checker.check(ledger)
        assert short.bookies == ("b1", "b2", "b3")
        assert (short.fragment.first, short.fragment.last) == (0, 0)

    run(rule)


def test_bookies_that_should_not_have_the_first_entry_are_not_asked_for_it() -> None:
    async def rule(world: World) -> None:
        writer = await world.client.create_ledger(4, 2, 2)
        await writer.add(payload(0))
        await asyncio.sleep(1)
        ledger = await view_ledger(world.client, writer.ledger_id)
        world.rows.clear()
        bookies = cast(SettledBookies, Settled(world))
        checker = LedgerChecker(world.client.context, bookies, 0, lambda n: 0, missing_places)
        assert await checker.check(ledger) == []
        asked = {row.peer for row in world.events("read.sent")}
        assert asked == set(ledger.metadata.segments[0].ensemble[:2])

    run(rule)


def test_each_fragment_is_tested_with_its_own_bookies() -> None:
    async def rule(world: World) -> None:
        writer = await world.client.create_ledger(3, 3, 2)
        for number in range(2):
            await writer.add(payload(number))
        world.bookies["b3"].is_up = False
        for number in range(2, 5):
            await writer.add(payload(number))
        await asyncio.sleep(1)
        world.bookies["b3"].is_up = True
        assert await checked(world, writer.ledger_id) == []
        world.bookies["b3"].lose(writer.ledger_id, 1)
        world.bookies["b4"].lose(writer.ledger_id, 2)
        first, second = await checked(world, writer.ledger_id)
        assert (first.bookies, first.fragment.closed) == (("b3",), True)
        assert (second.bookies, second.fragment.closed) == (("b4",), False)
        world.bookies["b1"].is_up = False
        assert [short.bookies for short in await checked(world, writer.ledger_id)] == [
            ("b1", "b3"),
            ("b1", "b4"),
        ]

    run(rule)


def test_bookie_that_is_not_registered_is_asked_for_nothing() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(3)
        world.bookies["b2"].is_up = False
        world.rows.clear()
        [short] = await checked(world, ledger_id)
        assert short.bookies == ("b2",)
        assert {row.peer for row in world.events("read.sent")} == {"b1", "b3"}

    run(rule)


def test_one_bookie_is_asked_for_a_hundred_entries_at_a_time() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(250, (1, 1, 1))
        world.bookies["b1"].lose(ledger_id, 249)
        sizes: list[int] = []

        async def noted(*asked: list[int]) -> dict[int, BKException]:
            sizes.append(len(asked[2]))
            return await missing_copies(*asked)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(checkers, "missing_copies", noted)
            bookies = cast(SettledBookies, Settled(world))
            checker = LedgerChecker(world.client.context, bookies, 100, lambda n: 0, missing_places)
            [short] = await checker.check(await view_ledger(world.client, ledger_id))
        assert short.bookies == ("b1",)
        assert sizes == [100, 100, 50]

    run(rule)
