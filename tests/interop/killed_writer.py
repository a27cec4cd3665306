"""Write a ledger with labkit's client, print its id, and wait to be killed.

python -m tests.interop.killed_writer ZOOKEEPER
"""

import asyncio
import sys

from labkit.system.client.placement.placement import in_name_order
from labkit.system.metadata.location import MetadataLocation
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.new_client import new_client
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.interop.payloads import PASSWORD, PAYLOADS


async def write(zookeeper: str) -> None:
    metadata = ZooKeeperStore(MetadataLocation(zookeeper))
    await metadata.start()
    client = new_client(metadata, Recorder("killed", trace_clock_us), placement=in_name_order)
    writer = await client.create_ledger(3, 3, 2, password=PASSWORD)
    for payload in PAYLOADS:
        await writer.add(payload)
    sys.stdout.write(f"{writer.ledger_id}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


asyncio.run(write(sys.argv[1]))
