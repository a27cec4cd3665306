"""Runs a broker that has been started, and shuts it down.

In Pulsar: `broker/PulsarService.java` (closeAsync), `brokerShutdownTimeoutMs`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from labkit.system.broker.broker import Broker
from labkit.system.metadata.store import MetadataError

_STOP_TIMEOUT_S = 8.0
"""The time to wait for topics to be closed. Topics that could not be closed by then, because too
few bookies responded, are recovered by their next owner.
"""


async def serve_until_stopped(
    stopped: asyncio.Event, broker: Broker, stop_accepting: Callable[[], None]
) -> None:
    """Run a broker until `stopped` is set or the broker fails. If the broker fails, raise its
    error; otherwise, stop accepting clients and close the broker's topics.
    """
    running = asyncio.create_task(broker.run())
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        running.cancel()
        stopping.cancel()
    stop_accepting()
    with suppress(TimeoutError, MetadataError):
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            await broker.stop()
