"""A client's connection: passes each command to its handler, and writes answers once a turn.

`connection_state` says which commands a client may send when.  The client chooses the ids of its
requests, producers and consumers; they are valid on its connection.

In Pulsar: `broker/service/ServerCnx.java`, `common/protocol/PulsarHandler.java`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence, Sized
from typing import Any, Protocol

from labkit import __version__
from labkit.system.broker.errors import BrokerError, code_of, text_of
from labkit.system.broker.protocol.authentication import ANONYMOUS, REFRESH, Identity
from labkit.system.broker.protocol.backpressure import Backpressure
from labkit.system.broker.protocol.connection_state import (
    ALLOWED_COMMANDS,
    ConnectionState,
    Liveness,
)
from labkit.system.broker.protocol.frames import (
    FrameError,
    UnknownCommandError,
    body_of,
    decode_frame,
    encode_frame,
)
from labkit.system.model.errors import LabkitError
from labkit.system.model.net import Connection as Wire
from labkit.system.model.proto.pulsar_pb2 import (
    AuthData,
    BaseCommand,
    CommandAuthChallenge,
    CommandConnected,
    CommandError,
    CommandPing,
    CommandPong,
    FeatureFlags,
    ServerError,
)
from labkit.system.topic.names import shortened

PROTOCOL_VERSION = 20
_VERSION = f"labkit {__version__}"
_FEATURES = FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)
"""Without this flag the Java client never asks again how many partitions a topic has. The other
flags are for watches of topic lists and for replication, which this broker does not serve.
"""
_LARGEST_OUTGOING_BYTES = 4 * 1024 * 1024
"""Bytes that may leave in a turn before consumers wait for the next one: the size of one read."""
_FRAMES_OF_A_TURN = 256
"""A few milliseconds' work, as all other clients wait; with fewer, bookies get smaller groups."""
_PROBE_TIMEOUT_S = 5.0
_LONGEST_VERSION = 100

Handler = Callable[[BaseCommand, bytes], Awaitable[None] | None]
"""Takes a command, and the message after it.

If it raises a `LabkitError`, a request is answered with that error; for any other command the
connection ends.  What a handler awaits does not delay later commands of the connection.
"""
Handlers = Mapping[int, Handler]
"""Handlers by the type of the command."""

_MISTAKES = (
    ServerError.InvalidTopicName,
    ServerError.NotAllowedError,
    ServerError.UnsupportedVersionError,
)
"""The client's own mistakes; all other refusals are transient or normal."""
MOST_OF_A_CONNECTION = 10_000
"""Limit on producers, and on consumers: a client has one for each partition."""


def too_many(held: Sized, what: str) -> BrokerError:
    """The refusal of one more producer or consumer on a connection."""
    return BrokerError(
        ServerError.NotAllowedError,
        f"this connection has {len(held)} {what}, and may have {MOST_OF_A_CONNECTION}; close some",
    )


class Host(Protocol):
    """What a connection needs from its broker."""

    @property
    def max_message_size(self) -> int:
        """In bytes."""

    @property
    def log(self) -> Callable[[str], None]:
        """Takes a line for each refusal that is the client's mistake."""

    def identify(self, method: str, data: bytes) -> Identity:
        """The client's identity, by these credentials.  Raises `BrokerError` for wrong ones."""

    async def check_may(self, role: str, topic: str, *actions: str, subscription: str = "") -> None:
        """Raises what `Authorization.check_topic` raises."""


