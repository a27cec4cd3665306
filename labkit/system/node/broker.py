"""Runs a started broker and shuts it down.

In Pulsar: `broker/PulsarService.java` (closeAsync), `brokerShutdownTimeoutMs`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from labkit.system.broker.broker import Broker
from labkit.system.metadata.store import MetadataError

_STOP_TIMEOUT_S = 8.0
"""How long to wait for topics to close. If too few bookies respond to close a topic in this time,
its next owner recovers it.
"""


async def serve_until_stopped(
    stopped: asyncio.Event, broker: Broker, stop_accepting: Callable[[], None]
) -> None:
    """Run a broker until `stopped` is set or the broker fails. If it fails, raise its error.
    Otherwise, stop accepting clients, and close the broker's topics.
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
