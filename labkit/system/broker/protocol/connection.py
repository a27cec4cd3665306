"""A client's connection, which dispatches commands to handlers, and batches the responses produced
in each turn of the event loop.

`connection_state` defines which commands a client may send in which state. Clients choose the ids
of their requests, producers and consumers. An id is valid only within its connection.

In Pulsar: `broker/service/ServerCnx.java`, `common/protocol/PulsarHandler.java`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence, Sized
from typing import Any, Protocol

from labkit import __version__
from labkit.system.broker.errors import BrokerError, NotAllowedError, code_of
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
from labkit.system.topic.names import shorten

PROTOCOL_VERSION = 20
_VERSION = f"labkit {__version__}"
_FEATURES = FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)
"""Without this flag, the Java client never notices new partitions."""
_MAX_OUTGOING_BYTES = 4 * 1024 * 1024
"""The maximum number of message bytes sent per event loop turn, equal to the size of one read."""
_MAX_FRAMES_PER_TURN = 256
"""Handling this many frames takes a few milliseconds, during which other clients wait. With a lower
limit, the batches sent to bookies would be smaller.
"""
_PROBE_TIMEOUT_S = 5.0
_MAX_VERSION_LENGTH = 100
_MAX_MESSAGE_LENGTH = 1000

Handler = Callable[[BaseCommand, bytes], Awaitable[None] | None]
"""Called with a command and the message that follows it.

