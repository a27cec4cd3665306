"""Test how long a worker defers a ledger, and which failures it remembers."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.worker import ReplicationWorker
from labkit.system.metadata.registered_bookies import RegisteredBookies, registered_bookies
from labkit.system.metadata.store import ANY_VERSION
from labkit.system.metadata.watched_nodes import WatchedNodes
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from labkit.worlds.sim.machine.loop import SimLoop
from tests.system.client.memory_store import MemoryStore
from tests.virtual_time import in_world

AVAILABLE = "/ledgers/available"
CONFIG = AutoRecoveryConfig(lock_release_of_failed_ledger_grace_period_ms=32_000)


class Alone:
    """A worker without a cluster; records its events and the time at which it releases
    each ledger.
    """

    def __init__(self) -> None:
        self.rows: list[Event] = []
        self.released: list[tuple[int, float]] = []
        self.is_marked_again = False
        recorder = Recorder("a", lambda: 0)
        recorder.listen(self.rows.extend)
        client: Any = SimpleNamespace(recorder=recorder)
        unused: Any = None
        manager: Any = self
        bookies: Any = self
        store = MemoryStore()
        store.tree.create(AVAILABLE, b"", 0, False)
        self.tree, self.nodes = store.tree, WatchedNodes(store)
        self.has_released = asyncio.Event()
        self.worker = ReplicationWorker(
            client,
            manager,
            self.nodes,
            bookies,
            unused,
            unused,
            CONFIG,
            asyncio.ensure_future,
        )

    async def now(self) -> RegisteredBookies:
        return await registered_bookies(self.nodes)

    def register(self, *bookies: str) -> None:
        """Make these the registered bookies."""
        before = self.tree.children(AVAILABLE, None)
        for bookie in {*before} - {*bookies}:
            self.tree.delete(f"{AVAILABLE}/{bookie}", ANY_VERSION)
        for bookie in {*bookies} - {*before}:
            self.tree.create(f"{AVAILABLE}/{bookie}", b"", 0, False)

    async def repair(self, ledger_id: int, lasts_s: float = 0.0) -> None:
        """Let the worker try to repair one ledger, fail, and release its lock."""
        locked = iter((ledger_id,))

        async def lock_any() -> int:
            for each in locked:
                return each
            await asyncio.Event().wait()
            raise AssertionError

        async def rereplicate(ledger_id: int) -> None:
            await asyncio.sleep(lasts_s)
            await self.worker.release_later(ledger_id, "there is no bookie to copy to")

        self.lock_any = lock_any
        self.worker.rereplicate = rereplicate  # type: ignore[method-assign]
        running = asyncio.ensure_future(self.worker.run())
        await self.has_released.wait()
        running.cancel()

    async def release(self, ledger_id: int) -> None:
        self.released.append((ledger_id, round(asyncio.get_running_loop().time(), 6)))
        self.has_released.set()

    async def unmark_and_release(self, _: int) -> bool:
        return not self.is_marked_again

    @property
    def events(self) -> list[tuple[str, int, str]]:
        return [(row.kind, row.ledger, row.explanation) for row in self.rows]


def run_alone(rule: Callable[[Alone], Awaitable[None]]) -> None:
    async def main() -> None:
        await rule(Alone())

    SimLoop(time_limit_s=1_000_000).run(main())


@in_world(run_alone)
async def test_a_successful_repair_resets_the_pause(alone: Alone) -> None:
    for _ in range(3):
        await alone.worker.release_later(5, "why")
    await alone.worker.finish(5)
    assert alone.events[-1] == ("replication.done", 5, "")
    began = asyncio.get_running_loop().time()
    await alone.worker.release_later(5, "why")
    assert asyncio.get_running_loop().time() - began == 1


@pytest.mark.parametrize(
    ("at_s", "registered", "released_at_s"),
    [
        pytest.param(3, [("b1", "b2", "b3")], 3, id="a bookie joins"),
        pytest.param(3, [("b1",)], 6, id="a bookie leaves"),
        pytest.param(3, [("b1",), ("b1", "b2")], 3, id="a bookie returns"),
        pytest.param(1, [("b1", "b2", "b3")], 2, id="a bookie joins during the repair"),
    ],
)
@in_world(run_alone)
async def test_a_bookie_that_registers_ends_the_pause(
    alone: Alone, at_s: int, registered: list[tuple[str, ...]], released_at_s: int
) -> None:
    async def later() -> None:
        await asyncio.sleep(at_s)
        for bookies in registered:
            alone.register(*bookies)
            for _ in range(10):  # until the worker has read the new list
                await asyncio.sleep(0)

    for _ in range(2):  # so that the next pause is 4 s
        await alone.worker.release_later(5, "why")
    alone.register("b1", "b2")
    alone.released.clear()
    alone.has_released.clear()
    began = asyncio.get_running_loop().time()
    changing = asyncio.ensure_future(later())
    await alone.repair(5, lasts_s=2)
    await changing
    [(ledger_id, released_at)] = alone.released
    assert (ledger_id, released_at - began) == (5, released_at_s)


@in_world(run_alone)
async def test_one_new_bookie_ends_the_pauses_of_all_ledgers(alone: Alone) -> None:
    pauses = [asyncio.ensure_future(alone.worker.release_later(each, "why")) for each in range(50)]
    await asyncio.sleep(0.5)
    alone.register("b1")
    await asyncio.gather(*pauses)
    assert alone.released == [(each, 0.5) for each in range(50)]


@in_world(run_alone)
async def test_a_ledger_that_was_marked_again_during_its_repair_is_postponed(
    alone: Alone,
) -> None:
    alone.is_marked_again = True
    await alone.worker.finish(5)
    assert alone.events == [("replication.deferred", 5, "it was marked again in the meantime")]


@in_world(run_alone)
async def test_the_failures_of_two_thousand_ledgers_are_remembered(
    alone: Alone,
) -> None:
    async def waits_s(ledger_id: int) -> float:
        began = asyncio.get_running_loop().time()
        await alone.worker.release_later(ledger_id, "why")
        return asyncio.get_running_loop().time() - began

    for ledger_id in range(2000):
        assert await waits_s(ledger_id) == 1
    # This ledger is now the most recent one, so the next failure evicts an older ledger.
    assert await waits_s(0) == 2
    assert await waits_s(2000) == 1
    assert await waits_s(0) == 4
    assert await waits_s(2) == 2
    assert await waits_s(1) == 1
