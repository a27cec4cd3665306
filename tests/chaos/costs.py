"""Measure what each hostile peer costs a bookie: `python -m tests.chaos --hostile`.

Each peer attacks a fresh bookie in a separate process. Meanwhile, a well-behaved client adds
entries one at a time, and none of the adds may fail. The memory is measured by the kernel.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from tests.chaos.hostile import LARGE, LARGEST_PAYLOAD, PEERS, POLITE, TINY, TINY_COUNT, Peer
from tests.system.bookie.raw import RawClient, add, added
from tests.until import until
from tests.worlds.live.real_bookie import RealBookie

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"
HEAD = (
    "| a peer that sends | MiB at rest | at its worst | 5 s after | median add, ms | slowest |",
    "|---|---:|---:|---:|---:|---:|",
)
ATTACK_S = 8.0
RECOVERY_S = 5.0
MOST_MEMORY = 4 * 1024**3
"""A bookie that exceeds this limit is stopped, so that the measuring machine does not run out of
memory.
"""

Attack = Callable[[Peer], Awaitable[None]]


@dataclass(slots=True)
class Cost:
    """The costs of one attack.

    rest, worst, after: memory in MiB before, during and after the attack.
    adds, slowest_ms, median_ms: the number and latency of the well-behaved client's adds.
    """

    attack: Attack
    rest: float = 0
    worst: float = 0
    after: float = 0
    adds: int = 0
    slowest_ms: float = 0
    median_ms: float = 0

    def row(self) -> str:
        """Return the table row as Markdown."""
        peer = (self.attack.__doc__ or "").rstrip(".")
        memory = f"{self.rest:.0f} | {self.worst:.0f} | {self.after:.0f}"
        return f"| {peer} | {memory} | {self.median_ms:.1f} | {self.slowest_ms:.0f} |"


async def measure(
    tell: Callable[[Cost], None], names: Sequence[str] = (), attack_s: float = ATTACK_S
) -> list[Cost]:
    """Return the costs of the peers with these names, or of all peers if no names are given."""
    attacks = [attack for attack in PEERS if not names or attack.__name__ in names]
    costs = []
    with tempfile.TemporaryDirectory() as folder:
        async with EmbeddedZooKeeper(Path(folder) / "zookeeper") as zookeeper:
            for attack in attacks:
                place = Path(folder) / attack.__name__.replace("_", "-")
                costs.append(await _suffer(place, zookeeper.address, attack, attack_s))
                tell(costs[-1])
    return costs


async def _suffer(folder: Path, zookeeper: str, attack: Attack, attack_s: float) -> Cost:
    limits = ("prlimit", f"--as={MOST_MEMORY}")
    keys: dict[str, object] = {"autoRecoveryDaemonEnabled": "false"}
    async with RealBookie(folder, zookeeper, keys, limits) as bookie:
        await _fill(bookie.port)
        cost = Cost(attack, rest=memory_mib(bookie.pid, "VmRSS"))
        peer, stop = Peer(bookie.port, bookie.trace_port), asyncio.Event()
        polite = asyncio.create_task(_add_politely(bookie.port, cost, stop))
        try:
            await until(lambda: cost.adds or polite.done())
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(attack_s):
                    await attack(peer)
                    await asyncio.Event().wait()
            peer.leave()
            await asyncio.sleep(RECOVERY_S)
            cost.worst = memory_mib(bookie.pid, "VmHWM")
            cost.after = memory_mib(bookie.pid, "VmRSS")
        finally:
            peer.leave()
            stop.set()
            await polite
    return cost


async def _fill(port: int) -> None:
    async with RawClient(port) as client:
        await client.ask(add(LARGE, 0, bytes(LARGEST_PAYLOAD)))
        await client.send(b"".join(add(TINY, entry_id, b"") for entry_id in range(TINY_COUNT)))
        for _ in range(TINY_COUNT):
            await client.receive()


async def _add_politely(port: int, cost: Cost, stop: asyncio.Event) -> None:
    times_ms = []
    async with RawClient(port) as client:
        while not stop.is_set():
            began = time.monotonic()
            answer = await client.ask(add(POLITE, cost.adds, bytes(1000)))
            if answer != added(POLITE, cost.adds):
                raise RuntimeError(f"{cost.attack.__name__}: bad response to an add: {answer!r}")
            times_ms.append(1000 * (time.monotonic() - began))
            cost.adds += 1
    cost.slowest_ms, cost.median_ms = max(times_ms), sorted(times_ms)[len(times_ms) // 2]


def memory_mib(pid: int, field: str) -> float:
    """Return the value of `VmRSS` or `VmHWM` in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


def write_table(server: str, *lines: str) -> None:
    """Replace the table for this kind of server in `DOCUMENT`."""
    text = DOCUMENT.read_text()
    before, begin, rest = text.partition(f"<!-- {server}: begin -->")
    _, end, after = rest.partition(f"<!-- {server}: end -->")
    DOCUMENT.write_text("\n".join((before + begin, *lines, end + after)))
