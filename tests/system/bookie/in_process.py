"""Run a bookie in this process on real files, with disk operations that the test releases."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from labkit.system.bookie.node import Bookie
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.disk import RealDisk

T = TypeVar("T")

NEVER_MS = 3_600_000


class HeldDisk:
    """Queues disk operations and runs one each time the test calls `release`."""

    def __init__(self) -> None:
        self.held: list[Callable[[], object]] = []
        self._may_go = asyncio.Semaphore(0)

    async def run(self, call: Callable[[], T]) -> T:
        self.held.append(call)
        await self._may_go.acquire()
        return call()

    def release(self, calls: int = 1) -> None:
        for _ in range(calls):
            self._may_go.release()


class FakeConnection:
    """Records the frames sent to it, one list for each write."""

    def __init__(self) -> None:
        self.writes: list[list[bytes]] = []
        self.calls: list[str] = []
        self.when_closed_calls: list[Callable[[], None]] = []
        self.when_writable_calls: list[Callable[[], None]] = []
        self.is_writable = True

    @property
    def received(self) -> list[bytes]:
        """All frames sent to it, in order."""
        return [body for write in self.writes for body in write]

    def send(self, bodies: Sequence[bytes]) -> None:
        self.writes.append(list(bodies))

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")

    def close(self) -> None:
        self.calls.append("close")

    def when_closed(self, on_close: Callable[[], None]) -> None:
        self.when_closed_calls.append(on_close)

    def when_writable(self, on_writable: Callable[[], None]) -> None:
        self.when_writable_calls.append(on_writable)

    def take(self) -> None:
        """Make the connection writable again, as if the client had received everything."""
        self.is_writable = True
        for on_writable in self.when_writable_calls:
            on_writable()

    def drop(self) -> None:
        """Close the connection, as if the client had disconnected."""
        for on_close in self.when_closed_calls:
            on_close()


class Node:
    """A bookie whose journal disks and entry-log disk perform each operation only when the test
    releases it.

    `journal` is the first entry of `journals`.
    """

    def __init__(
        self, folder: Path, config: StorageConfig, flush_interval_ms: int, journal_count: int = 1
    ) -> None:
        self.journals = [HeldDisk() for _ in range(journal_count)]
        self.journal, self.flush_thread = self.journals[0], HeldDisk()
        self.rows: list[Event] = []
        recorder = Recorder("b0", lambda: 0)
        recorder.listen(self.rows.extend)
        names = ["journal", *(f"journal-{place}" for place in range(1, journal_count))]
        disks = [RealDisk(folder / name) for name in names]
        self.store = LedgerStore(disks, [RealDisk(folder / "ledgers")], config, recorder, 1)
        self.bookie = Bookie(
            self.store,
            [journal.run for journal in self.journals],
            self.flush_thread.run,
            flush_interval_ms,
            self._on_checkpoint_end,
        )
        self.told_of_space: list[bool] = []

    def _on_checkpoint_end(self, lack_of_space: OSError | None) -> None:
        self.told_of_space.append(lack_of_space is None)
        self.bookie.read_only = lack_of_space is not None

    def connect(self) -> tuple[FakeConnection, Callable[..., None]]:
        """Return a new connection and a function that delivers frames to the bookie in
        one receive.
        """
        connection = FakeConnection()
        on_bodies = self.bookie.accept(connection)
        return connection, lambda *frames: on_bodies([frame[4:] for frame in frames])

    def kinds(self) -> list[tuple[str, int]]:
        return [(row.kind, row.entry) for row in self.rows]


@asynccontextmanager
async def running(
    folder: Path,
    *,
    config: StorageConfig | None = None,
    flush_interval_ms: int = NEVER_MS,
    journal_count: int = 1,
) -> AsyncIterator[tuple[Node, asyncio.Task[None]]]:
    node = Node(folder, config or StorageConfig(), flush_interval_ms, journal_count)
    task = asyncio.create_task(node.bookie.run())
    try:
        yield node, task
    finally:
        task.cancel()
        await asyncio.wait((task,))


def bodies(*frames: bytes) -> list[bytes]:
    return [frame[4:] for frame in frames]
