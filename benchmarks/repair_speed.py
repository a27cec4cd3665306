"""Measures the speed of re-replication, and the time it takes to start a cluster and add an entry.

A cluster has four bookies, and its ledgers are stored on three of them. One of the three is killed
and does not return: its session expires, the auditor marks its ledgers, and workers copy them to
the fourth bookie.
"""

import asyncio
from pathlib import Path
from time import perf_counter

from benchmarks.measure import Figure, ratios
from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import in_name_order
from labkit.worlds.live.processes.cluster import LocalCluster

_LEDGERS = 4
_PAYLOAD = bytes(1024)
_WINDOW = 1000
_POLL_S = 0.01
_REPAIR_POLL_S = 0.05
"""Each poll costs dozens of ZooKeeper requests, which compete with the repair."""
_MB = 1e6
_TIMEOUT_S = 600


async def repair_figure(folder: Path, gigabytes: float, repeat_count: int) -> Figure:
    adds, repairs = [], []
    for number in range(repeat_count):
        async with LocalCluster(
            4, folder=folder / f"repair-{number}", traced=False, autorecovery={}
        ) as cluster:
            config = ClientConfig(max_pending_adds=_WINDOW)
            client = await cluster.connect(placement=in_name_order, config=config)
            count = int(gigabytes * 1e9 / _LEDGERS / len(_PAYLOAD))
            size = count * _LEDGERS * len(_PAYLOAD)
            adds.append(size / await _write(client, count))
            await cluster.kill("b2")
            async with asyncio.timeout(_TIMEOUT_S):
                repairs.append(size / await _until_repaired(client, "b2"))
    note = f"{min(repairs) / _MB:.0f} to {max(repairs) / _MB:.0f} MB/s of {gigabytes:g} GB,"
    note += f" adds {min(adds) / _MB:.0f} to {max(adds) / _MB:.0f} MB/s"
    name = "re-replication, bytes a second, of the add path's"
    return Figure(name, ratios(repairs, adds), at_least=1.0, note=note)


async def _write(client: BookKeeper, count: int) -> float:
    """Fill the ledgers one after another, and close them; return the seconds spent on adds."""
    elapsed = 0.0
    for _ in range(_LEDGERS):
        writer = await client.create_ledger(3, 3, 2)
        began = perf_counter()
        for _ in range(count):
            await writer.drain()
            writer.add(_PAYLOAD)
        await writer.all_confirmed()
        elapsed += perf_counter() - began
        await writer.close()
    return elapsed


async def _until_repaired(client: BookKeeper, lost: str) -> float:
    """Return how many seconds pass from the first mark until no ledger is marked and none refers to
    `lost`.
    """
    manager = LedgerUnderreplicationManager(client.store, "benchmark", lambda _: 0, lambda: 0)
    while not await manager.ledgers():  # noqa: ASYNC110 - another process marks them
        await asyncio.sleep(_POLL_S)
    began = perf_counter()
    while await manager.ledgers() or await _is_referenced(client, lost):  # noqa: ASYNC110
        await asyncio.sleep(_REPAIR_POLL_S)
    return perf_counter() - began


async def _is_referenced(client: BookKeeper, bookie: str) -> bool:
    for ledger_id in await client.list_ledgers():
        metadata = await client.ledger_metadata(ledger_id)
        if any(bookie in segment.ensemble for segment in metadata.segments):
            return True
    return False


async def start_figure(folder: Path, repeat_count: int) -> Figure:
    seconds = []
    for number in range(repeat_count):
        began = perf_counter()
        async with LocalCluster(5, folder=folder / f"start-{number}", traced=False) as cluster:
            client = await cluster.connect()
            writer = await client.create_ledger(3, 3, 2)
            await writer.add(_PAYLOAD)
            seconds.append(perf_counter() - began)
            await writer.close()
    name = "ZooKeeper and five bookies, from nothing to the first acknowledged add"
    return Figure(name, seconds, " s", at_most=4.0)
