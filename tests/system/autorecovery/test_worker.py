"""Test that the metadata stays true while a worker copies, and that the check of this can fail."""

import asyncio

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import Rules
from labkit.system.autorecovery.replicator import LedgerFragmentReplicator
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
