"""The metadata store's port in memory, for one loop, with a hand on what happens in between."""

import asyncio
from collections.abc import Awaitable, Callable

from labkit.system.metadata.place import MetadataPlace
from labkit.system.metadata.store import ANY_VERSION, OnChange
from labkit.worlds.sim.machine.tree import Watch, ZnodeTree

Meanwhile = Callable[[], Awaitable[object]]


class MemoryStore:
    """A tree that answers in the next turn of the loop.

    `before_next_set` runs once, when the next compare-and-set has left its client and has not yet
    come here; `fail_next_set` is raised instead of answering one.
    """

    session_timeout_s = 4.0

    def __init__(self) -> None:
        self.place = MetadataPlace("memory")
        self.tree = ZnodeTree(self._tell)
        self.before_next_set: Meanwhile | None = None
        self.fail_next_set: Exception | None = None
        self.set_count = 0
        self.get_count = 0
        self._watches: list[OnChange] = []

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        await asyncio.sleep(0)
        return self.tree.create(path, data, int(ephemeral), sequential)

    async def get(self, path: str, on_change: OnChange | None = None) -> tuple[bytes, int]:
        await asyncio.sleep(0)
        self.get_count += 1
        return self.tree.get(path, self._watch(on_change))

    async def exists(self, path: str, on_change: OnChange | None = None) -> bool:
        await asyncio.sleep(0)
        return self.tree.exists(path, self._watch(on_change))

    async def set(self, path: str, data: bytes, version: int) -> int:
        await asyncio.sleep(0)
        meanwhile, self.before_next_set = self.before_next_set, None
        if meanwhile is not None:
            await meanwhile()
        error, self.fail_next_set = self.fail_next_set, None
        if error is not None:
            raise error
        self.set_count += 1
        return self.tree.set(path, data, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await asyncio.sleep(0)
        self.tree.delete(path, version)

    async def children(self, path: str, on_change: OnChange | None = None) -> list[str]:
        await asyncio.sleep(0)
        return self.tree.children(path, self._watch(on_change))

    async def sync(self) -> None:
        """There is one server."""
        await asyncio.sleep(0)

    def on_new_session(self, action: Callable[[], None]) -> None:
        """The owner of ephemeral nodes is 1; it ends when a test tells the tree so."""

    def on_silence(self, action: Callable[[], None]) -> None:
        """It answers always."""

    def _watch(self, on_change: OnChange | None) -> Watch | None:
        if on_change is None:
            return None
        self._watches.append(on_change)
        return 1, len(self._watches)

    def _tell(self, watch: Watch) -> None:
        asyncio.get_running_loop().call_soon(self._watches[watch[1] - 1])
