"""Test a worker that dies while copying, a repair that fails, and the limit on copying speed."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import Rules
from labkit.system.autorecovery.replicator import LedgerFragmentReplicator
from labkit.system.model.errors import BKWriteException
from labkit.worlds.sim.variants.cluster_variants import MetadataBeforeCopy
from tests.system.autorecovery.world import World, simulated


@pytest.mark.parametrize(
    ("replicator", "promises_kept"), [(LedgerFragmentReplicator, True), (MetadataBeforeCopy, False)]
)
@simulated
async def test_the_metadata_is_true_if_the_worker_dies_while_copying(
    world: World, replicator: type[LedgerFragmentReplicator], promises_kept: bool
) -> None:
    ledger_id = await world.closed_ledger(50)
    world.rules = Rules(replicator=replicator)
    # Copy so slowly that the worker dies in the middle.
    world.config = AutoRecoveryConfig(
        replication_rate_by_bytes=100, rereplication_entry_batch_size=5
    )
    await world.start_autorecovery("a")
    await world.stop_bookie("b2")
    await asyncio.sleep(5)
    world.metadata.crash("a")
    assert world.events("entry.copied")
    named = [name for _, name in await world.missing(ledger_id)]
    assert all(name == "b2" for name in named) is promises_kept


class FailsOnce(LedgerFragmentReplicator):
    """Reports an error once, after all copies that a check reads have been stored."""

    failed = False

    async def publish(self, *args: Any) -> None:
        await super().publish(*args)
        if not FailsOnce.failed:
            FailsOnce.failed = True
            raise BKWriteException("the target failed to store an entry")


@simulated
async def test_a_failed_repair_is_repeated_even_if_a_check_finds_no_copy_missing(
    world: World,
) -> None:
    FailsOnce.failed = False
    ledger_id = await world.closed_ledger(5)
    world.rules = replace(world.rules, replicator=FailsOnce)
    await world.start_autorecovery("a")
    await world.stop_bookie("b2")
    await asyncio.sleep(1)
    await world.until_replicated()
    found = world.events("replication.deferred", "replication.done")
    assert [(row.kind, row.ledger) for row in found] == [
        ("replication.deferred", ledger_id),
        ("replication.done", ledger_id),
    ]


@simulated
async def test_the_rate_limits_all_fragments_together(world: World) -> None:
    for _ in range(5):
        await world.closed_ledger(10)
    size = sum(map(len, world.bookies["b2"].entries.values()))
    world.config = AutoRecoveryConfig(replication_rate_by_bytes=size // 20)
    await world.start_autorecovery("a")
    await world.stop_bookie("b2")
    await asyncio.sleep(1)
    await world.until_replicated()
    copied = [row.time_us for row in world.events("entry.copied")]
    # Without a limit, or with one per fragment, this takes milliseconds. The last fragment's
    # entries are stored immediately.
    assert 15 <= (copied[-1] - copied[0]) / 1e6 <= 21
