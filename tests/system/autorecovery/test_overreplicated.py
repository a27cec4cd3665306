"""Which ledgers a bookie may give up: those that others have got instead of it, and nobody is about
to give it again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest

from labkit.system.autorecovery.nodes import AutoRecoveryNodes
from labkit.system.autorecovery.overreplicated import OverreplicatedLedgers, is_overreplicated
from labkit.system.metadata.place import MetadataPlace
from labkit.system.metadata.store import MetadataError, MetadataUnavailableError, OnChange
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from labkit.worlds.sim.machine.metadata import SimMetadataStore
from tests.system.autorecovery.world import World, lose, run

NODES = AutoRecoveryNodes(MetadataPlace("any"))

BeginSession = Callable[[], Awaitable[SimMetadataStore]]
OLD = "b1"
"""Was there, and was replaced."""


class Looking:
    """What bookie `OLD` gives up when it looks."""

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
        """What is given up this time."""
        before = len(self.dropped)
        await self.ledgers.drop(ledger_ids, self.dropped.append)
        return self.dropped[before:]


async def moved_ledger(world: World) -> int:
    """A closed ledger whose copies on `OLD` were made again elsewhere; `OLD` is back."""
    await world.start_autorecovery("a")
    ledger_id = await world.closed_ledger(5)
    await lose(world, OLD)
    await world.start_bookie(OLD)
    return ledger_id


def test_closed_ledger_that_names_the_bookie_nowhere_may_go() -> None:
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


def test_ledger_that_others_have_instead_is_given_up() -> None:
    async def rule(world: World) -> None:
        moved = await moved_ledger(world)
        kept = await world.closed_ledger(5)
        assert OLD in (await world.ledger(kept)).segments[0].ensemble
        looking = Looking(world)
        assert await looking.look(moved, kept) == [moved]
        assert await world.store.children("/ledgers/underreplication/locks") == []
        await looking.look(kept)
        assert looking.session_count == 1

    run(rule)


def test_deleted_and_open_ledgers_are_left_alone() -> None:
    async def rule(world: World) -> None:
        moved = await moved_ledger(world)
        await world.client.delete_ledger(moved)
        writer = await world.client.create_ledger(2, 2, 2)
        looking = Looking(world)
        looking.look_as("b5", partial(world.metadata.session, "gc"))
        assert await looking.look(moved, writer.ledger_id) == []
        await writer.close()
        assert await looking.look(moved, writer.ledger_id) == [writer.ledger_id]

    run(rule)


def test_ledger_that_is_being_repaired_is_left_alone() -> None:
    async def rule(world: World) -> None:
        moved = await moved_ledger(world)
        await world.store.create(NODES.lock(moved), b"", ephemeral=True)
        looking = Looking(world)
        assert await looking.look(moved) == []
        await world.store.delete(NODES.lock(moved))
        assert await looking.look(moved) == [moved]

    run(rule)


def test_ledger_that_is_short_of_copies_is_left_alone() -> None:
    """What lies here may be the last copy of all."""

    async def rule(world: World) -> None:
        moved = await moved_ledger(world)
        await world.manager.disable()
        await asyncio.sleep(1)
        await world.manager.mark(moved, ["b2"])
        looking = Looking(world)
        assert await looking.look(moved) == []
        await world.manager.enable()
        await world.until_replicated()
        assert await looking.look(moved) == [moved]

    run(rule)


def test_a_ledger_is_locked_while_a_bookie_drops_it() -> None:
    async def rule(world: World) -> None:
        moved = await moved_ledger(world)
        looking = Looking(world)
        locked: list[bool] = []

        def drop(ledger_id: int) -> None:
            locked.append(world.metadata.zookeeper.tree.exists(NODES.lock(ledger_id), None))

        await looking.ledgers.drop([moved], drop)
        assert locked == [True]

    run(rule)


def test_bookie_that_was_named_again_before_it_had_the_lock_keeps_the_ledger() -> None:
    async def rule(world: World) -> None:
        moved = await moved_ledger(world)
        looking = Looking(world)

        async def begin_late() -> SimMetadataStore:
            await lose(world, "b2")
            return await world.metadata.session("gc")

        looking.look_as(OLD, begin_late)
        assert await looking.look(moved) == []
        assert OLD in (await world.ledger(moved)).segments[0].ensemble

    run(rule)


def test_marks_that_labkit_cannot_read_keep_everything_there() -> None:
    async def rule(world: World) -> None:
        moved = await moved_ledger(world)
        _, version = await world.store.get(f"{NODES.root}/LAYOUT")
        newer = b'type: "NEWER"\nversion: 3\n'
        await world.store.set(f"{NODES.root}/LAYOUT", newer, version)
        looking = Looking(world)
        with pytest.raises(MetadataError, match="NEWER"):
            await looking.look(moved)
        assert looking.dropped == []

    run(rule)


def test_lost_session_ends_the_look() -> None:
    """Its locks are gone: somebody else may have them."""

    async def rule(world: World) -> None:
        moved = await moved_ledger(world)
        zookeeper = world.metadata.zookeeper
        looking = Looking(world)
        look = asyncio.ensure_future(looking.look(moved))
        while not zookeeper.tree.exists(NODES.lock(moved), None):  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.0001)
        zookeeper.expire("gc")
        with suppress(MetadataUnavailableError):
            await look
        assert looking.dropped == []
        assert await looking.look(moved) == [moved]

    run(rule)


def test_session_of_a_look_ends_with_it() -> None:
    """It would hold a lock whose answer was lost."""

    async def rule(world: World) -> None:
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

    run(rule)


def test_session_that_was_lost_and_is_back_has_lost_the_locks_all_the_same() -> None:
    async def rule(world: World) -> None:
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

    run(rule)
