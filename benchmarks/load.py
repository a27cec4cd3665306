"""Generates load with labkit's client; `java/LoadDriver.java` does the same with Apache's client.

    python benchmarks/load.py HOST:PORT

It reads one command per line from standard input, and writes each result as one line of JSON:

    open COUNT               create ledgers (E=3, Qw=3, Qa=2, CRC32C); returns the id of the first
    add SECONDS WINDOW RATE  add entries of 1 KiB to the open ledgers, round-robin, with at most
                             WINDOW unconfirmed entries and RATE entries per second (0: no limit)
    fill COUNT WINDOW        add COUNT entries
    read LEDGER entries      read a ledger up to LastAddConfirmed with a new handle, several ranges
                             of entries at a time
    read LEDGER batch        the same with batch reads, one at a time
"""

import asyncio
import json
import sys
from collections import deque
from functools import partial
from time import perf_counter

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.reader import LedgerReader
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.location import MetadataLocation
from labkit.system.model.entry import Entry
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.host.memory import collect_garbage_rarely
from labkit.worlds.live.new_client import new_client
from labkit.worlds.live.zookeeper.store import ZooKeeperStore

_PAYLOAD = bytes(1024)
_TIMEOUT_S = 60.0
"""A disk that is writing gigabytes may delay a bookie for longer than the default timeout."""
_SAMPLE = 16
"""One in this many adds has its latency recorded."""
_OPEN_AT_ONCE = 100
_READ_ENTRIES = 256
_READS_AT_ONCE = 4
_BATCH_BYTES = 1024 * 1024
_TICK_S = 0.001

Result = dict[str, float]


class Load:
    def __init__(self, client: BookKeeper) -> None:
        self._client = client
        self._ledgers: list[LedgerWriter] = []

    async def run(self, command: str, *arguments: str) -> Result:
        if command == "open":
            return await self._open(int(arguments[0]))
        if command == "add":
            return await self._add(
                float("inf"), float(arguments[0]), int(arguments[1]), float(arguments[2])
            )
        if command == "fill":
            return await self._add(int(arguments[0]), float("inf"), int(arguments[1]), 0)
        return await self._read(int(arguments[0]), arguments[1] == "batch")

    async def _open(self, count: int) -> Result:
        for writer in self._ledgers:
            await writer.close()
        self._ledgers = []
        while len(self._ledgers) < count:
            missing = min(_OPEN_AT_ONCE, count - len(self._ledgers))
            opened = (self._client.create_ledger(3, 3, 2) for _ in range(missing))
            self._ledgers += await asyncio.gather(*opened)
        return {"ledger": self._ledgers[0].ledger_id}

    async def _add(self, most: float, seconds: float, window: int, rate: float) -> Result:
        latencies_ms: list[float] = []
        in_flight: deque[asyncio.Future[int]] = deque()
        ledgers, pushed = self._ledgers, 0
        started = perf_counter()
        while pushed < most and (now := perf_counter() - started) < seconds:
            if rate and pushed >= now * rate:
                await asyncio.sleep(_TICK_S)
                continue
            if len(in_flight) >= window and not (oldest := in_flight.popleft()).done():
                await oldest
            added = ledgers[pushed % len(ledgers)].add(_PAYLOAD)
            if pushed % _SAMPLE == 0:
                added.add_done_callback(partial(_sample, latencies_ms, perf_counter()))
            in_flight.append(added)
            pushed += 1
        for added in in_flight:
            await added
        elapsed = perf_counter() - started
        latencies_ms.sort()
        return {
            "count": pushed,
            "seconds": elapsed,
            "p50_ms": latencies_ms[len(latencies_ms) // 2],
            "p99_ms": latencies_ms[len(latencies_ms) * 99 // 100],
        }

    async def _read(self, ledger_id: int, batches: bool) -> Result:
        reader = await self._client.open_ledger_no_recovery(ledger_id)
        last = reader.last_add_confirmed
        started = perf_counter()
        count = await (_read_batches if batches else _read_entries)(reader, last)
        elapsed = perf_counter() - started
        if count <= last:
            raise RuntimeError(f"read {count} of {last + 1} entries")
        return {"count": count, "seconds": elapsed}


def _sample(latencies_ms: list[float], pushed_at: float, _: object) -> None:
    latencies_ms.append(1000 * (perf_counter() - pushed_at))


async def _read_entries(reader: LedgerReader, last: int) -> int:
    requests: deque[asyncio.Task[list[Entry]]] = deque()
    count = 0
    for first in range(0, last + 1, _READ_ENTRIES):
        if len(requests) == _READS_AT_ONCE:
            count += _count(await requests.popleft())
        until = min(last, first + _READ_ENTRIES - 1)
        requests.append(asyncio.create_task(reader.read_entries(first, until)))
    for each in requests:
        count += _count(await each)
    return count


async def _read_batches(reader: LedgerReader, last: int) -> int:
    count = 0
    while count <= last:
        count += _count(await reader.read_batch(count, 0, _BATCH_BYTES))
    return count


def _count(entries: list[Entry]) -> int:
    if any(len(entry.payload) != len(_PAYLOAD) for entry in entries):
        raise RuntimeError("read an entry of an unexpected size")
    return len(entries)


async def _main(zookeeper: str) -> None:
    session = ZooKeeperStore(MetadataLocation(zookeeper))
    await session.start()
    config = ClientConfig(request_timeout_s=_TIMEOUT_S)
    client = new_client(session, Recorder("load", trace_clock_us), config=config)
    load = Load(client)
    collect_garbage_rarely()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        sys.stdout.write(json.dumps(await load.run(*line.split())) + "\n")
        sys.stdout.flush()
    client.close()
    await session.stop()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
