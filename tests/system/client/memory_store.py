"""An in-memory metadata store for one event loop, with hooks for events during a request."""

import asyncio
from collections.abc import Awaitable, Callable

from labkit.system.metadata.location import MetadataLocation
from labkit.system.metadata.store import ANY_VERSION, OnChange
from labkit.worlds.sim.machine.tree import Watch, ZnodeTree

Meanwhile = Callable[[], Awaitable[object]]


class MemoryStore:
    """A metadata store whose responses arrive in the next iteration of the event loop.

    `before_next_set` runs once, after the next compare-and-set has been sent and before it is
    executed. The next compare-and-sets raise the errors in `fail_sets`, and change nothing.
    """

    session_timeout_s = 4.0

    def __init__(self) -> None:
        self.location = MetadataLocation("memory")
        self.tree = ZnodeTree(self._tell)
        self.before_next_set: Meanwhile | None = None
        self.fail_sets: list[Exception] = []
        self.set_count = 0
        self.get_count = 0
        self._watches: list[OnChange] = []

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        await asyncio.sleep(0)
        return self.tree.create(path, data, int(ephemeral), sequential)

    async def create_child(self, path: str, data: bytes, parent_version: int) -> None:
        await asyncio.sleep(0)
        self.tree.create_child(path, data, parent_version)

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
        if self.fail_sets:
            raise self.fail_sets.pop(0)
        self.set_count += 1
        return self.tree.set(path, data, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await asyncio.sleep(0)
        self.tree.delete(path, version)

    async def children(self, path: str, on_change: OnChange | None = None) -> list[str]:
        await asyncio.sleep(0)
        return self.tree.children(path, self._watch(on_change))

    async def sync(self) -> None:
        """Yield to the event loop once; there is only one server to synchronize with."""
        await asyncio.sleep(0)

    def on_new_session(self, action: Callable[[], None]) -> None:
        """Do nothing, because ephemeral nodes belong to session 1, which ends only when a test ends
        it in the tree.
        """

    def on_silence(self, action: Callable[[], None]) -> None:
        """Do nothing, because this store always responds."""

    def _watch(self, on_change: OnChange | None) -> Watch | None:
        if on_change is None:
            return None
        self._watches.append(on_change)
        return 1, len(self._watches)

    def _tell(self, watch: Watch) -> None:
        asyncio.get_running_loop().call_soon(self._watches[watch[1] - 1])
