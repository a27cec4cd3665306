"""A simulated ZooKeeper: a server on a node of its own, and the sessions that nodes have with it.

    the client      asks over the simulated network, one request after the other; tells that it
                    lives three times in a session's time-out; connects again when it hears nothing
    the server      answers in order; a session of which it hears nothing for that long is over: its
                    ephemeral nodes and its watches go
    the next time   the client learns that its session is over, and begins a new one

A request that was sent and not answered when the connection breaks raises
`MetadataUnavailableError`: nobody can tell whether it was carried out.

In ZooKeeper: `server/SessionTrackerImpl.java`, `ClientCnxn.java`.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.metadata.place import MetadataPlace
from labkit.metadata.store import (
    ANY_VERSION,
    MetadataError,
    MetadataUnavailableError,
    OnChange,
)
from labkit.model.net import OnBodies
from labkit.sim.loop import SimLoop
from labkit.sim.network import End, NodeNetwork
from labkit.sim.tree import Watch, ZnodeTree

METADATA_SERVER = "zk"
"""The node on which the server runs."""
PORT = 2181
_ANSWER_TIMEOUT_S = 15.0
_RETRY_S = 0.1


class SimZooKeeper:
    """The server.  It never crashes: ZooKeeper's own replication is not what is taught here."""

    def __init__(
        self, loop: SimLoop, session_timeout_s: float, report: Callable[[str, str, str], None]
    ) -> None:
        """`report` is told of an event's kind, the session's owner and a note."""
        self.tree = ZnodeTree(self._tell)
        self._loop = loop
        self._timeout_s = session_timeout_s
        self._report = report
        self._sessions: dict[int, _Session] = {}
        self._session_count = 0

    def accept(self, connection: End) -> OnBodies:
        """A client connected."""
        session: _Session | None = None

        def on_bodies(bodies: Sequence[Any]) -> None:
            nonlocal session
            for body in bodies:
                if body[0] == "session":
                    session = self._begin(connection, *body[1:])
                elif session is not None and session.id in self._sessions:
                    self._handle(session, body)

        return on_bodies

    def expire(self, owner: str) -> None:
        """End that node's sessions now, as if nothing had been heard of them."""
        for session in list(self._sessions.values()):
            if session.owner == owner:
                self._end(session, "expired")

    def _begin(
        self, connection: End, owner: str, session_id: int, watches: Sequence[int]
    ) -> "_Session":
        session = self._sessions.get(session_id)
        if session is None:
            self._session_count += 1
            session = _Session(self._session_count, owner, connection, self._loop.now)
            self._sessions[session.id] = session
            self._watch_over(session)
        session.heard_at = self._loop.now
        session.connection = connection
        # What fired while the client was not there.
        fired = [n for n in watches if not self.tree.is_watching((session.id, n))]
        connection.send([("session", session.id), *(("changed", n) for n in fired)])
        return session

    def _watch_over(self, session: "_Session") -> None:
        if session.id in self._sessions:
            if session.heard_at + self._timeout_s <= self._loop.now:
                self._end(session, f"nothing heard for {self._timeout_s:g} s")
            else:
                due = session.heard_at + self._timeout_s
                self._loop.call_true(due, self._watch_over, session)

    def _end(self, session: "_Session", why: str) -> None:
        del self._sessions[session.id]
        self._report("session.lost", session.owner, why)
        self.tree.end_session(session.id)
        session.connection.close()

    def _handle(self, session: "_Session", body: Any) -> None:
        session.heard_at = self._loop.now
        kind, request, *arguments = body
        if kind == "end":
            self._end(session, "ended by its owner")
            return
        try:
            result = None if kind == "ping" else self._do(session.id, kind, arguments)
        except MetadataError as error:
            result = error
        session.connection.send([("answer", request, result)])

    def _do(self, session_id: int, kind: str, arguments: list[Any]) -> Any:
        if kind == "create":
            path, data, ephemeral, sequential = arguments
            return self.tree.create(path, data, session_id if ephemeral else 0, sequential)
        if kind in ("get", "exists", "children"):
            path, number = arguments
            watch = (session_id, number) if number else None
            return getattr(self.tree, kind)(path, watch)
        return getattr(self.tree, kind)(*arguments)

    def _tell(self, watch: Watch) -> None:
        session_id, number = watch
        if session_id in self._sessions:
            self._sessions[session_id].connection.send([("changed", number)])