If the handler of a request raises a `LabkitError`, the client gets the error as the response. For
any other command, the connection is closed. If the handler returns an awaitable, later commands do
not wait for it.
"""
Handlers = Mapping[int, Handler]
"""Maps command types to handlers."""
ServerHandlers = Mapping[
    int, Callable[[Any, "ClientConnection", BaseCommand, bytes], Awaitable[None] | None]
]
"""Like `Handlers`, but also called with the broker and the connection."""

_CLIENT_ERRORS = (
    ServerError.InvalidTopicName,
    ServerError.NotAllowedError,
    ServerError.UnsupportedVersionError,
)
"""Errors caused by a faulty client. All others are transient or expected."""
MAX_PER_CONNECTION = 10_000
"""The maximum number of producers, and also of consumers. Clients open one per partition."""


def too_many_error(existing: Sized, what: str) -> BrokerError:
    return NotAllowedError(
        f"this connection has {len(existing)} {what} (maximum: {MAX_PER_CONNECTION}); close some"
    )


class Host(Protocol):
    max_message_size: int
    log: Callable[[str], None]
    """Called for each request that is rejected because of a client error."""

    def identify(self, method: str, data: bytes) -> Identity:
        """Raise `BrokerError` if the credentials are invalid."""


class ClientConnection:
    def __init__(self, wire: Wire, host: Host) -> None:
        self._state = ConnectionState.AWAITS_CONNECT
        self._liveness = Liveness.HEARD
        self.wire = wire
        self._host = host
        self._handlers: dict[int, Handler] = {
            BaseCommand.CONNECT: self._connect,
            BaseCommand.PING: self._pong,
            BaseCommand.PONG: lambda command, _: None,  # Any frame shows that the client is alive.
            BaseCommand.AUTH_RESPONSE: self._refresh_identity,
        }
        self.client_version = ""
        self._identity = ANONYMOUS
        self._auth_method = ""
        self._supports_auth_refresh = False
        self._authentication_error: BrokerError | None = None
        self._unhandled_frames: deque[bytes] = deque()
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._tasks: dict[asyncio.Task[None], BaseCommand] = {}
        self._uncounted: set[asyncio.Task[None]] = set()
        """Tasks that may wait indefinitely, for example for exclusive access."""
        self._on_closed: list[Callable[[], None]] = []
        self._on_writable: list[Callable[[], None]] = []
        self.backpressure = Backpressure(wire, self._mark_heard)
        wire.when_closed(self._on_wire_closed)
        wire.when_writable(self._on_wire_writable)

    @property
    def is_closed(self) -> bool:
        return self._state is ConnectionState.CLOSED

    def register_handlers(self, handlers: Handlers) -> None:
        self._handlers.update(handlers)

    # Receiving

    def on_bodies(self, bodies: Sequence[bytes]) -> None:
        if self._state not in (ConnectionState.AWAITS_CONNECT, ConnectionState.REJECTED):
            self._mark_heard()
        # If a turn is already scheduled, it will also handle these frames.
        is_first = not self._unhandled_frames
        self._unhandled_frames.extend(bodies)
        if is_first:
            self._handle_frames()

    def _handle_frames(self) -> None:
        """Handle some frames, and leave the rest until other connections have had their turn."""
        for _ in range(_MAX_FRAMES_PER_TURN):
            if not self._unhandled_frames:
                break
            self._handle(self._unhandled_frames.popleft())
        self.backpressure.set_frames_waiting(bool(self._unhandled_frames))
        if self._unhandled_frames:
            asyncio.get_running_loop().call_soon(self._handle_frames)

    def _handle(self, body: bytes) -> None:
        try:
            command, message = decode_frame(body)
        except UnknownCommandError as error:
            self._reject_unknown(error)
            return
        except FrameError:  # The client uses a different protocol.
            self.close()
            return
        handler = self._handlers.get(command.type)
        if handler is None or command.type not in ALLOWED_COMMANDS[self._state]:
            self.close()
            return
        try:
            awaitable = handler(command, message)
        except LabkitError as error:
            self._reject(command, error)
            return
        except BaseException:
            self.close()
            raise  # The event loop reports the exception.
        if awaitable is not None:
            self._start_task(command, awaitable)

    def _start_task(self, command: BaseCommand, awaitable: Awaitable[None]) -> None:
        assert isinstance(awaitable, Coroutine)
        task = asyncio.get_running_loop().create_task(awaitable)
        self._tasks[task] = command
        task.add_done_callback(self._on_task_done)
        self.backpressure.add_requests(1)

    def stop_counting_request(self) -> None:
        """Exclude the current task's request from the limit while it waits for another client."""
        task = asyncio.current_task()
        if task in self._tasks:
            self._uncounted.add(task)
            self.backpressure.add_requests(-1)

    def _on_task_done(self, task: "asyncio.Task[Any]") -> None:
        command = self._tasks.pop(task)
        if task in self._uncounted:
            self._uncounted.remove(task)
        else:
            self.backpressure.add_requests(-1)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, LabkitError):
            self.close()
            raise error  # The event loop reports the exception.
        self._reject(command, error)

    def _reject(self, command: BaseCommand, error: LabkitError) -> None:
        body: Any = body_of(command)
        if "request_id" not in body.DESCRIPTOR.fields_by_name or not body.HasField("request_id"):
            self.close()
        elif not self.is_closed:
            self._send_error(body.request_id, error)

    def _send_error(self, request_id: int, error: LabkitError) -> None:
        code, text = self.error_response(error)
        error_response = CommandError(request_id=request_id, error=code, message=text)
        self.send(BaseCommand(type=BaseCommand.ERROR, error=error_response))

    def error_response(self, error: LabkitError) -> tuple[ServerError, str]:
        """Return the error code and message for the client. Log client errors."""
        # A message may quote a very long name.
        code, text = code_of(error), str(error)[:_MAX_MESSAGE_LENGTH]
        if code in _CLIENT_ERRORS:
            self._host.log(f"rejected a request from {shorten(self.client_version)}: {text}")
        return code, text

    def _reject_unknown(self, error: UnknownCommandError) -> None:
        """Reject an unknown request from a newer client, but keep the connection open."""
        if self._state is ConnectionState.AWAITS_CONNECT:
            self.close()
        elif error.request_id is not None:
            client_error = BrokerError(ServerError.UnsupportedVersionError, str(error))
            self._send_error(error.request_id, client_error)

    # Authentication

    def _connect(self, command: BaseCommand, _: bytes) -> None:
        self._mark_heard()
        request = command.connect
        self.client_version = request.client_version[:_MAX_VERSION_LENGTH]
        self._auth_method = request.auth_method_name
        self._supports_auth_refresh = request.feature_flags.supports_auth_refresh
        try:
            self._identity = self._host.identify(self._auth_method, request.auth_data)
            self._state = ConnectionState.CONNECTED
        except BrokerError as error:
            self._authentication_error = error
            self._state = ConnectionState.REJECTED
        connected = CommandConnected(
            server_version=_VERSION,
            protocol_version=min(request.protocol_version, PROTOCOL_VERSION),
            max_message_size=self._host.max_message_size,
            feature_flags=_FEATURES,
        )
        self.send(BaseCommand(type=BaseCommand.CONNECTED, connected=connected))

    @property
    def role(self) -> str:
        return self._identity.role

    def check_credentials(self, now_ms: int) -> None:
        """If the client's token has expired, ask for a new one. This is called periodically.

        A client that does not support this, or has not responded by the next call, is disconnected.
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
        """Accept a new token if it has the same role; otherwise, close the connection."""
        response = command.authResponse.response
        identity = self._host.identify(response.auth_method_name, response.auth_data)
        if identity.role == self.role:
            self._identity, self._state = identity, ConnectionState.CONNECTED
        else:
            self.close()

    def check_identified(self) -> None:
        """If authentication has failed, raise the `BrokerError` that explains why."""
        if self._authentication_error is not None:
            raise self._authentication_error

    # Sending

    def send(self, command: BaseCommand, message: bytes = b"") -> None:
        """Send a command with all others of this turn, unless the connection is closed."""
        self.send_frames((encode_frame(command, message),), len(message))

    def send_frames(self, frames: Iterable[bytes], message_bytes: int) -> None:
        """Send encoded commands. `message_bytes` is the size of the messages that follow them."""
        # Send them together, because a system call costs more than encoding many small commands.
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing.extend(frames)
        self._outgoing_bytes += message_bytes

    @property
    def is_writable(self) -> bool:
        """Whether the client is reading its responses. If not, its consumers receive nothing."""
        return self._outgoing_bytes < _MAX_OUTGOING_BYTES and self.wire.is_writable

    def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        was_full = self._outgoing_bytes >= _MAX_OUTGOING_BYTES
        self._outgoing_bytes = 0
        if outgoing:
            self.wire.send(outgoing)
            self.backpressure.update()
        if was_full and self.wire.is_writable:
            self._notify_writable()

    def _on_wire_writable(self) -> None:
        self.backpressure.update()
        self._notify_writable()

    def _notify_writable(self) -> None:
        for action in self._on_writable:
            action()

    def when_writable(self, action: Callable[[], None]) -> None:
        """Register a callback that is called whenever the client resumes reading its responses."""
        self._on_writable.append(action)

    def close(self) -> None:
        self._flush()
        self.wire.close()
        self._on_wire_closed()

    def when_closed(self, action: Callable[[], None]) -> None:
        """Register a callback that is called once when either side has closed the connection."""
        self._on_closed.append(action)

    def _on_wire_closed(self) -> None:
        if not self.is_closed:
            # Set the state first, because a callback may call `close` again.
            self._state = ConnectionState.CLOSED
            self._unhandled_frames.clear()
            for action in self._on_closed:
                action()

    # Keep-alive

    def _mark_heard(self) -> None:
        self._liveness = Liveness.HEARD

    def keep_alive(self) -> None:
        """Ping a silent client, or disconnect it if it has not responded to the last ping.

        This is called periodically. A client is silent if nothing has been received from it since
        the last call, unless the broker has paused reading from it.
        """
        has_paused_reading = self.backpressure.is_paused and self.wire.is_writable
        if self._liveness is Liveness.HEARD or has_paused_reading:
            self._liveness = Liveness.QUIET
        elif self._liveness is Liveness.QUIET:
            self._liveness = Liveness.PINGED
            self._ping()
        else:
            self.close()

    def probe(self) -> None:
        """Send a PING, and disconnect the client if it does not respond soon."""
        if not self.backpressure.is_paused:
            if self._liveness is Liveness.HEARD:
                self._liveness = Liveness.QUIET
            self._ping()
            asyncio.get_running_loop().call_later(_PROBE_TIMEOUT_S, self.end_probe)

    def end_probe(self) -> None:
        is_silent = self._liveness is not Liveness.HEARD and not self.backpressure.is_paused
        if is_silent and not self.is_closed:
            self.close()

    def _ping(self) -> None:
        self.send(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))

    def _pong(self, command: BaseCommand, _: bytes) -> None:
        self.send(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
