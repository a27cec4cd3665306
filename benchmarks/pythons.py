"""Compares the processor time that labkit needs under several versions of Python.

    python -m benchmarks.pythons COMMAND ...

Each COMMAND starts a Python interpreter that has labkit's dependencies, such as
`/opt/venv/bin/python`. The current interpreter is measured as well. The interpreters take turns
running a bookie's add path, a client's add path, and simulated runs. Then they measure how much
work two threads do in the time that one thread needs. The program prints a table and stores
nothing.
"""

import asyncio
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, cast

from benchmarks.add_path import bookie_seconds, cpu_us_of_an_add, receives_of
from benchmarks.workload import PASSWORD, PAYLOAD, silent_recorder
from labkit.system.client.context import ClientConfig, ClientContext
from labkit.system.client.protocol.bookie_client import BookieClient
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint
from labkit.system.model.entry import DigestType
from labkit.system.model.ledger import LedgerMetadata, Segment
from labkit.system.model.length_prefixed import join_with_lengths
from labkit.system.model.net import Connection, OnBodies, OnClose
from labkit.system.model.wire import AddBatch, Code, decode_requests
from labkit.worlds.live.net import split_frames
from labkit.worlds.sim.explore.search import run_and_check, scenario_of

_ROOT = Path(__file__).parent.parent
_ROUNDS, _LIMIT_S = 5, 300
_ADDS, _WINDOW, _RUNS = 20_000, 1000, 60
_BOOKIES = ("b0", "b1", "b2")
_MEASURED = (
    "a bookie's add, µs",
    "a client's add, µs",
    "a simulated run, ms",
    "two bookies in threads, of one",
    "two clients in threads, of one",
)


def main() -> None:
    if sys.argv[1:] == ["--itself"]:
        sys.stdout.write(json.dumps([_name(), *_measure()]))
        return
    commands = [[sys.executable], *map(shlex.split, sys.argv[1:])]
    rounds = [[_measure_with(command) for command in commands] for _ in range(_ROUNDS)]
    head = ("Python", *_MEASURED)
    sys.stdout.write(f"| {' | '.join(head)} |\n{'| --- ' * len(head)}|\n")
    for each in zip(*rounds, strict=True):
        columns = list(zip(*each, strict=True))
        cells = [columns[0][0], *(f"{median(column):.2f}" for column in columns[1:])]
        sys.stdout.write(f"| {' | '.join(cells)} |\n")


def _name() -> str:
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    version = f"{platform.python_implementation()} {platform.python_version()}"
    return version if has_lock else f"{version}, without the global lock"


def _measure_with(command: Sequence[str]) -> list[Any]:
    done = subprocess.run(
        [*command, "-m", "benchmarks.pythons", "--itself"],
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        check=True,
        stdout=subprocess.PIPE,
        timeout=_LIMIT_S,
    )
    return cast("list[Any]", json.loads(done.stdout))


def _measure() -> tuple[float, ...]:
    groups = receives_of(_ADDS, _WINDOW)
    with tempfile.TemporaryDirectory(prefix="labkit-benchmark-") as name:
        folder = Path(name)
        bookie_us = cpu_us_of_an_add(folder / "bookie", 1)
        bookies = _two_of_one(lambda number: bookie_seconds(folder / str(number), groups))
    client_us = asyncio.run(_client_us())
    began = time.process_time()
    for seed in range(_RUNS):
        run_and_check(scenario_of(seed, ""))
    run_ms = (time.process_time() - began) * 1e3 / _RUNS
    clients = _two_of_one(lambda number: asyncio.run(_client_us()))
    return bookie_us, client_us, run_ms, bookies, clients


def _two_of_one(work: Callable[[int], float]) -> float:
    """Return the throughput of two threads relative to that of one thread."""
    work(0)  # The first call includes one-time costs.
    began = time.perf_counter()
    work(0)
    alone_s = time.perf_counter() - began
    with ThreadPoolExecutor(2) as threads:
        began = time.perf_counter()
        list(threads.map(work, range(2)))
        return 2 * alone_s / (time.perf_counter() - began)


async def _client_us() -> float:
    """Return the processor time per add in µs, excluding that of the simulated bookies."""
    network = _Echo()
    context = SimpleNamespace(
        config=ClientConfig(),
        recorder=silent_recorder(),
        watcher=None,
        bookie_client=BookieClient(network, _find, timeout_s=60.0),
    )
    metadata = LedgerMetadata(
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        segments=(Segment(0, _BOOKIES),),
        digest_type=DigestType.CRC32C,
        password=PASSWORD,
    )
    writer = LedgerWriter(1, metadata, 0, cast(ClientContext, context))
    in_flight: deque[asyncio.Future[int]] = deque()
    began = time.process_time()
    for _ in range(_ADDS):
        if len(in_flight) >= _WINDOW:
            await in_flight.popleft()
        in_flight.append(writer.add(PAYLOAD))
    await asyncio.gather(*in_flight)
    took_s = time.process_time() - began - network.responding_s
    context.bookie_client.close()
    return took_s * 1e6 / _ADDS


async def _find(bookie: str) -> Endpoint:
    return Endpoint(BOOKIE_RPC, bookie, 1)


class _Echo:
    """A network whose bookies acknowledge each add immediately."""

    def __init__(self) -> None:
        self.responding_s = 0.0

    async def connect(
        self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> Connection:
        return cast(Connection, SimpleNamespace(send=self._responding(on_bodies), close=on_close))

    def _responding(self, on_bodies: OnBodies) -> Callable[[Sequence[bytes]], None]:
        def send(bodies: Sequence[bytes]) -> None:
            began = time.process_time()
            batches = (each for each in decode_requests(bodies) if isinstance(each, AddBatch))
            responses = join_with_lengths(
                [*chain.from_iterable(b.responses(Code.OK) for b in batches)]
            )
            self.responding_s += time.process_time() - began
            asyncio.get_running_loop().call_soon(_deliver, responses, on_bodies)

        return send


def _deliver(responses: bytes, on_bodies: OnBodies) -> None:
    at = 0
    while at < len(responses):
        bodies, at = split_frames(responses, at)
        on_bodies(bodies)


if __name__ == "__main__":
    main()
