"""Test which copies the ledger checker reports as missing, given the bookies' responses."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from labkit.system.autorecovery.checker import LedgerChecker
from labkit.system.autorecovery.fragments import underreplicated_indexes
from labkit.system.autorecovery.ledger_view import view_ledger
from labkit.system.autorecovery.metadata_silence import SettledBookies
from labkit.system.metadata.store import MetadataUnavailableError, OnChange
from tests.system.autorecovery.world import World, simulated


class Settled:
    """Stand-in for `SettledBookies` with a metadata store that always responds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.silence_count = 0

    async def now(self) -> SimpleNamespace:
        return SimpleNamespace(alive=[b.name for b in self.world.bookies.values() if not b.is_down])


def checker(world: World, settled: Settled | None = None, percentage: int = 0) -> LedgerChecker:
    bookies = cast(SettledBookies, settled or Settled(world))
    return LedgerChecker(
        world.client.context, bookies, percentage, lambda n: 0, underreplicated_indexes
    )


@pytest.mark.parametrize("finds_a_loss", [True, False])
@simulated
async def test_a_check_that_finds_missing_copies_during_a_silence_is_repeated(
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
async def test_at_most_a_hundred_entries_are_requested_from_one_bookie_at_once(
    world: World,
) -> None:
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


@simulated
async def test_a_bookie_whose_address_cannot_be_read_is_not_missing_its_copies(
    world: World,
) -> None:
    """The metadata store may have lost the connection only briefly, so there was no silence."""
    ledger_id = await world.closed_ledger(3)
    store = await world.metadata.session("other")
    world.client = world.new_client("other", store)
    ledger = await view_ledger(world.client, ledger_id)
    get = store.get

    async def lost(path: str, on_change: OnChange | None = None) -> tuple[bytes, int]:
        if path.endswith("/b2"):
            raise MetadataUnavailableError("the connection was lost")
        return await get(path, on_change)

    store.get = lost  # type: ignore[method-assign]
    with pytest.raises(MetadataUnavailableError, match="the connection was lost"):
        await checker(world).check(ledger)
    store.get = get  # type: ignore[method-assign]
    await asyncio.sleep(1)
    assert await checker(world).check(ledger) == []
