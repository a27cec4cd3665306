"""What a check of a ledger's copies concludes from the bookies' answers."""

import asyncio
from types import SimpleNamespace
from typing import cast

from labkit.autorecovery.checker import LedgerChecker
from labkit.autorecovery.copies import look_at
from labkit.autorecovery.fragments import Underreplicated, missing_places
from labkit.autorecovery.steadiness import SettledBookies
from tests.autorecovery.world import World, payload, run


class Settled:
    """The bookies that are registered; the store never falls silent."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.silences = 0

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
    return await checker.check(await look_at(world.client, ledger_id))


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
                asyncio.get_running_loop().call_soon(setattr, settled, "silences", 1)
            return registered

        settled.now = now  # type: ignore[method-assign]
        bookies = cast(SettledBookies, settled)
        checker = LedgerChecker(world.client.context, bookies, 0, lambda n: 0, missing_places)
        assert await checker.check(await look_at(world.client, ledger_id)) == []
        assert looks == 2

    run(rule)
