"""A simulated ZooKeeper: a server on its own node, and its side of the sessions.

The server answers in order.  It carries a request out once, as a real one does, whose clients never
repeat one: a request that the network copied has the same answer again.  A session of which the
server hears nothing for the session's time-out is over: its ephemeral nodes and its watches go.

A server that hung finds, when it goes on, requests that wait and sessions whose time is up.  Which
it comes to first is left to chance, as in ZooKeeper the thread that ends sessions and those that
serve connections do not wait for each other:

    expire b0 2     session 2, of b0, is over before anything of it is heard; its nodes go after
                    the decision's number of ms
    thaw b0 1       what came over b0's connection 1 is looked at after that number of ms

In ZooKeeper: `server/SessionTrackerImpl.java`, `server/NIOServerCnxnFactory.java`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any

from labkit.system.metadata.place import MetadataPlace
from labkit.system.metadata.store import ANY_VERSION, MetadataError, NoNodeError
from labkit.system.model.net import OnBodies
from labkit.worlds.sim.machine.decisions import Decisions, log_spread
from labkit.worlds.sim.machine.lagging_server import READS, LaggingServer
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.network import End
from labkit.worlds.sim.machine.process import NodeClock, Process
from labkit.worlds.sim.machine.tree import Watch, ZnodeTree

METADATA_SERVER = "zk"
"""The node on which the server runs."""
PORT = 2181
_PLACE = MetadataPlace(f"{METADATA_SERVER}:{PORT}")
_LATER_MS = log_spread(0.1, 500)
_WRITES = "create", "set"
_ANSWERS_KEPT = 1000
"""Of a session: more than can be on the way while a copied request is late."""
_BUSY_S = 1.0
"""For this time after a hang new connections may be served late, too."""


class SimZooKeeper:
    """The server.  It never crashes: ZooKeeper's own replication is not what is taught here."""

    def __init__(
        self,
        loop: SimLoop,
        session_timeout_s: float,
        decisions: Decisions,
        report: Callable[[str, str, str], None],
    ) -> None:
        """`report` is called with an event's kind, the node that it concerns and a note."""
        self.process = Process(METADATA_SERVER, NodeClock())
        self.tree = ZnodeTree(self._tell)
        self._loop = loop
        self._timeout_s = session_timeout_s
        self._decisions = decisions
        self._report = report
        self.on_stored: Callable[[str, bytes], None] = lambda path, data: None
        """Called with the path and the data of each node that is written."""
        self._sessions: dict[int, _Session] = {}
        self._session_count = 0
        self._connections: dict[End, None] = {}
        self._lagging: dict[str, LaggingServer] = {}
        """By the node whose sessions it answers."""
        self._expired_share = self._late_share = 0.0
        self._thawed_at = -inf

    def accept(self, connection: End) -> OnBodies:
        """Take a client's connection."""
        session: _Session | None = None

        def on_bodies(bodies: Sequence[Any]) -> None:
            nonlocal session
            for body in bodies:
                if body[0] == "session":
                    _, owner, resumed, watches = body
                    # One for a connection, also when the network copied the request for it.
                    session_id = resumed if session is None else session.id
                    session = self._begin(connection, owner, session_id, watches)
                elif session is not None and session.id in self._sessions:
                    self.handle(session, body)

        self._connections[connection] = None
        connection.when_closed(lambda: self._connections.pop(connection, None))
        if self._loop.now <= self._thawed_at + _BUSY_S:
            self._serve_later(connection)
        return on_bodies

    def expire(self, owner: str) -> None:
        """End that node's sessions now, as if they had been silent for too long."""
        # A copy: a session that ends leaves the dictionary.
        for session in list(self._sessions.values()):
            if session.owner == owner:
                self._end(session, "expired")

    def hang(self, expired_share: float = 0.0, late_share: float = 0.0) -> None:
        """Stop; the shares (0 to 1) are those of the decisions when the server goes on."""
        self._expired_share, self._late_share = expired_share, late_share
        if self.process.runs:
            self._report("metadata.hung", METADATA_SERVER, f"{self._timeout_s:g} s")
            self._loop.pause(self.process)

    def lag(self, owner: str, lag_s: float) -> None:
        """Let that node's sessions be answered by a server that is behind by so much; 0: by one
        that is not.
        """
        if lag_s:
            self._lagging[owner] = LaggingServer(lag_s, self.tree)
        else:
            self._lagging.pop(owner, None)

    def delete_cookie(self, bookie: str) -> None:
        """Delete a bookie's cookie, if it has one, as an operator does."""
        with suppress(NoNodeError):
            self.tree.delete(f"{_PLACE.cookies}/{bookie}", ANY_VERSION)
            self._changed()

    def behave(self) -> None:
        self._lagging.clear()
        self.resume()

    def resume(self) -> None:
        """End a hang, if there is one: draw the order in which the server serves."""
        if self.process.runs:
            return
        self._report("metadata.resumed", METADATA_SERVER, "")
        now = self._thawed_at = self._loop.now
        for connection in self._connections:
            self._serve_later(connection)
        for session in self._sessions.values():
            if session.heard_at + self._timeout_s <= now:
                self._end_later(session)
        self._loop.resume(self.process)

    def _end_later(self, session: "_Session") -> None:
        expire = self._decisions.of(f"expire {session.owner}")
        if later_ms := expire.take(session.id, self._expired_share, _LATER_MS):
            session.is_over = True
            due = self._loop.now + later_ms / 1000
            self._loop.call_true(due, self._end_overdue, session, context=self.process.context)
        else:
            # Its waiting requests are heard first, unless its owner is gone.
            session.heard_at = self._loop.now - self._timeout_s * 3 / 4

    def _serve_later(self, connection: End) -> None:
        thaw = self._decisions.of(f"thaw {connection.peer.process.name}")
        if later_ms := thaw.take(connection.number, self._late_share, _LATER_MS):
            connection.pause()
            due = self._loop.now + later_ms / 1000
            self._loop.call_true(due, connection.resume, context=self.process.context)

    def _begin(
        self, connection: End, owner: str, session_id: int, watches: Sequence[int]
    ) -> "_Session":
        session = self._sessions.get(session_id)
        if session is not None and session.is_over:
            self._end_overdue(session)
            session = None
        if session is None:
            self._session_count += 1
            session = _Session(self._session_count, owner, connection, self._loop.now)
            self._sessions[session.id] = session
            self._watch_over(session)
        session.heard_at = self._loop.now
        session.connection = connection
        # The watches that fired while the client was away.
        fired = [n for n in watches if not self.tree.is_watching((session.id, n))]
        # Together with the session's id, so that a client hears of changes before it asks anything.
        connection.send([("session", session.id), *(("changed", n) for n in fired)])
        return session

    def _watch_over(self, session: "_Session") -> None:
        if session.id in self._sessions and not session.is_over:
            if session.heard_at + self._timeout_s <= self._loop.now:
                self._end_overdue(session)
            else:
                due = session.heard_at + self._timeout_s
                self._loop.call_true(due, self._watch_over, session)

    def _end_overdue(self, session: "_Session") -> None:
        if session.id in self._sessions:
            self._end(session, f"nothing heard for {self._timeout_s:g} s")

    def _end(self, session: "_Session", why: str) -> None:
        del self._sessions[session.id]
        self._report("session.lost", session.owner, why)
        gone = self.tree.end_session(session.id)
        self._changed()
        session.connection.close()
        for bookie in self._unregistered(gone):
            self._report("bookie.unregistered", bookie, why)

    def _unregistered(self, gone: Sequence[str]) -> list[str]:
        """Bookies whose registrations are among these nodes, and that have no other."""
        others = {_PLACE.available: _PLACE.read_only, _PLACE.read_only: _PLACE.available}
        found = []
        for path in gone:
            folder, _, name = path.rpartition("/")
            if folder in others and not self.tree.exists(f"{others[folder]}/{name}", None):
                found.append(name)
        return found

    def handle(self, session: "_Session", body: Any) -> None:
        if session.is_over:
            self._end_overdue(session)
            return
        session.heard_at = self._loop.now
        if body[0] == "end":
            self._end(session, "ended by its owner")
            return
        session.connection.send([("answer", body[1], self._answer(session, *body))])

    def _answer(self, session: "_Session", kind: str, request: int, *arguments: Any) -> Any:
        """Carry a request out; one that the network copied is not carried out again."""
        if kind == "ping":
            return None
        if request not in session.answers:
            try:
                session.answers[request] = self._do(session, kind, arguments)
            except MetadataError as error:
                session.answers[request] = error
            if len(session.answers) > _ANSWERS_KEPT:
                del session.answers[next(iter(session.answers))]
        return session.answers[request]

    def _do(self, session: "_Session", kind: str, arguments: Sequence[Any]) -> Any:
        lagging = self._lagging.get(session.owner)
        if kind in READS:
            path, number = arguments
            if lagging is not None and not number:
                return lagging.answer(self._loop.now, kind, path)
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

    def _tell(self, watch: Watch) -> None:
        session_id, number = watch
        session = self._sessions.get(session_id)
        if session is not None:
            session.connection.send([("changed", number)])
            if session.owner in self._lagging:
                self._lagging[session.owner].tell()


@dataclass(slots=True)
class _Session:
    """The server's side of a session.

    `is_over`: its time was up when the server went on after it hung; its nodes are about to go.
    `answers`: the latest, by the request's number.
    """

    id: int
    owner: str
    connection: End
    heard_at: float
    is_over: bool = False
    answers: dict[int, Any] = field(default_factory=dict)
