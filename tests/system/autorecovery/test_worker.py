"""Test a worker that dies while copying, a repair that fails, and the limit on copying speed."""

import asyncio
from dataclasses import replace
from typing import Any

from labkit.system.autorecovery.replicator import LedgerFragmentReplicator
from labkit.system.model.errors import BKWriteException
from tests.system.autorecovery.world import World, simulated


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
