"""Measures how fast Pulsar's own client publishes through labkit's broker, compared to a broker
that keeps everything in memory.

    python -m benchmarks.broker [--quick]

The official `pulsar-client`, with its default settings, sends asynchronously to each broker in
turn. Both brokers run at the same time, in separate processes, with the same code. One of them
stores messages on three bookies (E=3, Qw=3, Qa=2, every journal write synced), whereas the other
keeps them in a list, so the difference between them is the cost of storage.
"""

import asyncio
import json
import statistics
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import pulsar

from benchmarks.family import benchmark_parser, measuring
from benchmarks.measure import Figure, ratios
from labkit.worlds.live.host.guard import guarded
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.processes.cluster import LocalCluster

_QUORUMS = {
    "managedLedgerDefaultEnsembleSize": 3,
    "managedLedgerDefaultWriteQuorum": 3,
    "managedLedgerDefaultAckQuorum": 2,
}
_STORED, _MEMORY = "stored", "memory"


@dataclass(frozen=True, slots=True)
class Case:
    """The producer's settings, with the goal for the throughput ratio of the two brokers."""

    name: str
    size_bytes: int
    batched: bool
    count: int
    goal: float


CASES = (
    Case("batched, 100 bytes", 100, True, 200_000, 0.5),
    Case("batched, 1 KiB", 1024, True, 200_000, 0.5),
    Case("unbatched, 100 bytes", 100, False, 60_000, 0.8),
    Case("unbatched, 1 KiB", 1024, False, 60_000, 0.8),
)


def main() -> None:
    quick = benchmark_parser(__doc__, quick="shorter repeats").parse_args().quick
    with measuring("broker", only_print=quick) as found:
        found.figures += asyncio.run(_measure(found.folder, *((3, 5) if quick else (7, 1))))


async def _measure(folder: Path, repeat_count: int, part: int) -> list[Figure]:
    cluster = LocalCluster(3, brokers=1, folder=folder, traced=False, broker_conf=_QUORUMS)
    async with cluster, _memory_broker() as memory_url:
        urls = {_STORED: cluster.service_url, _MEMORY: memory_url}
        return await asyncio.to_thread(_figures, urls, repeat_count, part)


@asynccontextmanager
async def _memory_broker() -> AsyncIterator[str]:
    root = Path(__file__).parent.parent
    command = guarded([sys.executable, "-m", "benchmarks.memory_broker"])
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=root)
    assert process.stdout is not None
    ready = json.loads(await process.stdout.readline())
    yield f"pulsar://{LOOPBACK}:{ready['port']}"
    process.kill()
    await process.wait()


def _figures(urls: Mapping[str, str], repeat_count: int, part: int) -> list[Figure]:
    clients = {
        name: pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        for name, url in urls.items()
    }
    figures = []
    for case in CASES:
        rates: dict[str, list[float]] = {name: [] for name in clients}
        for repeat in range(repeat_count + 1):
            for name, client in clients.items():
                rate = _produce(client, case, case.count // part)
                if repeat:  # Discard the first repeat, which is a warm-up.
                    rates[name].append(rate)
        figures.append(_figure(case, rates))
    for client in clients.values():
        client.close()
    return figures


def _produce(client: pulsar.Client, case: Case, count: int) -> float:
    """Return the messages per second, measured from the first call to the last receipt."""
    producer = client.create_producer(
        f"topic-{case.size_bytes}-{case.batched}",
        batching_enabled=case.batched,
        block_if_queue_full=True,
    )
    payload = bytes(case.size_bytes)
    failed = []

    def on_receipt(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
        if result != pulsar.Result.Ok:
            failed.append(result)

    started = perf_counter()
    for _ in range(count):
        producer.send_async(payload, on_receipt)
    producer.flush()
    seconds = perf_counter() - started
    producer.close()
    if failed:
        raise RuntimeError(f"{len(failed)} of {count} messages failed: {failed[0]}")
    return count / seconds


def _figure(case: Case, rates: Mapping[str, list[float]]) -> Figure:
    medians = {name: statistics.median(each) for name, each in rates.items()}
    return Figure(
        f"produced, {case.name}, of the same in memory",
        ratios(rates[_STORED], rates[_MEMORY]),
        at_least=case.goal,
        note=f"{medians[_STORED]:,.0f}/s of {medians[_MEMORY]:,.0f}/s",
    )


if __name__ == "__main__":
    main()
