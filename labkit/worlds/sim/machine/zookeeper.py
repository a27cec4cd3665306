"""A simulated ZooKeeper server, which runs on its own node, and the server's side of the sessions.

The server handles requests in order, and carries out each request only once: if the network
duplicates a request, the server repeats its response. (Real ZooKeeper clients never resend a
request.) A session that is silent for longer than its timeout expires: its ephemeral nodes are
deleted and its watches are removed.

When a hung server resumes, requests are queued and sessions are overdue. The server handles them in
random order, because ZooKeeper's thread that expires sessions runs independently of the threads
that serve connections:

    expire b0 2     session 2, owned by b0, expires before the server reads any of its requests; the
                    value is the delay in ms until its nodes are deleted
    thaw b0 1       for this many ms, the server does not read from connection 1 of b0

In ZooKeeper: `server/SessionTrackerImpl.java`, `server/NIOServerCnxnFactory.java`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any

from labkit.system.metadata.location import MetadataLocation
from labkit.system.metadata.store import ANY_VERSION, MetadataError, NoNodeError
from labkit.system.model.net import OnBodies
from labkit.worlds.sim.machine.decisions import Decisions, log_spread
from labkit.worlds.sim.machine.lagging_server import READS, LaggingServer
from labkit.worlds.sim.machine.links import Report
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.network import End
from labkit.worlds.sim.machine.process import NodeClock, Process
from labkit.worlds.sim.machine.tree import Watch, ZnodeTree

METADATA_SERVER = "zk"
"""The node on which the server runs."""
PORT = 2181
_LOCATION = MetadataLocation(f"{METADATA_SERVER}:{PORT}")
_DELAY_MS = log_spread(0.1, 500)
_WRITES = "create", "create_child", "set"
_MAX_RESPONSES_KEPT = 1000
"""The number of responses kept per session, which is more than can be in flight while a duplicate
request is delayed.
"""
_BUSY_S = 1.0
"""How long the server may also be slow to serve new connections after a hang."""


class SimZooKeeper:
    """The simulated server. It never crashes, because ZooKeeper's replication is not simulated."""

    def __init__(
        self,
        loop: SimLoop,
        session_timeout_s: float,
        decisions: Decisions,
        report: Report,
    ) -> None:
        self.process = Process(METADATA_SERVER, NodeClock())
        self.tree = ZnodeTree(self._notify)
        self._loop = loop
        self._timeout_s = session_timeout_s
        self._decisions = decisions
        self._report = report
        self.on_stored: Callable[[str, bytes], None] = lambda path, data: None
        """Called with the path and data of every node that is written."""
        self._sessions: dict[int, _Session] = {}
        self._session_count = 0
        self._connections: dict[End, None] = {}
        self._lagging: dict[str, LaggingServer] = {}
        """The lagging servers, by the node whose sessions they serve."""
        self._expired_share = self._late_share = 0.0
        self._thawed_at = -inf

    def accept(self, connection: End) -> OnBodies:
        session: _Session | None = None

        def on_bodies(bodies: Sequence[Any]) -> None:
            nonlocal session
            for body in bodies:
                if body[0] == "session":
                    _, owner, resumed, watches = body
                    # Open only one session per connection, even if the network has duplicated the
                    # request.
                    session_id = resumed if session is None else session.id
                    session = self._open_session(connection, owner, session_id, watches)
                elif session is not None and session.id in self._sessions:
                    self.handle(session, body)

        self._connections[connection] = None
        connection.when_closed(lambda: self._connections.pop(connection, None))
        if self._loop.now <= self._thawed_at + _BUSY_S:
            self._serve_later(connection)
        return on_bodies

    def expire(self, owner: str) -> None:
        # Iterate over a copy, because ending a session removes it from the dictionary.
        for session in list(self._sessions.values()):
            if session.owner == owner:
                self._end(session, "expired")

    def hang(self, expired_share: float = 0.0, late_share: float = 0.0) -> None:
        """Suspend the server. The shares (0 to 1) take effect when the server resumes."""
        self._expired_share, self._late_share = expired_share, late_share
        if self.process.is_running:
            self._loop.pause(self.process)
            self._report("metadata.hung", METADATA_SERVER, seconds=self._timeout_s)

    def lag(self, owner: str, lag_s: float) -> None:
        """Make the server of this node's sessions lag `lag_s` seconds behind (0: not at all)."""
        if lag_s:
            self._lagging[owner] = LaggingServer(lag_s, self.tree)
        else:
            self._lagging.pop(owner, None)

    def delete_cookie(self, bookie: str) -> None:
        with suppress(NoNodeError):
            self.tree.delete(f"{_LOCATION.cookies}/{bookie}", ANY_VERSION)
            self._changed()

    def repair(self) -> None:
        self._lagging.clear()
        self.resume()

    def resume(self) -> None:
        """Resume a hung server. The order in which it handles requests and expiries is random."""
        if self.process.is_running:
            return
        now = self._thawed_at = self._loop.now
        for connection in self._connections:
            self._serve_later(connection)
        for session in self._sessions.values():
            if session.heard_at + self._timeout_s <= now:
                self._expire_later(session)
        self._loop.resume(self.process)
        self._report("metadata.resumed", METADATA_SERVER)

    def _expire_later(self, session: "_Session") -> None:
        expire = self._decisions.of(f"expire {session.owner}")
        if delay_ms := expire.value_of(session.id, self._expired_share, _DELAY_MS):
            session.is_over = True
            due = self._loop.now + delay_ms / 1000
            self._loop.call_at_world_time(due, self._expire, session, context=self.process.context)
        else:
            # Handle the session's waiting requests first. If its owner has died, the session will
            # still expire soon.
            session.heard_at = self._loop.now - self._timeout_s * 3 / 4

    def _serve_later(self, connection: End) -> None:
        thaw = self._decisions.of(f"thaw {connection.peer.process.name}")
        if delay_ms := thaw.value_of(connection.number, self._late_share, _DELAY_MS):
            connection.pause()
            due = self._loop.now + delay_ms / 1000
            self._loop.call_at_world_time(due, connection.resume, context=self.process.context)

    def _open_session(
        self, connection: End, owner: str, session_id: int, watches: Sequence[int]
    ) -> "_Session":
        session = self._sessions.get(session_id)
        if session is not None and session.is_over:
            self._expire(session)
            session = None
        if session is None:
            self._session_count += 1
            session = _Session(self._session_count, owner, connection, self._loop.now)
            self._sessions[session.id] = session
            self._check_expiry(session)
        session.heard_at = self._loop.now
        session.connection = connection
        # The client lists its watches. Watches that the server no longer has were triggered while
        # the client was disconnected. Report them together with the session id, so that the client
        # learns of the changes before it sends any request.
        fired = [n for n in watches if not self.tree.is_watching((session.id, n))]
        connection.send([("session", session.id), *(("changed", n) for n in fired)])
        return session

    def _check_expiry(self, session: "_Session") -> None:
        if session.id in self._sessions and not session.is_over:
            if session.heard_at + self._timeout_s <= self._loop.now:
                self._expire(session)
            else:
                due = session.heard_at + self._timeout_s
                self._loop.call_at_world_time(due, self._check_expiry, session)

    def _expire(self, session: "_Session") -> None:
        if session.id in self._sessions:
            self._end(session, f"nothing heard for {self._timeout_s:g} s")

    def _end(self, session: "_Session", why: str) -> None:
        del self._sessions[session.id]
        self._report("session.lost", session.owner, explanation=why)
        deleted = self.tree.end_session(session.id)
        self._changed()
        session.connection.close()
        for bookie in self._unregistered(deleted):
            self._report("bookie.unregistered", bookie, explanation=why)

    def _unregistered(self, deleted: Sequence[str]) -> list[str]:
        """Return the bookies that are no longer registered after these nodes have been deleted."""
        others = {
            _LOCATION.available: _LOCATION.read_only,
            _LOCATION.read_only: _LOCATION.available,
        }
        found = []
        for path in deleted:
            folder, _, name = path.rpartition("/")
            if folder in others and not self.tree.exists(f"{others[folder]}/{name}", None):
                found.append(name)
        return found

    def handle(self, session: "_Session", body: Any) -> None:
        if session.is_over:
            self._expire(session)
            return
        session.heard_at = self._loop.now
        if body[0] == "end":
            self._end(session, "ended by its owner")
            return
        session.connection.send([("answer", body[1], self._respond(session, *body))])

    def _respond(self, session: "_Session", kind: str, request: int, *arguments: Any) -> Any:
        """Carry out a request unless it is a duplicate, and return the response."""
        if kind == "ping":
            return None
        if request not in session.responses:
            try:
                session.responses[request] = self._execute(session, kind, arguments)
            except MetadataError as error:
                session.responses[request] = error
            if len(session.responses) > _MAX_RESPONSES_KEPT:
                del session.responses[next(iter(session.responses))]
        return session.responses[request]

    def _execute(self, session: "_Session", kind: str, arguments: Sequence[Any]) -> Any:
        lagging = self._lagging.get(session.owner)
        if kind in READS:
            path, number = arguments
            if lagging is not None and not number:
                return lagging.read(self._loop.now, kind, path)
            watch = (session.id, number) if number else None
            result = getattr(self.tree, kind)(path, watch)
        else:
            result = self._change(session, kind, arguments)
        if lagging is not None:
            lagging.catch_up()
        return result

    def _change(self, session: "_Session", kind: str, arguments: Sequence[Any]) -> Any:
        if kind == "sync":
            return None
        if kind == "create":
            path, data, ephemeral, sequential = arguments
            result: Any = self.tree.create(path, data, session.id if ephemeral else 0, sequential)
        else:
            result = getattr(self.tree, kind)(*arguments)
        if kind in _WRITES:
            self.on_stored(arguments[0], arguments[1])
        self._changed()
        return result

    def _changed(self) -> None:
        for server in self._lagging.values():
            server.changed(self._loop.now)

    def _notify(self, watch: Watch) -> None:
        session_id, number = watch
        session = self._sessions.get(session_id)
        if session is not None:
            session.connection.send([("changed", number)])
            if session.owner in self._lagging:
                self._lagging[session.owner].watch_fired()


@dataclass(slots=True)
class _Session:
    """The server's side of a session.

    `is_over` is true if the session had expired when the server resumed from a hang, and its nodes
    are about to be deleted. `responses` contains the most recent responses, by request number.
    """

    id: int
    owner: str
    connection: End
    heard_at: float
    is_over: bool = False
    responses: dict[int, Any] = field(default_factory=dict)
