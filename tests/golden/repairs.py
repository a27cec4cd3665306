"""Repairs for golden scripts: two instances of autorecovery, a and b, look after five bookies."""

import asyncio

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.trace.events import Event
from labkit.system.trace.log import TraceLog
from tests.system.autorecovery.world import World, run


def bookie_lost(entries: int, *, auditor_dies_after_s: float = 0.0) -> list[Event]:
    """b2 goes and does not come back; with `auditor_dies_after_s` the auditor dies then."""
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
