"""Load on labkit's client, as a separate process: what `java/LoadDriver.java` does with Apache's.

    python benchmarks/load.py HOST:PORT

Each line of standard input is a command, each line of standard output its result as JSON:

    open COUNT               new ledgers (E=3, Qw=3, Qa=2, CRC32C); gives the id of the first
    add SECONDS WINDOW RATE  entries of 1 KiB to the open ledgers in turn, at most WINDOW of them
                             unconfirmed and RATE a second (0: no limit)
    fill COUNT WINDOW        COUNT entries
    read LEDGER entries      all of a ledger up to LastAddConfirmed, by a separate handle: some
                             ranges of entries at a time
    read LEDGER batch        the same by batch reads, one at a time
"""

import asyncio
import json
import random
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.reader import LedgerReader
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.place import MetadataPlace
from labkit.system.model.entry import Entry
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import trace_clock_us, wall_clock_ms
from labkit.worlds.live.host.gc_tuning import collect_garbage_rarely
from labkit.worlds.live.net import TcpNetwork
from labkit.worlds.live.new_client import at_random
from labkit.worlds.live.zookeeper.store import ZooKeeperStore

_PAYLOAD = bytes(1024)
_TIMEOUT_S = 60.0
"""A disk that has to write gigabytes may keep a bookie waiting longer than clients usually do."""
_SAMPLE = 16
"""Of this many adds the latency of one is taken."""
_OPEN_AT_ONCE = 100
_READ_ENTRIES = 256
_READS_AT_ONCE = 4
_BATCH_BYTES = 1024 * 1024
_TICK_S = 0.001

Result = dict[str, float]


class Load:
    """A client and the ledgers that it has open."""

    def __init__(self, client: BookKeeper) -> None:
        self._client = client
        self._ledgers: list[LedgerWriter] = []

    async def run(self, command: str, *words: str) -> Result:
        """Do one command."""
        if command == "open":
            return await self._open(int(words[0]))
        if command == "add":
            return await self._add(float("inf"), float(words[0]), int(words[1]), float(words[2]))
        if command == "fill":
            return await self._add(int(words[0]), float("inf"), int(words[1]), 0)
        return await self._read(int(words[0]), words[1] == "batch")

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
        flying: deque[asyncio.Future[int]] = deque()
        ledgers, pushed = self._ledgers, 0
        started = perf_counter()
        while pushed < most and (now := perf_counter() - started) < seconds:
            if rate and pushed >= now * rate:
                await asyncio.sleep(_TICK_S)
                continue
            if len(flying) >= window and not (oldest := flying.popleft()).done():
                await oldest
            added = ledgers[pushed % len(ledgers)].add(_PAYLOAD)
            if pushed % _SAMPLE == 0:
                added.add_done_callback(partial(_sample, latencies_ms, perf_counter()))
            flying.append(added)
            pushed += 1
        for added in flying:
            await added
        took = perf_counter() - started
        latencies_ms.sort()
        return {
            "count": pushed,
            "seconds": took,
            "p50_ms": latencies_ms[len(latencies_ms) // 2],
            "p99_ms": latencies_ms[len(latencies_ms) * 99 // 100],
        }

    async def _read(self, ledger_id: int, batches: bool) -> Result:
        reader = await self._client.open_ledger_no_recovery(ledger_id)
        last = reader.last_add_confirmed
        started = perf_counter()
        count = await (_read_batches if batches else _read_entries)(reader, last)
        took = perf_counter() - started
        if count <= last:
            raise RuntimeError(f"{count} entries read of {last + 1}")
        return {"count": count, "seconds": took}


def _sample(latencies_ms: list[float], pushed_at: float, _: object) -> None:
    latencies_ms.append(1000 * (perf_counter() - pushed_at))


async def _read_entries(reader: LedgerReader, last: int) -> int:
    asked: deque[asyncio.Task[list[Entry]]] = deque()
    count = 0
    for first in range(0, last + 1, _READ_ENTRIES):
        if len(asked) == _READS_AT_ONCE:
            count += _look(await asked.popleft())
        until = min(last, first + _READ_ENTRIES - 1)
        asked.append(asyncio.create_task(reader.read_entries(first, until)))
    for each in asked:
        count += _look(await each)
    return count


async def _read_batches(reader: LedgerReader, last: int) -> int:
    count = 0
    while count <= last:
        count += _look(await reader.read_batch(count, 0, _BATCH_BYTES))
    return count


def _look(entries: list[Entry]) -> int:
    if any(len(entry.payload) != len(_PAYLOAD) for entry in entries):
        raise RuntimeError("an entry of another size was read")
    return len(entries)


async def _main(zookeeper: str) -> None:
    session = ZooKeeperStore(MetadataPlace(zookeeper))
    await session.start()
    recorder = Recorder("load", trace_clock_us)
    new_token: Callable[[], int] = partial(random.getrandbits, 63)
    config = ClientConfig(request_timeout_s=_TIMEOUT_S)
    client = BookKeeper(
        session, TcpNetwork(), recorder, at_random, new_token, wall_clock_ms, config
    )
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
