"""A client's connection: passes each command to its handler, and writes answers once a turn.

The client chooses the ids of its requests, producers and consumers; they are valid on its
connection.

In Pulsar: `broker/service/ServerCnx.java`, `common/protocol/PulsarHandler.java`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence, Sized
from typing import Any, Protocol

from labkit import __version__
from labkit.system.broker.errors import BrokerError, code_of, text_of
from labkit.system.broker.protocol.authentication import ANONYMOUS, REFRESH, Identity
from labkit.system.broker.protocol.backpressure import Intake
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
_QUESTIONS = (BaseCommand.PARTITIONED_METADATA, BaseCommand.LOOKUP)
"""A client's first requests: their handlers check that it was let in."""

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


class Connection:
    """The broker's end of a client's connection."""

    def __init__(self, wire: Wire, host: Host) -> None:
        self.closed = False
        self.wire = wire
        self._host = host
        self._handlers: dict[int, Handler] = {}
        self._connected = False
        self._identity = ANONYMOUS
        self._method = ""
        self._client = ""
        """The client's version as it names it, for the log."""
        self.is_cpp_client = False
        """Whether the client is, or is built on, Pulsar's for C++ (that for Python is)."""
        self._may_be_asked = False
        """Whether the client can be asked for another token when its own has expired."""
        self._is_asked = False
        self._refusal: BrokerError | None = None
        self._unhandled: deque[bytes] = deque()
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._tasks: dict[asyncio.Task[None], BaseCommand] = {}
        self._when_closed: list[Callable[[], None]] = []
        self._when_writable: list[Callable[[], None]] = []
        self._waiting: set[asyncio.Task[None]] = set()
        """Tasks that may wait for any time, such as for an exclusive producer's turn."""
        self._heard = True
        self._pinged = False
        self.intake = Intake(wire, self._on_heard)
        wire.when_closed(self._on_close)
        wire.when_writable(self._on_writable)

    def serve(self, handlers: Handlers) -> None:
        """Add handlers, by the type of their command."""
        self._handlers.update(handlers)

    # In

    def on_bodies(self, bodies: Sequence[bytes]) -> None:
        """Take the frames of one receive."""
        self._heard = True
        # A turn that is already due takes these frames too: a second one would change their order.
        is_first = not self._unhandled
        self._unhandled.extend(bodies)
        if is_first:
            self._take_turn()

    def _take_turn(self) -> None:
        """Handle some frames; the others wait until every connection has had its turn."""
        for _ in range(min(len(self._unhandled), _FRAMES_OF_A_TURN)):
            if not self.closed:
                self._handle(self._unhandled.popleft())
        if self.closed:
            self._unhandled.clear()
        self.intake.wait_for_turn(bool(self._unhandled))
        if self._unhandled:
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _handle(self, body: bytes) -> None:
        try:
            command, message = decode_frame(body)
        except UnknownCommandError as error:
            self._pass_over(error)
            return
        except FrameError:
            # It speaks another protocol: it could not read an answer.
            self.close()
            return
        handler = self._handlers.get(command.type)
        if handler is None or not self._connected:
            self._handle_rest(command)
            return
        try:
            work = handler(command, message)
        except LabkitError as error:
            self._refuse(command, error)
            return
        if work is not None:
            self._go_on(command, work)

    def _go_on(self, command: BaseCommand, work: Awaitable[None]) -> None:
        assert isinstance(work, Coroutine)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = command
        task.add_done_callback(self._done)
        self.intake.add_requests(1)

    def request_waits(self) -> None:
        """Stop counting this task's request: it has its first answer, and waits for a second."""
        task = asyncio.current_task()
        if task in self._tasks:
            self._waiting.add(task)
            self.intake.add_requests(-1)

    def _done(self, task: "asyncio.Task[Any]") -> None:
        command = self._tasks.pop(task)
        if task in self._waiting:
            self._waiting.remove(task)
        else:
            self.intake.add_requests(-1)
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
        elif not self.closed:
            self._send_error(body.request_id, error)

    def _send_error(self, request_id: int, error: LabkitError) -> None:
        code, text = self.refusal(error)
        refusal = CommandError(request_id=request_id, error=code, message=text)
        self.send(BaseCommand(type=BaseCommand.ERROR, error=refusal))

    def refusal(self, error: LabkitError) -> tuple[ServerError, str]:
        """Code and sentence for the client; a client's mistake gets a line in the log."""
        code, text = code_of(error), text_of(error)
        if code in _MISTAKES:
            self._host.log(f"{self._client} is refused: {text}")
        return code, text

    def _pass_over(self, error: UnknownCommandError) -> None:
        """Refuse a newer client's unknown request, and keep its connection."""
        if not self._connected:
            self.close()
        elif error.request_id is not None:
            mistake = BrokerError(ServerError.UnsupportedVersionError, str(error))
            self._send_error(error.request_id, mistake)

    def _handle_rest(self, command: BaseCommand) -> None:
        """Handle the connection's own commands; nothing but CONNECT may come first."""
        if command.type == BaseCommand.CONNECT and not self._connected:
            self._connect(command)
        elif command.type == BaseCommand.PING:
            self.send(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
        elif command.type == BaseCommand.AUTH_RESPONSE and self._connected:
            self._refresh(command)
        elif command.type != BaseCommand.PONG or not self._connected:
            self.close()

    def _connect(self, command: BaseCommand) -> None:
        request = command.connect
        try:
            self._client = shortened(request.client_version)
            self.is_cpp_client = request.client_version.startswith("Pulsar-CPP")
            self._method = request.auth_method_name
            self._may_be_asked = request.feature_flags.supports_auth_refresh
            self._identity = self._host.identify(self._method, request.auth_data)
        except BrokerError as error:
            # Pulsar's C++ client takes an ERROR in place of CONNECTED for a broken connection, and
            # silently tries again.  So the client is let in, and its first request is refused.
            self._refusal = error
            self._handlers = {kind: self._handlers[kind] for kind in _QUESTIONS}
        self._connected = True
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

    def look_at_credentials(self, now_ms: int) -> None:
        """Called at intervals: ask a client whose token has expired for another one.  A client that
        cannot be asked, or has not answered by the next call, is disconnected.
        """
        if not self._identity.is_expired(now_ms):
            return
        if self._is_asked or not self._may_be_asked:
            self.close()
            return
        self._is_asked = True
        challenge = CommandAuthChallenge(
            server_version=_VERSION,
            challenge=AuthData(auth_method_name=self._method, auth_data=REFRESH),
            protocol_version=PROTOCOL_VERSION,
        )
        self.send(BaseCommand(type=BaseCommand.AUTH_CHALLENGE, authChallenge=challenge))

    def _refresh(self, command: BaseCommand) -> None:
        """Take another token from the client, which must be of the same role."""
        answer = command.authResponse.response
        try:
            identity = self._host.identify(answer.auth_method_name, answer.auth_data)
        except BrokerError:
            self.close()  # It learns the reason when it connects again.
            return
        if identity.role == self.role:
            self._identity, self._is_asked = identity, False
        else:
            self.close()

    def check_let_in(self) -> None:
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
            self.intake.look()
        if was_full and self.wire.is_writable:
            self._call_writable()

    def _on_writable(self) -> None:
        self.intake.look()
        self._call_writable()

    def _call_writable(self) -> None:
        for action in self._when_writable:
            action()

    def when_writable(self, action: Callable[[], None]) -> None:
        """Call `action` each time the client starts to read its answers again."""
        self._when_writable.append(action)

    def close(self) -> None:
        """Send what is waiting, and end the connection."""
        self._flush()
        self.wire.close()
        self._on_close()

    def when_closed(self, action: Callable[[], None]) -> None:
        """Call `action` once when the connection has ended, whichever side ended it."""
        self._when_closed.append(action)

    def _on_close(self) -> None:
        if not self.closed:
            # First: an action may close the connection again.
            self.closed = True
            for action in self._when_closed:
                action()

    # A client that has fallen silent

    def _on_heard(self) -> None:
        self._heard = True

    def keep_alive(self) -> None:
        """Called at intervals: send PING to a client that sent nothing since the last call, and
        disconnect it if it has not answered by the next.  A client whose requests are not read
        because it sent too many is not silent; one that does not read its answers is.
        """
        silent = not self._heard and not (self.intake.is_paused and self.wire.is_writable)
        if silent and self._pinged:
            self.close()
        elif silent:
            self._ping()
        self._heard, self._pinged = False, silent

    def probe(self) -> None:
        """Check that this client is alive: another one wants what it holds."""
        if not self.intake.is_paused:
            self._heard = False
            self._ping()
            asyncio.get_running_loop().call_later(_PROBE_TIMEOUT_S, self.end_probe)

    def end_probe(self) -> None:
        """Called when the time for an answer is over."""
        if not self._heard and not self.intake.is_paused and not self.closed:
            self.close()

    def _ping(self) -> None:
        self.send(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))
