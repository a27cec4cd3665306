"""Runs for golden scripts about repairs, with five bookies and two autorecovery instances."""

import asyncio

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.trace.events import Event
from labkit.system.trace.log import TraceLog
from tests.system.autorecovery.world import World, run


def bookie_lost(entries: int, *, auditor_dies_after_s: float = 0.0) -> list[Event]:
    """Stop b2 for good; with `auditor_dies_after_s`, also kill the auditor after that time."""
    log = TraceLog()

    async def body(world: World) -> None:
        await world.closed_ledger(entries)
        if auditor_dies_after_s:
            world.config = AutoRecoveryConfig(lost_bookie_recovery_delay_s=10)
        await world.start_autorecovery("a", "b")
        await world.stop_bookie("b2")
        if auditor_dies_after_s:
            await asyncio.sleep(auditor_dies_after_s)
            [elected] = world.events("auditor.elected")
            world.metadata.crash(elected.node)
        await world.until_replicated()
        log.add(world.rows)

    run(body)
    log.settle()
    return log.events
