"""A broker's time between its start and its end.

In Pulsar: `broker/PulsarService.java` (closeAsync), `brokerShutdownTimeoutMs`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from labkit.system.broker.broker import Broker
from labkit.system.metadata.store import MetadataError

_STOP_TIMEOUT_S = 8.0
"""How long topics may take to close.  While bookies or the metadata store are away they cannot, and
the next owner recovers them.
"""


async def serve_until(
    stopped: asyncio.Event, broker: Broker, close_doors: Callable[[], None]
) -> None:
    """Look after a started broker; then accept no new client, and give up its topics in order.

    Raises what ends the broker before that.
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
    close_doors()
    with suppress(TimeoutError, MetadataError):
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            await broker.stop()
