"""The commands of the ownership scripts: broker a on an in-memory metadata store.

    acquire t, reacquire t, disable t, release t, owner t
                     call these methods for the bundle of topic t or u, and print the results
    register, unregister, brokers
    owned            print the bundles that the broker serves, and those that it owns
    listen           ask to hear of lost bundles, too
    put b, put b disabled, overwrite b, remove
                     let another session create, overwrite or delete the node of t's bundle
    announce b, withdraw b
                     let another session register a broker, or delete its node
    down, up         let requests to the store fail from now on, or succeed
    hold, hold get, go
                     let requests (of this kind) wait for `go`
    meanwhile overwrite b
                     do this before the next change of a node takes effect
    lose t u         let the session expire, with the nodes of these bundles and of the broker
    end              let the other session expire
    calls            print the requests since the last time
    wait 1

Every line of commands is followed by the events that the script shows, by the results of calls, and
by the owner in the node of t's bundle if it has changed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from labkit.system.broker.ownership import (
    BROKERS,
    BrokerAddress,
    NamespaceBundle,
    TopicOwnership,
    bundle_of,
    decode_owner,
    encode_broker,
    encode_owner,
)
from labkit.system.metadata.store import (
    ANY_VERSION,
    MetadataUnavailableError,
    NoNodeError,
    OnChange,
)
from labkit.system.model.errors import LabkitError
from labkit.system.trace.recorder import Recorder
from tests.scripts import Commands
from tests.system.client.memory_store import MemoryStore

TOPICS = {"t": "persistent://public/default/t", "u": "persistent://public/default/a"}
BUNDLES = {name: bundle_of(topic) for name, topic in TOPICS.items()}
NODE = BUNDLES["t"].path
ADDRESSES = {
    name: BrokerAddress(f"{name}:8080", f"pulsar://{name}:6650", web_url=f"http://{name}:8080")
    for name in ("a", "b")
}


class _Store(MemoryStore):
    """A store that can be down or slow, and records each request and its time."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False
        self.held: tuple[str, ...] = ()
        """The kinds of requests that wait until `go` is set."""
        self.go = asyncio.Event()
        self.calls: list[str] = []
        self.when_new: list[Callable[[], None]] = []

    def on_new_session(self, action: Callable[[], None]) -> None:
        self.when_new.append(action)

    async def _call(self, name: str) -> None:
        self.calls.append(f"{asyncio.get_running_loop().time():.1f} s {name}")
        if name in self.held:
            await self.go.wait()
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


class OwnershipCommands(Commands):
    def __init__(self) -> None:
        super().__init__([])
        self._store = _Store()
        recorder = Recorder("a", lambda: 0)
        recorder.listen(self.rows.extend)
        self._broker = TopicOwnership(self._store, ADDRESSES["a"], recorder)
        self._listener_count = 0
        self._node = "none"
        self._working: set[asyncio.Task[None]] = set()

    async def play(self, line: str) -> list[str]:
        await self.run(line)
        await asyncio.sleep(0.001)
        before, self._node = self._node, self._stored_owner()
        if self._node != before:
            self.print_line(f"node: {self._node}")
        return self.output()

    def output(self) -> list[str]:
        """Return the new events, and all other lines as one."""
        events = list(self.new_events())
        printed = super().output()
        return [*events, *(["; ".join(printed)] if printed else [])]

    def _stored_owner(self) -> str:
        tree = self._store.tree
        if not tree.exists(NODE, None):
            return "none"
        owner, disabled = decode_owner(tree.get(NODE, None)[0])
        return _name(owner) + (" disabled" if disabled else "")

    # The broker

    async def acquire(self, topic: str) -> None:
        await self._work(f"acquire {topic}", self._broker.acquire(TOPICS[topic]))

    async def reacquire(self, topic: str) -> None:
        await self._work(f"reacquire {topic}", self._broker.reacquire(TOPICS[topic]))

    async def owner(self, topic: str) -> None:
        await self._work(f"owner {topic}", self._broker.owner_of(BUNDLES[topic]))

    async def disable(self, topic: str) -> None:
        await self._work(f"disable {topic}", self._broker.disable(BUNDLES[topic]))

    async def release(self, topic: str) -> None:
        await self._work(f"release {topic}", self._broker.release(BUNDLES[topic]))

    async def register(self) -> None:
        await self._work("register", self._broker.register())

    async def unregister(self) -> None:
        await self._work("unregister", self._broker.unregister())

    async def brokers(self) -> None:
        async def listed() -> str:
            return " ".join(map(_name, await self._broker.brokers())) or "none"

        await self._work("brokers", listed())

    async def _work(self, call: str, work: Awaitable[object]) -> None:
        """Start a call, give it time to end, and print its result when it has ended."""

        async def worked() -> None:
            try:
                result = await work
            except LabkitError as error:
                self.print_line(f"{call}: {type(error).__name__}: {error}")
            else:
                name = _name(result) if isinstance(result, BrokerAddress) else result
                self.print_line(f"{call}: {'done' if name is None else name}")

        self._working.add(asyncio.create_task(worked()))
        await asyncio.sleep(0.001)

    async def owned(self) -> None:
        served = " ".join(name for name, topic in TOPICS.items() if self._broker.owns(topic))
        known = " ".join(name for name, each in BUNDLES.items() if each in self._broker.owned)
        self.print_line(f"serves: {served or 'none'}; owns: {known or 'none'}")

    async def listen(self) -> None:
        self._listener_count += 1
        listener = f"listener {self._listener_count}"

        def told(lost: list[NamespaceBundle]) -> None:
            self.print_line(f"{listener}: lost bundles: {len(lost)}")

        self._broker.when_lost(told)

    # The store and other sessions

    async def put(self, owner: str, disabled: str = "") -> None:
        data = encode_owner(ADDRESSES[owner], disabled=bool(disabled))
        self._store.tree.create(NODE, data, 2, False)

    async def overwrite(self, owner: str) -> None:
        self._store.tree.set(NODE, encode_owner(ADDRESSES[owner]), ANY_VERSION)

    async def remove(self) -> None:
        self._store.tree.delete(NODE, ANY_VERSION)

    async def announce(self, name: str) -> None:
        address = ADDRESSES[name]
        path = f"{BROKERS}/{address.broker_id}"
        self._store.tree.create(path, encode_broker(address), 2, False)

    async def withdraw(self, name: str) -> None:
        self._store.tree.delete(f"{BROKERS}/{ADDRESSES[name].broker_id}", ANY_VERSION)

    async def meanwhile(self, *words: str) -> None:
        self._store.before_next_set = lambda: self.run(" ".join(words))

    async def down(self) -> None:
        self._store.is_down = True

    async def up(self) -> None:
        self._store.is_down = False

    async def hold(self, *kinds: str) -> None:
        self._store.held = kinds or ("create", "get", "set", "delete")

    async def go(self) -> None:
        self._store.go.set()
        await asyncio.sleep(0.001)

    async def lose(self, *topics: str) -> None:
        paths = [BUNDLES[topic].path for topic in topics]
        for path in (*paths, f"{BROKERS}/{ADDRESSES['a'].broker_id}"):
            with suppress(NoNodeError):
                self._store.tree.delete(path, ANY_VERSION)
        for action in self._store.when_new:
            action()

    async def end(self) -> None:
        self._store.tree.end_session(2)

    async def calls(self) -> None:
        calls, self._store.calls = self._store.calls, []
        self.print_line(f"calls: {', '.join(calls) or 'none'}")

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _name(broker: BrokerAddress) -> str:
    return broker.broker_id.partition(":")[0]