class ClientConnection:
    """The broker's end of a client's connection."""

    def __init__(self, wire: Wire, host: Host) -> None:
        self._state = ConnectionState.AWAITS_CONNECT
        self._liveness = Liveness.HEARD
        self.wire = wire
        self._host = host
        self._handlers: dict[int, Handler] = {
            BaseCommand.CONNECT: self._connect,
            BaseCommand.PING: self._answer_ping,
            BaseCommand.PONG: lambda command, _: None,  # Any frame shows that the client is alive.
            BaseCommand.AUTH_RESPONSE: self._refresh_identity,
        }
        self.client_version = ""
        """The client's name and version, as it sends them."""
        self._identity = ANONYMOUS
        self._auth_method = ""
        self._supports_auth_refresh = False
        """Whether the client can be asked for another token."""
        self._refusal: BrokerError | None = None
        """Why the client did not prove its identity."""
        self._unhandled: deque[bytes] = deque()
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._tasks: dict[asyncio.Task[None], BaseCommand] = {}
        self._uncounted: set[asyncio.Task[None]] = set()
        """Tasks that may wait for any time, such as for an exclusive producer's turn."""
        self._on_closed: list[Callable[[], None]] = []
        self._on_writable: list[Callable[[], None]] = []
        self.backpressure = Backpressure(wire, self._note_heard)
        wire.when_closed(self._closed)
        wire.when_writable(self._writable)

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._state is ConnectionState.CLOSED

    def serve(self, handlers: Handlers) -> None:
        """Add handlers, by the type of their command."""
        self._handlers.update(handlers)

    # In

    def on_bodies(self, bodies: Sequence[bytes]) -> None:
        """Take the frames of one receive."""
        self._note_heard()
        # A turn that is already due takes these frames too: a second one would change their order.
        is_first = not self._unhandled
        self._unhandled.extend(bodies)
        if is_first:
            self._handle_frames()

    def _handle_frames(self) -> None:
        """Handle some frames; the others wait until every connection has had its turn."""
        for _ in range(min(len(self._unhandled), _FRAMES_OF_A_TURN)):
            if not self.is_closed:
                self._handle(self._unhandled.popleft())
        if self.is_closed:
            self._unhandled.clear()
        self.backpressure.set_frames_waiting(bool(self._unhandled))
        if self._unhandled:
            asyncio.get_running_loop().call_soon(self._handle_frames)

    def _handle(self, body: bytes) -> None:
        try:
            command, message = decode_frame(body)
        except UnknownCommandError as error:
            self._refuse_unknown(error)
            return
        except FrameError:
            # It speaks another protocol: it could not read an answer.
            self.close()
            return
        handler = self._handlers.get(command.type)
        if handler is None or command.type not in ALLOWED_COMMANDS[self._state]:
            self.close()
            return
        try:
            work = handler(command, message)
        except LabkitError as error:
            self._refuse(command, error)
            return
        if work is not None:
            self._start_task(command, work)

    def _start_task(self, command: BaseCommand, work: Awaitable[None]) -> None:
        assert isinstance(work, Coroutine)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = command
        task.add_done_callback(self._done)
        self.backpressure.add_requests(1)

    def stop_counting_request(self) -> None:
        """Leave this task's request out of the limit: it has its first answer, and waits for a
        second.
        """
        task = asyncio.current_task()
        if task in self._tasks:
            self._uncounted.add(task)
            self.backpressure.add_requests(-1)

    def _done(self, task: "asyncio.Task[Any]") -> None:
        command = self._tasks.pop(task)
        if task in self._uncounted:
            self._uncounted.remove(task)
        else:
            self.backpressure.add_requests(-1)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, LabkitError):
            self.close()
            # Raised in a callback: the event loop reports it.
            raise error
        self._refuse(command, error)

    def _refuse(self, command: BaseCommand, error: LabkitError) -> None:
        body: Any = body_of(command)
        if "request_id" not in body.DESCRIPTOR.fields_by_name or not body.HasField("request_id"):
            self.close()
        elif not self.is_closed:
            self._send_error(body.request_id, error)

    def _send_error(self, request_id: int, error: LabkitError) -> None:
        code, text = self.refusal(error)
        refusal = CommandError(request_id=request_id, error=code, message=text)
        self.send(BaseCommand(type=BaseCommand.ERROR, error=refusal))

    def refusal(self, error: LabkitError) -> tuple[ServerError, str]:
        """Code and sentence for the client; a client's mistake gets a line in the log."""
        code, text = code_of(error), text_of(error)
        if code in _MISTAKES:
            self._host.log(f"{shortened(self.client_version)} is refused: {text}")
        return code, text

    def _refuse_unknown(self, error: UnknownCommandError) -> None:
        """Refuse a newer client's unknown request, and keep its connection."""
        if self._state is ConnectionState.AWAITS_CONNECT:
            self.close()
        elif error.request_id is not None:
            mistake = BrokerError(ServerError.UnsupportedVersionError, str(error))
            self._send_error(error.request_id, mistake)

    # Who the client is

    def _connect(self, command: BaseCommand, _: bytes) -> None:
        request = command.connect
        self.client_version = request.client_version[:_LONGEST_VERSION]
        self._auth_method = request.auth_method_name
        self._supports_auth_refresh = request.feature_flags.supports_auth_refresh
        try:
            self._identity = self._host.identify(self._auth_method, request.auth_data)
            self._state = ConnectionState.CONNECTED
        except BrokerError as error:
            self._refusal = error
            self._state = ConnectionState.REFUSED
        connected = CommandConnected(
            server_version=_VERSION,
            protocol_version=min(request.protocol_version, PROTOCOL_VERSION),
            max_message_size=self._host.max_message_size,
            feature_flags=_FEATURES,
        )
        self.send(BaseCommand(type=BaseCommand.CONNECTED, connected=connected))

    @property
    def role(self) -> str:
        """The client's role, once it has connected."""
        return self._identity.role

    def check_credentials(self, now_ms: int) -> None:
        """Called at intervals: ask a client whose token has expired for another one.  A client that
        cannot be asked, or has not answered by the next call, is disconnected.
        """
        if self.is_closed or not self._identity.is_expired(now_ms):
            return
        if self._state is ConnectionState.CHALLENGED or not self._supports_auth_refresh:
            self.close()
            return
        self._state = ConnectionState.CHALLENGED
        challenge = CommandAuthChallenge(
            server_version=_VERSION,
            challenge=AuthData(auth_method_name=self._auth_method, auth_data=REFRESH),
            protocol_version=PROTOCOL_VERSION,
        )
        self.send(BaseCommand(type=BaseCommand.AUTH_CHALLENGE, authChallenge=challenge))

    def _refresh_identity(self, command: BaseCommand, _: bytes) -> None:
        """Take another token from the client, which must be of the same role.

        With a wrong one the connection ends: the client learns the reason when it connects again.
        """
        answer = command.authResponse.response
        identity = self._host.identify(answer.auth_method_name, answer.auth_data)
        if identity.role == self.role:
            self._identity, self._state = identity, ConnectionState.CONNECTED
        else:
            self.close()

    def check_identified(self) -> None:
        """Raises `BrokerError` with the reason if the client did not prove its identity."""
        if self._refusal is not None:
            raise self._refusal

    async def check_may(self, topic: str, *actions: str, subscription: str = "") -> None:
        """Raises what `Authorization.check_topic` raises for the client's role."""
        await self._host.check_may(self.role, topic, *actions, subscription=subscription)

    # Out

    def send(self, command: BaseCommand, message: bytes = b"") -> None:
        """Send a command with all others of this turn; a closed connection sends nothing."""
        self.send_frames((encode_frame(command, message),), len(message))

    def send_frames(self, frames: Iterable[bytes], message_bytes: int) -> None:
        """`send` for commands that are encoded; `message_bytes`: of the messages after them."""
        # One write for the whole turn: a system call costs more than many small commands.
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing.extend(frames)
        self._outgoing_bytes += message_bytes

    @property
    def is_writable(self) -> bool:
        """Whether the client reads its answers; if not, its consumers get nothing until it does,
        which bounds the memory for it.
        """
        return self._outgoing_bytes < _LARGEST_OUTGOING_BYTES and self.wire.is_writable

    def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        was_full = self._outgoing_bytes >= _LARGEST_OUTGOING_BYTES
        self._outgoing_bytes = 0
        if outgoing:
            self.wire.send(outgoing)
            self.backpressure.update()
        if was_full and self.wire.is_writable:
            self._call_writable()

    def _writable(self) -> None:
        self.backpressure.update()
        self._call_writable()

    def _call_writable(self) -> None:
        for action in self._on_writable:
            action()

    def when_writable(self, action: Callable[[], None]) -> None:
        """Call `action` each time the client starts to read its answers again."""
        self._on_writable.append(action)

    def close(self) -> None:
        """Send what is waiting, and end the connection."""
        self._flush()
        self.wire.close()
        self._closed()

    def when_closed(self, action: Callable[[], None]) -> None:
        """Call `action` once when the connection has ended, whichever side ended it."""
        self._on_closed.append(action)

    def _closed(self) -> None:
        if not self.is_closed:
            # First: an action may close the connection again.
            self._state = ConnectionState.CLOSED
            for action in self._on_closed:
                action()

    # Whether the client is alive

    def _note_heard(self) -> None:
        self._liveness = Liveness.HEARD

    def keep_alive(self) -> None:
        """Called at intervals: send PING to a client that sent nothing since the last call, and
        disconnect it if it has not answered by the next.  A client whose requests are not read
        because it sent too many is not silent; one that does not read its answers is.
        """
        if self._liveness is Liveness.HEARD or self._is_unread:
            self._liveness = Liveness.QUIET
        elif self._liveness is Liveness.QUIET:
            self._liveness = Liveness.PINGED
            self._ping()
        else:
            self.close()

    @property
    def _is_unread(self) -> bool:
        return self.backpressure.is_paused and self.wire.is_writable

    def probe(self) -> None:
        """Check that this client is alive: another one wants what it holds."""
        if not self.backpressure.is_paused:
            if self._liveness is Liveness.HEARD:
                self._liveness = Liveness.QUIET
            self._ping()
            asyncio.get_running_loop().call_later(_PROBE_TIMEOUT_S, self.end_probe)

    def end_probe(self) -> None:
        """Called when the time for an answer is over."""
        is_silent = self._liveness is not Liveness.HEARD and not self.backpressure.is_paused
        if is_silent and not self.is_closed:
            self.close()

    def _ping(self) -> None:
        self.send(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))

    def _answer_ping(self, command: BaseCommand, _: bytes) -> None:
        self.send(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
