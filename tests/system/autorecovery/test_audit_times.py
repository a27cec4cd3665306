"""Test when a bookie counts as lost, and that a silence of the metadata store loses none."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import AutoRecovery, Rules
from labkit.system.autorecovery.metadata_silence import MetadataSilence
from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.metadata.cluster import NoClusterError
from labkit.system.metadata.store import ANY_VERSION, MetadataStore
from tests.system.autorecovery.test_auditor import marked, start
from tests.system.autorecovery.world import World, simulated

HANG_S = 6.0
"""Longer than the session timeout."""
GRACE_S = 10.0
DELAY, CHECK = "lost_bookie_recovery_delay_s", "auditor_periodic_check_interval_s"


async def hang(world: World, for_s: float = HANG_S) -> None:
    world.metadata.hang()
    await asyncio.sleep(for_s)
    world.metadata.thaw()


def lost(world: World) -> list[str]:
    return [row.peer for row in world.events("bookie.lost")]


async def expire(world: World, node: str) -> None:
    world.metadata.zookeeper.expire(node)


STEPS: dict[str, Callable[[World, str], Awaitable[None]]] = {
    "elect": World.start_autorecovery,
    "stop": World.stop_bookie,
    "start": World.start_bookie,
    "readonly": partial(World.start_bookie, read_only=True),
    "expire": expire,
    "hang": lambda world, seconds: hang(world, float(seconds)),
    "delay": lambda world, delay: world.manager.set_lost_bookie_recovery_delay(int(delay)),
    "turn": lambda world, on: world.manager.enable() if on == "on" else world.manager.disable(),
}


async def play(world: World, steps: str) -> None:
    """Take these steps; "9 s b2" waits 9 seconds, after which exactly b2 must have been lost."""
    for step in steps.split(", "):
        first, *others = step.split()
        if others[0] == "s":
            await asyncio.sleep(float(first))
            assert lost(world) == others[1:], step
        else:
            for each in others:
                await STEPS[first](world, each)
        # Ledger 0 is on b1, b2 and b3.
        assert bool(marked(world)) is any(name in ("b1", "b2", "b3") for name in lost(world)), step


ONE_BY_ONE = "hang 6, stop b1 b2 b3, 8 s, start b1, 8 s, start b2, 8 s, start b3, 60 s"
ALL = "expire a b1 b2 b3 b4 b5"


@pytest.mark.parametrize(
    ("steps", "config"),
    [
        # A single missing bookie has until the end of the delay to return.
        ("elect a, stop b2, 50 s, start b2, 200 s, stop b2, 50 s, 20 s b2", {DELAY: 60}),
        ("elect a, readonly b2, 5 s, start b2, 5 s, readonly b2, 5 s", {}),
        ("elect a, stop b2, 20 s, stop b3, 1 s b2 b3", {DELAY: 600}),
        ("stop b2, elect a, 30 s, 40 s b2", {DELAY: 60}),
        # The delay stored in the metadata store applies. Writing 0 or the current value again
        # requests an audit.
        ("delay 100, elect a, stop b2, 90 s, 15 s b2", {DELAY: 5}),
        ("elect a, stop b2, 10 s, delay 0, 1 s b2", {DELAY: 600}),
        ("elect a, stop b2, 10 s, delay 600, 1 s b2", {DELAY: 600}),
        ("elect a, stop b2, 10 s, delay 60, 40 s, 15 s b2", {DELAY: 600}),
        ("elect a, stop b2, 10 s, delay 599, delay 601, 40 s", {DELAY: 600}),
        # Nothing is marked while autorecovery is disabled, and a periodic check waits for the
        # audit.
        ("turn off, elect a, stop b2, 100 s, turn on, 1 s b2", {}),
        ("elect a, turn off, 1 s, stop b2, 100 s, turn on, 30 s, 40 s b2", {DELAY: 60}),
        ("elect a, stop b2, 400 s, 120 s b2", {DELAY: 500, CHECK: 100}),
        # A new auditor gives bookies time to register again.
        ("stop b2, elect a, 7 s, 5 s b2", {}),
        ("elect a, expire a, elect b, 1 s, stop b2, 5 s, 10 s b2", {}),
        (f"elect a, {ALL}, elect b, start b1, 1 s, start b2 b3, 1 s, start b4 b5, 30 s", {}),
        # After the metadata store has been silent, bookies have ten seconds to return.
        ("elect a, hang 0.5, stop b2, 1 s b2", {}),
        ("elect a, hang 6, stop b2, 9 s, start b2, 60 s", {}),
        ("elect a, hang 6, stop b2 b3, 9 s, start b2 b3, 60 s", {}),
        ("elect a, hang 6, stop b2, 9 s, 3 s b2", {}),
        ("elect a, hang 6, stop b2, delay 0, 8 s, 4 s b2", {}),
        ("elect a, stop b2, 50 s, hang 6, 58 s, 4 s b2", {DELAY: 60}),
        # Each returning bookie gives the others another ten seconds, but only after such a silence.
        (f"elect a, {ONE_BY_ONE}, {ONE_BY_ONE}", {}),
        ("elect a, hang 6, stop b2, 30 s, stop b5, 1 s b2", {DELAY: 50}),
    ],
)
@simulated
async def test_bookies_are_lost_only_when_their_time_is_up(
    world: World, steps: str, config: dict[str, Any]
) -> None:
    world.config = AutoRecoveryConfig(**config)
    await world.closed_ledger(3)
    await play(world, steps)


@simulated
async def test_a_bookie_that_comes_and_goes_does_not_prolong_the_wait_for_ever(
    world: World,
) -> None:
    await world.closed_ledger(3)
    await world.start_autorecovery("a")
    await hang(world)
    await world.stop_bookie("b2")
    for _ in range(20):
        await world.stop_bookie("b5")
        await asyncio.sleep(1)
        await world.start_bookie("b5")
        await asyncio.sleep(1)
    assert "b2" in lost(world)


@pytest.mark.promise(
    "No auditor declares the bookie in its own process lost, and without a list of bookies, "
    "none is declared lost"
)
@simulated
async def test_an_auditor_never_takes_the_bookie_in_its_process_for_lost(world: World) -> None:
    await world.closed_ledger(3)
    await world.start_autorecovery("a", own_bookie="b2")
    await world.stop_bookie("b2")
    await asyncio.sleep(100)
    assert (lost(world), marked(world)) == ([], [])
    await world.stop_bookie("b3")
    await asyncio.sleep(1)
    assert lost(world) == ["b3"]


@simulated
async def test_a_worker_copies_nothing_for_a_bookie_that_a_hang_made_invisible(
    world: World,
) -> None:
    ledger_id = await world.closed_ledger(3)
    await world.start_autorecovery("a")
    await hang(world)
    await world.stop_bookie("b2")
    await world.manager.mark(ledger_id, ["b2"])
    await asyncio.sleep(GRACE_S - 2)
    await world.start_bookie("b2")
    await asyncio.sleep(60)
    assert world.events("entry.copied") == []
    assert await world.manager.ledgers() == []


@simulated
async def test_bookies_of_which_the_list_is_missing_are_not_lost(world: World) -> None:
    await world.closed_ledger(3)
    await world.start_autorecovery("a")
    tree = world.metadata.zookeeper.tree
    for path in ("readonly", "b1", "b2", "b3", "b4", "b5", ""):
        tree.delete(f"/ledgers/available/{path}".rstrip("/"), ANY_VERSION)
    with pytest.raises(NoClusterError, match="/ledgers/available is missing"):
        await world.instances["a"]
    assert (lost(world), marked(world)) == ([], [])


@simulated
async def test_audit_in_which_the_store_falls_silent_marks_nothing_and_is_made_again(
    world: World,
) -> None:
    watchers: list[MetadataSilence] = []

    def watching(store: MetadataStore) -> MetadataSilence:
        watchers.append(MetadataSilence(store))
        return watchers[-1]

    world.rules = Rules(metadata_silence=watching)
    ledger_id = await world.closed_ledger(3)
    await start(world, auditor_periodic_bookie_check_interval_s=1000)
    await asyncio.sleep(5)
    path = f"/ledgers/00/0000/L{ledger_id:04}"
    data, version = await world.store.get(path)
    await world.store.set(path, data.replace(b"b2", b"x2"), version)
    silent_at: list[float] = []
    is_enabled = LedgerUnderreplicationManager.is_enabled

    async def silent(manager: LedgerUnderreplicationManager) -> bool:
        if not silent_at:
            silent_at.append(asyncio.get_running_loop().time())
            watchers[0].silence_ended()
        return await is_enabled(manager)

    with pytest.MonkeyPatch.context() as patched:
        await asyncio.sleep(900)
        patched.setattr(LedgerUnderreplicationManager, "is_enabled", silent)
        await asyncio.sleep(150)
        assert marked(world) == [(ledger_id, "x2")]
    [row] = world.events("ledger.underreplicated")
    assert GRACE_S <= row.time_us / 1e6 - silent_at[0] < GRACE_S + 1


@pytest.mark.parametrize("follows", [False, True])
@simulated
async def test_instance_that_follows_a_silence_begins_with_a_grace_period(
    world: World, follows: bool
) -> None:
    await world.closed_ledger(3)
    store = await world.metadata.session("a")
    client = world.new_client("a", store)
    instance = AutoRecovery("a", client, AutoRecoveryConfig(), lambda n: 0, follows_silence=follows)
    running = world.metadata.processes["a"].spawn(instance.run())
    await asyncio.sleep(1)
    await world.stop_bookie("b2")
    await asyncio.sleep(GRACE_S - 3)
    assert lost(world) == ([] if follows else ["b2"])
    await asyncio.sleep(5)
    assert lost(world) == ["b2"]
    assert not running.done()


@simulated
async def test_writing_0_audits_at_once_though_no_bookie_is_waited_for(world: World) -> None:
    await world.closed_ledger(3, (5, 3, 2))
    await start(world, lost_bookie_recovery_delay_s=5)
    await world.stop_bookie("b2")
    await asyncio.sleep(30)
    assert [row.peer for row in world.events("bookie.lost")] == ["b2"]
    await world.manager.set_lost_bookie_recovery_delay(0)
    await asyncio.sleep(1)
    assert [row.peer for row in world.events("bookie.lost")] == ["b2", "b2"]
