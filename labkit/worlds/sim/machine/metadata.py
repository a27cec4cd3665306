"""Implements the metadata port by means of a session with the simulated ZooKeeper server.

The client sends its requests over the simulated network and pings the server three times per
session timeout. If the client receives no response, it reconnects. If its session has expired by
then, it starts a new session.

A request raises `MetadataUnavailableError` if the connection breaks before the response arrives,
because the client then cannot know whether the request was carried out. A request that is waiting
for a connection raises the same error if its session has expired in the meantime.

In ZooKeeper: `ClientCnxn.java`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

from labkit.system.metadata.location import MetadataLocation
from labkit.system.metadata.store import (
    ANY_VERSION,
    MetadataError,
    MetadataUnavailableError,
    OnChange,
)
from labkit.worlds.sim.machine.network import End, NodeNetwork
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER, PORT

_START_TIMEOUT_S, _RESPONSE_TIMEOUT_S = 10.0, 15.0
_RETRY_S = 0.1


class SimMetadataStore:
    """One process's session with the simulated metadata server."""

    def __init__(self, network: NodeNetwork, owner: str, session_timeout_s: float) -> None:
        self.location = MetadataLocation(f"{METADATA_SERVER}:{PORT}")
        self._network = network
        self._owner = owner
        self.session_timeout_s = session_timeout_s
        self._loop = asyncio.get_running_loop()
        self._connecting: End | None = None
        self._connection: End | None = None
        self._is_lost = False
        self._wake = asyncio.Event()
        """Set when a ping is due or the connection is lost."""
        self._session_id = 0
        self._heard_at = 0.0
        """The time at which the client last heard from the server or from the server's machine."""
        self._server_heard_at = inf
        """The time at which the client last heard from the server itself."""
        self._outbox: list[Any] = []
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._watches: dict[int, OnChange] = {}
        self._on_new_session: list[Callable[[], None]] = []
        self._on_silence: list[Callable[[], None]] = []
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._keep_alive_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._keep_alive_task = self._loop.create_task(self._keep_alive())
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                await self._started
        except TimeoutError:
            self._keep_alive_task.cancel()
            raise MetadataUnavailableError(
                f"the metadata store did not respond to {self._owner} within {_START_TIMEOUT_S:g} s"
            ) from None

    async def stop(self) -> None:
        if self._keep_alive_task is not None:
            self._keep_alive_task.cancel()
        if self._connection is not None:
            self._connection.send([("end", 0)])
            self._connection.close()

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        created: str = await self._request("create", path, data, ephemeral, sequential)
        return created

    async def create_child(self, path: str, data: bytes, parent_version: int) -> None:
        await self._request("create_child", path, data, parent_version)

    async def get(self, path: str, on_change: OnChange | None = None) -> tuple[bytes, int]:
        found: tuple[bytes, int] = await self._request_and_watch("get", path, on_change)
        return found

    async def exists(self, path: str, on_change: OnChange | None = None) -> bool:
        found: bool = await self._request_and_watch("exists", path, on_change)
        return found

    async def set(self, path: str, data: bytes, version: int) -> int:
        new_version: int = await self._request("set", path, data, version)
        return new_version

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._request("delete", path, version)

    async def children(self, path: str, on_change: OnChange | None = None) -> list[str]:
        names: list[str] = await self._request_and_watch("children", path, on_change)
        return names

    async def sync(self) -> None:
        await self._request("sync")

    def on_new_session(self, action: Callable[[], None]) -> None:
        self._on_new_session.append(action)

    def on_silence(self, action: Callable[[], None]) -> None:
        """Call `action` when the store responds again after a silence of more than half the session
        timeout.
        """
        self._on_silence.append(action)

    async def _request_and_watch(self, kind: str, path: str, on_change: OnChange | None) -> Any:
        if on_change is None:
            return await self._request(kind, path, 0)
        self._count += 1
        number = self._count
        self._watches[number] = on_change
        try:
            return await self._request(kind, path, number)
        except MetadataError:
            # As in ZooKeeper, a failed read sets no watch.
            self._watches.pop(number, None)
            raise

    async def _request(self, kind: str, *arguments: Any) -> Any:
        self._count += 1
        request = self._count
        response = self._pending[request] = self._loop.create_future()
        body = (kind, request, *arguments)
        if self._connection is None:
            self._outbox.append(body)
        else:
            self._connection.send([body])
        timer = self._loop.call_later(_RESPONSE_TIMEOUT_S, self._give_up, response)
        try:
            result = await response
        finally:
            timer.cancel()
            self._pending.pop(request, None)
        if isinstance(result, MetadataError):
            raise type(result)(*result.args)
        return result

    def _give_up(self, response: asyncio.Future[Any]) -> None:
        if not response.done():
            error = self._unavailable(f"no answer within {_RESPONSE_TIMEOUT_S:g} s")
            response.set_result(error)

    async def _keep_alive(self) -> None:
        while True:
            try:
                connection = await self._network.connect(
                    METADATA_SERVER, PORT, self._on_bodies, self._on_connection_lost
                )
            except OSError:
                await asyncio.sleep(_RETRY_S)
                continue
            self._connecting = connection
            self._is_lost = False
            self._wake.clear()
            self._heard_at = self._loop.time()
            # Notifications may have been lost with the old connection, so send the list of watches.
            # The server reports which of them have fired.
            watches = list(self._watches)
            connection.send([("session", self._owner, self._session_id, watches)])
            await self._ping(connection)
            connection.close()

    async def _ping(self, connection: End) -> None:
        # ZooKeeper uses the same ratio: it leaves a third of the session timeout for reconnecting.
        while self._loop.time() - self._heard_at < self.session_timeout_s * 2 / 3:
            timer = self._loop.call_later(self.session_timeout_s / 3, self._wake.set)
            await self._wake.wait()
            timer.cancel()
            if self._is_lost:
                return
            self._wake.clear()
            if self._connection is not None:
                connection.send([("ping", 0)])

    def _on_bodies(self, bodies: Sequence[Any]) -> None:
        now = self._loop.time()
        was_silent = now - self._server_heard_at > self.session_timeout_s / 2
        self._heard_at = self._server_heard_at = now
        if was_silent:
            for action in self._on_silence:
                action()
        for kind, number, *result in bodies:
            if kind == "session":
                self._on_session(number)
            elif kind == "changed":
                if (on_change := self._watches.pop(number, None)) is not None:
                    on_change()
            elif (response := self._pending.get(number)) is not None and not response.done():
                response.set_result(result[0])

    def _on_session(self, session_id: int) -> None:
        before, self._session_id = self._session_id, session_id
        connection = self._connection = self._connecting
        assert connection is not None
        # The previous id is 0 before the first session, and equals the new id if the session was
        # resumed in time. Otherwise, the previous session has been lost.
        if before not in (0, session_id):
            # The server has deleted the watches of the old session, so whoever set a watch must
            # read again.
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
        if not self._started.done():
            self._started.set_result(None)

    def _on_connection_lost(self) -> None:
        self._connection = None
        self._is_lost = True
        self._wake.set()
        self._fail(list(self._pending), "the connection was lost")

    def _fail(self, requests: Iterable[int], why: str) -> None:
        for request in requests:
            response = self._pending.get(request)
            if response is not None and not response.done():
                response.set_result(self._unavailable(why))

    def _unavailable(self, why: str) -> MetadataUnavailableError:
        return MetadataUnavailableError(f"the metadata store and {self._owner}: {why}")
