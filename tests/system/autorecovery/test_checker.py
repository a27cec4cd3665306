"""Test which copies the ledger checker reports as missing, given the bookies' responses."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from labkit.system.autorecovery.checker import LedgerChecker
from labkit.system.autorecovery.fragments import UnderreplicatedFragment, underreplicated_indexes
from labkit.system.autorecovery.ledger_view import view_ledger
from labkit.system.autorecovery.metadata_silence import SettledBookies
from tests.system.autorecovery.world import World, payload, simulated


class Settled:
    """Stand-in for `SettledBookies` with a metadata store that always responds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.silence_count = 0

    async def now(self) -> SimpleNamespace:
        return SimpleNamespace(alive=[b.name for b in self.world.bookies.values() if b.is_up])


async def open_ledger(world: World, entry_count: int) -> int:
    """Write a ledger on b1, b2 and b3 and leave it open, with all but the last entry confirmed."""
    writer = await world.client.create_ledger(3, 3, 2)
    for number in range(entry_count):
        await writer.add(payload(number))
    await asyncio.sleep(1)
    return writer.ledger_id


def checker(world: World, settled: Settled | None = None, percentage: int = 0) -> LedgerChecker:
    bookies = cast(SettledBookies, settled or Settled(world))
    return LedgerChecker(
        world.client.context, bookies, percentage, lambda n: 0, underreplicated_indexes
    )


async def checked(world: World, ledger_id: int) -> list[UnderreplicatedFragment]:
    return await checker(world).check(await view_ledger(world.client, ledger_id))


@simulated
async def test_open_ledger_that_misses_no_copy_is_sound(world: World) -> None:
    for count in range(4):
        assert await checked(world, await open_ledger(world, count)) == []


@simulated
async def test_only_confirmed_entry_that_all_bookies_have_lost_is_missed(world: World) -> None:
    ledger_id = await open_ledger(world, 2)
    for name in ("b1", "b2", "b3"):
        world.bookies[name].lose(ledger_id, 0)
    [short] = await checked(world, ledger_id)
    assert short.bookies == ("b1", "b2", "b3")


@simulated
async def test_entry_that_may_be_confirmed_is_missed_if_some_bookies_have_it(world: World) -> None:
    ledger_id = await open_ledger(world, 1)
    world.bookies["b3"].lose(ledger_id, 0)
    [short] = await checked(world, ledger_id)
    assert short.bookies == ("b3",)
    for name in ("b1", "b2"):
        world.bookies[name].lose(ledger_id, 0)
    assert await checked(world, ledger_id) == []


@pytest.mark.parametrize("finds_a_loss", [True, False])
@simulated
async def test_check_that_finds_a_loss_is_repeated_if_the_metadata_store_fell_silent_meanwhile(
    world: World, finds_a_loss: bool
) -> None:
    ledger_id = await world.closed_ledger(3)
    settled, looks = Settled(world), 0
    sound_now = settled.now

    async def now() -> SimpleNamespace:
        nonlocal looks
        looks += 1
        registered = await sound_now()
        if looks == 1:
            asyncio.get_running_loop().call_soon(setattr, settled, "silence_count", 1)
            if finds_a_loss:
                registered.alive.remove("b2")
        return registered

    settled.now = now  # type: ignore[method-assign]
    found = await checker(world, settled).check(await view_ledger(world.client, ledger_id))
    assert (found, looks) == ([], 1 + finds_a_loss)


@simulated
async def test_first_entry_may_be_there_if_a_bookie_that_should_have_it_does_not_answer(
    world: World,
) -> None:
    ledger_id = await open_ledger(world, 1)
    for name in ("b1", "b2"):
        world.bookies[name].lose(ledger_id, 0)
    ledger = await view_ledger(world.client, ledger_id)
    world.bookies["b3"].is_up = False
    [short] = await checker(world).check(ledger)
    assert short.bookies == ("b1", "b2", "b3")
    assert (short.fragment.first, short.fragment.last) == (0, 0)


@simulated
async def test_bookies_that_should_not_have_the_first_entry_are_not_asked_for_it(
    world: World,
) -> None:
    writer = await world.client.create_ledger(4, 2, 2)
    await writer.add(payload(0))
    await asyncio.sleep(1)
    ledger = await view_ledger(world.client, writer.ledger_id)
    world.rows.clear()
    assert await checker(world).check(ledger) == []
    asked = {row.peer for row in world.events("read.sent")}
    assert asked == set(ledger.metadata.segments[0].ensemble[:2])


@simulated
async def test_each_fragment_is_tested_with_its_own_bookies(world: World) -> None:
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


@simulated
async def test_bookie_that_is_not_registered_is_asked_for_nothing(world: World) -> None:
    ledger_id = await world.closed_ledger(3)
    world.bookies["b2"].is_up = False
    world.rows.clear()
    [short] = await checked(world, ledger_id)
    assert short.bookies == ("b2",)
    assert {row.peer for row in world.events("read.sent")} == {"b1", "b3"}


@simulated
async def test_one_bookie_is_asked_for_a_hundred_entries_at_a_time(world: World) -> None:
    ledger_id = await world.closed_ledger(250, (1, 1, 1))
    world.bookies["b1"].lose(ledger_id, 249)
    world.rows.clear()
    ledger = await view_ledger(world.client, ledger_id)
    [short] = await checker(world, percentage=100).check(ledger)
    assert short.bookies == ("b1",)
    under_way = [0]
    for row in world.events("read.sent", "read.done", "read.failed"):
        under_way.append(under_way[-1] + (1 if row.kind == "read.sent" else -1))
    assert (max(under_way), len(under_way)) == (100, 1 + 2 * 250)
