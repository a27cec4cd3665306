"""A broker's ownership of bundles, on an in-memory metadata store that the test controls."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from labkit.system.broker.ownership import (
    BROKERS,
    BrokerAddress,
    NamespaceBundle,
    TopicOwnership,
    bundle_of,
    decode_owner,
    encode_owner,
)
from labkit.system.metadata.store import ANY_VERSION, MetadataUnavailableError, OnChange
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from tests.system.client.memory_store import MemoryStore

TOPIC = "persistent://public/default/t"
OTHER_TOPIC = "persistent://public/default/a"
BUNDLE, OTHER_BUNDLE = bundle_of(TOPIC), bundle_of(OTHER_TOPIC)
A = BrokerAddress("a:8080", "pulsar://a:6650", web_url="http://a:8080")
B = BrokerAddress("b:8080", "pulsar://b:6650", web_url="http://b:8080")
NODE = f"{BROKERS}/{A.broker_id}"


class Store(MemoryStore):
    """A store that can be down or slow, and that records when each request was made."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False
        self.gate: asyncio.Event | None = None
        """Responses wait until this event is set; None means that they do not wait."""
        self.calls: list[tuple[str, float]] = []
        self._when_new: list[Callable[[], None]] = []

    def on_new_session(self, action: Callable[[], None]) -> None:
        self._when_new.append(action)

    def lose_session(self, *paths: str) -> None:
        """End the session; its ephemeral nodes are deleted."""
        for path in paths:
            with suppress(Exception):
                self.tree.delete(path, ANY_VERSION)
        for action in self._when_new:
            action()

    async def _call(self, name: str) -> None:
        self.calls.append((name, asyncio.get_running_loop().time()))
        if self.gate is not None:
            await self.gate.wait()
        if self.is_down:
            raise MetadataUnavailableError("the metadata store is not responding")

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        await self._call("create")
        return await super().create(path, data, ephemeral=ephemeral, sequential=sequential)

    async def get(self, path: str, on_change: OnChange | None = None) -> tuple[bytes, int]:
        await self._call("get")
        return await super().get(path, on_change)

    async def set(self, path: str, data: bytes, version: int) -> int:
        await self._call("set")
        return await super().set(path, data, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._call("delete")
        await super().delete(path, version)


class World:
    """Broker A on a scripted metadata store, with the events that it records and the losses that it
    reports.
    """

    def __init__(self) -> None:
        self.store = Store()
        self.rows: list[Event] = []
        recorder = Recorder("a", lambda: 0)
        recorder.listen(self.rows.extend)
        self.broker = TopicOwnership(self.store, A, recorder)
        self.lost: list[list[NamespaceBundle]] = []
        self.broker.when_lost(self.lost.append)

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(row.kind, row.bundle) for row in self.rows]

    def owner(self, bundle: NamespaceBundle = BUNDLE) -> tuple[BrokerAddress, bool] | None:
        """Return the owner that is stored in the bundle's node, and whether the bundle is disabled;
        return None if the node does not exist.
        """
        if not self.store.tree.exists(bundle.path, None):
            return None
        return decode_owner(self.store.tree.get(bundle.path, None)[0])

    def put(self, owner: BrokerAddress, *, disabled: bool = False) -> None:
        """Create the bundle's node from another session."""
        self.store.tree.create(BUNDLE.path, encode_owner(owner, disabled=disabled), 2, False)
