"""Write a ledger with labkit's client, print its id, and wait to be killed.

python -m tests.interop.killed_writer ZOOKEEPER
"""

import asyncio
import random
import sys

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.placement.placement import in_name_order
from labkit.system.metadata.location import MetadataLocation
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import trace_clock_us, wall_clock_ms
from labkit.worlds.live.net import TcpNetwork
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.interop.payloads import PASSWORD, PAYLOADS


async def write(zookeeper: str) -> None:
    metadata = ZooKeeperStore(MetadataLocation(zookeeper))
    await metadata.start()
    client = BookKeeper(
        metadata,
        TcpNetwork(),
        Recorder("killed", trace_clock_us),
        in_name_order,
        lambda: random.getrandbits(63),
        wall_clock_ms,
    )
    writer = await client.create_ledger(3, 3, 2, password=PASSWORD)
    for payload in PAYLOADS:
        await writer.add(payload)
    sys.stdout.write(f"{writer.ledger_id}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


asyncio.run(write(sys.argv[1]))