@dataclass(slots=True)
class _Session:
    """The server's side of a session."""

    id: int
    owner: str
    connection: End
    heard_at: float


class SimMetadataStore:
    """The metadata port of one process: a session with the simulated server."""

    def __init__(self, network: NodeNetwork, owner: str, session_timeout_s: float = 4.0) -> None:
        self.place = MetadataPlace(f"{METADATA_SERVER}:{PORT}")
        self._network = network
        self._owner = owner
        self._timeout_s = session_timeout_s
        self._loop = asyncio.get_running_loop()
        self._connecting: End | None = None
        self._connection: End | None = None
        self._is_lost = False
        self._wake = asyncio.Event()
        """A ping is due, or the connection is lost."""
        self._session_id = 0
        self._heard_at = 0.0
        self._outbox: list[Any] = []
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._watches: dict[int, OnChange] = {}
        self._on_new_session: list[Callable[[], None]] = []
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
        """Data and version."""
        found: tuple[bytes, int] = await self._ask_and_watch("get", path, on_change)
        return found

    async def exists(self, path: str, on_change: OnChange | None = None) -> bool:
        """Whether there is such a node."""
        found: bool = await self._ask_and_watch("exists", path, on_change)
        return found

    async def set(self, path: str, data: bytes, version: int) -> int:
        """Replace the data if the version fits; returns the new version."""
        new_version: int = await self._ask("set", path, data, version)
        return new_version

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a node if the version fits."""
        await self._ask("delete", path, version)

    async def children(self, path: str, on_change: OnChange | None = None) -> list[str]:
        """Names of the children, sorted."""
        names: list[str] = await self._ask_and_watch("children", path, on_change)
        return names

    def on_new_session(self, action: Callable[[], None]) -> None:
        """Call `action` whenever a lost session was replaced by a new one."""
        self._on_new_session.append(action)

    async def _ask_and_watch(self, kind: str, path: str, on_change: OnChange | None) -> Any:
        if on_change is None:
            return await self._ask(kind, path, 0)
        self._count += 1
        number = self._count
        self._watches[number] = on_change
        try:
            return await self._ask(kind, path, number)
        except MetadataError:
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
            watches = list(self._watches)
            connection.send([("session", self._owner, self._session_id, watches)])
            await self._ping(connection)
            connection.close()

    async def _ping(self, connection: End) -> None:
        """Return when the connection is lost, or nothing is heard any more."""
        while self._loop.time() - self._heard_at < self._timeout_s * 2 / 3:
            timer = self._loop.call_later(self._timeout_s / 3, self._wake.set)
            await self._wake.wait()
            timer.cancel()
            if self._is_lost:
                return
            self._wake.clear()
            if self._connection is not None:
                connection.send([("ping", 0)])

    def _received(self, bodies: Sequence[Any]) -> None:
        self._heard_at = self._loop.time()
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
        if lost not in (0, session_id):
            watches, self._watches = self._watches, {}
            for on_change in watches.values():
                on_change()
            for action in self._on_new_session:
                action()
        if self._outbox:
            connection.send(self._outbox)
            self._outbox = []
        if not self._begun.done():
            self._begun.set_result(None)

    def _connection_lost(self) -> None:
        self._connection = None
        self._is_lost = True
        self._wake.set()
        for answered in self._asked.values():
            if not answered.done():
                answered.set_result(self._unavailable("the connection was lost"))

    def _unavailable(self, why: str) -> MetadataUnavailableError:
        return MetadataUnavailableError(f"the metadata store and {self._owner}: {why}")
