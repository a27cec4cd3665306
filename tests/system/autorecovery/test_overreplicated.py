"""Test which ledgers a bookie may drop: only ledgers that are not being repaired and whose entries
are now stored by other bookies in its place.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from labkit.system.autorecovery.overreplicated import OverreplicatedLedgers, is_overreplicated
from labkit.system.metadata.ledger_layout import FLAT
from labkit.system.metadata.store import ANY_VERSION, MetadataUnavailableError, OnChange
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from labkit.worlds.sim.machine.metadata import SimMetadataStore
from tests.system.autorecovery.world import PATHS, World, simulated

BeginSession = Callable[[], Awaitable[SimMetadataStore]]
OLD = "b1"
"""A bookie that was replaced while it was away."""


class Looking:
    """Runs the overreplication check of bookie `OLD` and records which ledgers it drops."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.session_count = 0
        self.dropped: list[int] = []
        self.look_as(OLD, self._begin_session)

    def look_as(self, bookie: str, begin_session: BeginSession) -> None:
        self.ledgers = OverreplicatedLedgers(
            bookie, self.world.store, begin_session, lambda n: 0, self.world.wall_clock_ms
        )

    async def _begin_session(self) -> SimMetadataStore:
        self.session_count += 1
        return await self.world.metadata.session("gc")

    async def look(self, *ledger_ids: int) -> list[int]:
        """Run the check and return the ledgers that it dropped."""
        before = len(self.dropped)
        await self.ledgers.drop(ledger_ids, self.dropped.append)
        return self.dropped[before:]


async def moved_ledger(world: World) -> int:
    """Close a ledger, let `OLD`'s copies be replicated elsewhere, and bring `OLD` back."""
    await world.start_autorecovery("a")
    ledger_id = await world.closed_ledger(5)
    await world.stop_bookie(OLD)
    await world.until_replicated()
    await world.start_bookie(OLD)
    return ledger_id


@pytest.mark.promise(
    "A bookie drops a ledger only if it is closed, fully replicated elsewhere, and not being "
    "repaired (`gcOverreplicatedLedgerWaitTime`)"
)
def test_a_closed_ledger_that_does_not_list_the_bookie_is_overreplicated() -> None:
    one, two = Segment(0, ("b1", "b2")), Segment(5, ("b2", "b3"))
    closed = LedgerMetadata(2, 2, 2, (one, two), state=LedgerState.CLOSED, last_entry_id=9)
    assert [is_overreplicated(closed, name) for name in ("b1", "b2", "b3", "b4")] == [
        False,
        False,
        False,
        True,
    ]
    for state in LedgerState.OPEN, LedgerState.IN_RECOVERY:
        assert not is_overreplicated(LedgerMetadata(2, 2, 2, (one,), state=state), "b4")


@simulated
async def test_a_ledger_is_locked_while_a_bookie_drops_it(world: World) -> None:
    moved = await moved_ledger(world)
    looking = Looking(world)
    locked: list[bool] = []

    def drop(ledger_id: int) -> None:
        locked.append(world.metadata.zookeeper.tree.exists(PATHS.lock(ledger_id), None))

    await looking.ledgers.drop([moved], drop)
    assert locked == [True]


@simulated
async def test_the_metadata_is_read_again_under_the_lock(
    world: World,
) -> None:
    moved = await moved_ledger(world)
    looking = Looking(world)

    async def begin_late() -> SimMetadataStore:
        await world.stop_bookie("b2")
        await world.until_replicated()
        return await world.metadata.session("gc")

    looking.look_as(OLD, begin_late)
    assert await looking.look(moved) == []
    assert OLD in (await world.ledger(moved)).segments[0].ensemble


@simulated
async def test_nothing_is_dropped_after_the_session_is_lost(world: World) -> None:
    """The session's locks are gone, so another client may hold them now."""
    moved = await moved_ledger(world)
    zookeeper = world.metadata.zookeeper
    looking = Looking(world)
    look = asyncio.ensure_future(looking.look(moved))
    while not zookeeper.tree.exists(PATHS.lock(moved), None):  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.0001)
    zookeeper.expire("gc")
    with suppress(MetadataUnavailableError):
        await look
    assert looking.dropped == []
    assert await looking.look(moved) == [moved]


@simulated
async def test_the_session_is_closed_after_each_check(world: World) -> None:
    """Otherwise the session would keep a lock that was created although its response was lost."""
    moved = await moved_ledger(world)
    looking, stopped = Looking(world), []

    async def begin() -> SimMetadataStore:
        session = await world.metadata.session("gc")
        stop = session.stop

        async def noted() -> None:
            stopped.append(True)
            await stop()

        session.stop = noted  # type: ignore[method-assign]
        return session

    looking.look_as(OLD, begin)
    assert await looking.look(moved) == [moved]
    assert stopped == [True]


@simulated
async def test_nothing_is_dropped_if_the_session_was_replaced_by_a_new_one(
    world: World,
) -> None:
    moved = await moved_ledger(world)
    looking = Looking(world)
    told: list[Callable[[], None]] = []

    async def begin() -> SimMetadataStore:
        session = await world.metadata.session("gc")
        session.on_new_session = told.append  # type: ignore[assignment, method-assign]
        get = session.get

        async def lost_meanwhile(path: str, *watch: OnChange) -> tuple[bytes, int]:
            if path.endswith(f"L{moved:04}"):
                for lose_locks in told:
                    lose_locks()
            return await get(path, *watch)

        session.get = lost_meanwhile  # type: ignore[method-assign,assignment]
        return session

    looking.look_as(OLD, begin)
    assert await looking.look(moved) == []
    assert len(told) == 1


@simulated
async def test_a_ledger_whose_id_is_too_large_for_the_layout_is_kept(world: World) -> None:
    await world.store.set("/ledgers/LAYOUT", FLAT.encode(), ANY_VERSION)
    assert await Looking(world).look(10**12) == []
