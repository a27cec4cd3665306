"""A session with the simulated ZooKeeper, behind the metadata port.

The client asks over the simulated network, one request after the other, and pings the server three
times in a session's time-out; when it hears nothing it connects again.  If its session is over by
then, it begins a new one.

A request that was sent and not answered when the connection breaks raises
`MetadataUnavailableError`: whether it was carried out is unknown.  So does a request that
waits for a connection when the session turns out to be lost: it belongs to that session.

In ZooKeeper: `ClientCnxn.java`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

from labkit.system.metadata.place import MetadataPlace
from labkit.system.metadata.store import (
    ANY_VERSION,
    MetadataError,
    MetadataUnavailableError,
    OnChange,
)
from labkit.worlds.sim.machine.network import End, NodeNetwork
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER, PORT

_ANSWER_TIMEOUT_S = 15.0
_RETRY_S = 0.1


class SimMetadataStore:
    """The metadata port of one process: a session with the simulated server."""

    def __init__(self, network: NodeNetwork, owner: str, session_timeout_s: float = 4.0) -> None:
        self.place = MetadataPlace(f"{METADATA_SERVER}:{PORT}")
        self._network = network
        self._owner = owner
        self.session_timeout_s = session_timeout_s
        self._loop = asyncio.get_running_loop()
        self._connecting: End | None = None
        self._connection: End | None = None
        self._is_lost = False
        self._wake = asyncio.Event()
        """Set when a ping is due, or when the connection is lost."""
        self._session_id = 0
        self._heard_at = 0.0
        """When the server, or its machine, was last heard."""
        self._answered_at = inf
        """When the server itself was last heard."""
        self._outbox: list[Any] = []
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._watches: dict[int, OnChange] = {}
        self._on_new_session: list[Callable[[], None]] = []
        self._on_silence: list[Callable[[], None]] = []
        self._begun: asyncio.Future[None] = self._loop.create_future()
        self._keeping: asyncio.Task[None] | None = None

    async def start(self, timeout_s: float = 10.0) -> None:
        """Begin the session.  Raises `MetadataUnavailableError`."""
        self._keeping = self._loop.create_task(self._keep())
        try:
            async with asyncio.timeout(timeout_s):
                await self._begun
        except TimeoutError:
            self._keeping.cancel()
            raise MetadataUnavailableError(
                f"the metadata store does not answer {self._owner} within {timeout_s:g} s"
            ) from None

    async def stop(self) -> None:
        """End the session: its ephemeral nodes go at once."""
        if self._keeping is not None:
            self._keeping.cancel()
        if self._connection is not None:
            self._connection.send([("end", 0)])
            self._connection.close()

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node and its missing parents; returns its path."""
        created: str = await self._ask("create", path, data, ephemeral, sequential)
        return created

    async def get(self, path: str, on_change: OnChange | None = None) -> tuple[bytes, int]:
        found: tuple[bytes, int] = await self._ask_and_watch("get", path, on_change)
        return found

    async def exists(self, path: str, on_change: OnChange | None = None) -> bool:
        found: bool = await self._ask_and_watch("exists", path, on_change)
        return found

    async def set(self, path: str, data: bytes, version: int) -> int:
        """Replace the data if the version fits; returns the new version."""
        new_version: int = await self._ask("set", path, data, version)
        return new_version

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._ask("delete", path, version)

    async def children(self, path: str, on_change: OnChange | None = None) -> list[str]:
        names: list[str] = await self._ask_and_watch("children", path, on_change)
        return names

    async def sync(self) -> None:
        """Wait until the server to which the client is connected has caught up."""
        await self._ask("sync")

    def on_new_session(self, action: Callable[[], None]) -> None:
        """Call `action` whenever a lost session was replaced by a new one."""
        self._on_new_session.append(action)

    def on_silence(self, action: Callable[[], None]) -> None:
        """Call `action` when the store answers again after more than half a session's time-out."""
        self._on_silence.append(action)

    async def _ask_and_watch(self, kind: str, path: str, on_change: OnChange | None) -> Any:
        if on_change is None:
            return await self._ask(kind, path, 0)
        self._count += 1
        number = self._count
        self._watches[number] = on_change
        try:
            return await self._ask(kind, path, number)
        except MetadataError:
            # As ZooKeeper: a question that fails sets no watch.
            self._watches.pop(number, None)
            raise

    async def _ask(self, kind: str, *arguments: Any) -> Any:
        self._count += 1
        request = self._count
        answered = self._asked[request] = self._loop.create_future()
        body = (kind, request, *arguments)
        if self._connection is None:
            self._outbox.append(body)
        else:
            self._connection.send([body])
        timer = self._loop.call_later(_ANSWER_TIMEOUT_S, self._give_up, answered)
        try:
            result = await answered
        finally:
            timer.cancel()
            self._asked.pop(request, None)
        if isinstance(result, MetadataError):
            raise type(result)(*result.args)
        return result

    def _give_up(self, answered: asyncio.Future[Any]) -> None:
        if not answered.done():
            error = self._unavailable(f"no answer within {_ANSWER_TIMEOUT_S:g} s")
            answered.set_result(error)

    async def _keep(self) -> None:
        """Stay connected, and let the server know that this node lives."""
        while True:
            try:
                connection = await self._network.connect(
                    METADATA_SERVER, PORT, self._received, self._connection_lost
                )
            except OSError:
                await asyncio.sleep(_RETRY_S)
                continue
            self._connecting = connection
            self._is_lost = False
            self._wake.clear()
            self._heard_at = self._loop.time()
            # The server loses watches with the connection, so they are set again with the next.
            watches = list(self._watches)
            connection.send([("session", self._owner, self._session_id, watches)])
            await self._ping(connection)
            connection.close()

    async def _ping(self, connection: End) -> None:
        """Return when the connection is lost, or nothing is heard any more."""
        # ZooKeeper's share: a third of the session is left to reach the server again.
        while self._loop.time() - self._heard_at < self.session_timeout_s * 2 / 3:
            timer = self._loop.call_later(self.session_timeout_s / 3, self._wake.set)
            await self._wake.wait()
            timer.cancel()
            if self._is_lost:
                return
            self._wake.clear()
            if self._connection is not None:
                connection.send([("ping", 0)])

    def _received(self, bodies: Sequence[Any]) -> None:
        now = self._loop.time()
        was_silent = now - self._answered_at > self.session_timeout_s / 2
        self._heard_at = self._answered_at = now
        if was_silent:
            for action in self._on_silence:
                action()
        for kind, number, *result in bodies:
            if kind == "session":
                self._session_begins(number)
            elif kind == "changed":
                if (on_change := self._watches.pop(number, None)) is not None:
                    on_change()
            elif (answered := self._asked.get(number)) is not None and not answered.done():
                answered.set_result(result[0])

    def _session_begins(self, session_id: int) -> None:
        lost, self._session_id = self._session_id, session_id
        connection = self._connection = self._connecting
        assert connection is not None
        # 0 before the first session; the same one again if it was resumed in time.
        if lost not in (0, session_id):
            # The server has forgotten them: who watched must look again.
            watches, self._watches = self._watches, {}
            for on_change in watches.values():
                on_change()
            for action in self._on_new_session:
                action()
            lost_requests, self._outbox = self._outbox, []
            self._fail((request for _, request, *_ in lost_requests), "the session was lost")
        if self._outbox:
            connection.send(self._outbox)
            self._outbox = []
        if not self._begun.done():
            self._begun.set_result(None)

    def _connection_lost(self) -> None:
        self._connection = None
        self._is_lost = True
        self._wake.set()
        self._fail(list(self._asked), "the connection was lost")

    def _fail(self, requests: Iterable[int], why: str) -> None:
        for request in requests:
            answered = self._asked.get(request)
            if answered is not None and not answered.done():
                answered.set_result(self._unavailable(why))

    def _unavailable(self, why: str) -> MetadataUnavailableError:
        return MetadataUnavailableError(f"the metadata store and {self._owner}: {why}")
