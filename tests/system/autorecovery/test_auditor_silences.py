"""What an auditor concludes when its metadata store falls silent again, or during an audit."""

import asyncio

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import AutoRecovery, Rules
from labkit.system.autorecovery.metadata_silence import MetadataSilence
from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.metadata.store import MetadataStore
from tests.system.autorecovery.test_auditor import marked, start
from tests.system.autorecovery.test_silence import GRACE_S, hang, lost
from tests.system.autorecovery.world import World, run


def test_bookies_get_more_time_after_each_silence_in_which_others_come_back() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        await world.start_autorecovery("a")
        names = ("b1", "b2", "b3")
        for _ in range(2):
            await hang(world)
            for name in names:
                await world.stop_bookie(name)
            for name in names:
                await asyncio.sleep(GRACE_S - 2)
                await world.start_bookie(name)
            await asyncio.sleep(60)
            assert lost(world) == []

    run(rule)


def test_bookie_that_comes_back_long_after_a_silence_gives_no_other_more_time() -> None:
    async def rule(world: World) -> None:
        world.config = AutoRecoveryConfig(lost_bookie_recovery_delay_s=50)
        await world.closed_ledger(3)
        await world.start_autorecovery("a")
        await hang(world)
        await world.stop_bookie("b2")
        await asyncio.sleep(30)
        await world.stop_bookie("b5")
        await asyncio.sleep(1)
        # Two are missing: they are lost at once.
        assert lost(world) == ["b2"]

    run(rule)


def test_audit_in_which_the_store_falls_silent_marks_nothing_and_is_made_again() -> None:
    async def rule(world: World) -> None:
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
                watchers[0].fell_silent()
            return await is_enabled(manager)

        with pytest.MonkeyPatch.context() as patched:
            await asyncio.sleep(900)
            patched.setattr(LedgerUnderreplicationManager, "is_enabled", silent)
            await asyncio.sleep(150)
            assert marked(world) == [(ledger_id, "x2")]
        [row] = world.events("ledger.underreplicated")
        assert GRACE_S <= row.time_us / 1e6 - silent_at[0] < GRACE_S + 1

    run(rule)


@pytest.mark.parametrize("follows", [False, True])
def test_instance_that_follows_a_silence_begins_with_a_grace_period(follows: bool) -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(3)
        store = await world.metadata.session("a")
        client = world.new_client("a", store)
        instance = AutoRecovery(
            "a", client, AutoRecoveryConfig(), lambda n: 0, follows_silence=follows
        )
        running = world.metadata.processes["a"].spawn(instance.run())
        await asyncio.sleep(1)
        await world.stop_bookie("b2")
        await asyncio.sleep(GRACE_S - 3)
        assert lost(world) == ([] if follows else ["b2"])
        await asyncio.sleep(5)
        assert lost(world) == ["b2"]
        assert not running.done()

    run(rule)
