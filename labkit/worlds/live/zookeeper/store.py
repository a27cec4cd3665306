"""Implements the `MetadataStore` port with a ZooKeeper session, through the client library kazoo.

kazoo runs in its own threads. This module passes results and watch events to the event loop. A
watch event always arrives before the response to any later request. If the connection is lost,
kazoo reconnects by itself, but drops all watches. Changes may have been missed in the meantime, so
all watches fire after a reconnect, whether or not the session is new.
"""

import asyncio
import logging
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.exceptions import (
    KazooException,
    RolledBackError,
    SASLException,
    SessionClosedRequireSaslError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import Callback, EventType, KazooState, WatchedEvent
from kazoo.retry import KazooRetry

from labkit.system.metadata.location import MetadataLocation
from labkit.system.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    MetadataError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OnChange,
    check_node,
)
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.live.zookeeper.secret import SECRET_VARIABLE, sasl_options

# kazoo also logs the errors that it raises. Print them only if the program configures logging.
logging.getLogger("kazoo").addHandler(logging.NullHandler())

_RESPONSE_TIMEOUT_S = 15.0
"""Longer than a session survives without a connection. kazoo itself would wait forever."""

_CREATE_ATTEMPTS = 100

_POLL_SHARE = 1 / 4
"""How often to check whether the store responds, as a share of the session timeout."""

_RECONNECT_DELAY_S = 0.1
_MAX_RECONNECT_DELAY_S = 1.0
"""With kazoo's default of a minute, clients would wait too long after a server restart."""

_ERRORS: dict[type[Exception], type[MetadataError]] = {
    kazoo_errors.NoNodeError: NoNodeError,
    kazoo_errors.NodeExistsError: NodeExistsError,
    kazoo_errors.BadVersionError: BadVersionError,
    kazoo_errors.NotEmptyError: NotEmptyError,
}


class SecretNeededError(MetadataUnavailableError):
    """The server requires a secret that this process does not know."""


class ZooKeeperStore:
    """A `MetadataStore` for one cluster: a session with a ZooKeeper server or ensemble.

    ZooKeeper deletes the session's ephemeral nodes if it does not hear from this process for
    `session_timeout_s`.
    """

    def __init__(self, location: MetadataLocation, session_timeout_s: float = 4.0) -> None:
        """Raise `BKIncorrectParameterException` if the location has invalid server addresses."""
        self.location = location
        self.session_timeout_s = session_timeout_s
        self._loop = asyncio.get_running_loop()
        # kazoo calls this in its own thread.
        self._handler = _Handler(lambda: self._loop.call_soon_threadsafe(self._refuse))
        self._connected = asyncio.Event()
        self._pending: set[asyncio.Future[None]] = set()
        self._is_refused = False
        self._session_was_lost = False
        self._new_session_actions: list[Callable[[], None]] = []
        self._silence_actions: list[Callable[[], None]] = []
        self._responded_at = self._loop.time()
        self._polling: asyncio.Task[None] | None = None
        self._broken_watches: list[Callable[[], None]] = []
        try:
            self.client = KazooClient(
                hosts=location.servers,
                timeout=session_timeout_s,
                handler=self._handler,
                sasl_options=sasl_options(location.servers),
                connection_retry=KazooRetry(
                    max_tries=-1, delay=_RECONNECT_DELAY_S, max_delay=_MAX_RECONNECT_DELAY_S
                ),
            )
        except ValueError as error:
            raise BKIncorrectParameterException(
                f"{location.servers!r} is not a ZooKeeper address: {error}; expected host:port"
            ) from None
        self.client.add_listener(
            lambda state: self._loop.call_soon_threadsafe(self._note_state, state)
        )

    async def start(self, timeout_s: float = 10.0) -> None:
        """Start the session.

        Raises `MetadataUnavailableError`, or `SecretNeededError` if the server requires a secret
        that this process does not know.
        """
        self.client.start_async()
        try:
            async with asyncio.timeout(timeout_s):
                await self._wait_for_response()
        except (SecretNeededError, asyncio.CancelledError):
            await self.stop()
            raise
        except TimeoutError:
            await self.stop()
            problem = f"ZooKeeper at {self.location.servers} did not respond within {timeout_s:g} s"
            hint = (
                "another kind of server is listening there"
                if self._handler.met_other_server
                else "is it running?"
            )
            raise MetadataUnavailableError(f"{problem}; {hint}") from None

    async def _wait_for_response(self) -> None:
        """Wait until a request succeeds. It is not enough that the server accepts the connection,
        because it may still refuse the first request.
        """
        while True:
            await self._connected.wait()
            try:
                await self._result("/", self.client.exists_async("/"))
            except SecretNeededError:
                raise
            except MetadataUnavailableError:
                await asyncio.sleep(_RECONNECT_DELAY_S)  # The connection was lost: retry.
            else:
                return

    async def stop(self) -> None:
        """Close the session, which immediately deletes its ephemeral nodes.

        After that, no watch fires.
        """
        self._handler.is_stopping = True
        if self._polling is not None:
            self._polling.cancel()
        # Use a thread, because kazoo waits for its own threads and must not block the loop.
        await asyncio.to_thread(self.client.stop)
        await asyncio.to_thread(self.client.close)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    def on_new_session(self, action: Callable[[], None]) -> None:
        """Call `action` on the event loop whenever a new session replaces an expired one."""
        self._new_session_actions.append(action)

    def on_silence(self, action: Callable[[], None]) -> None:
        """Call `action` whenever the store responds after a long silence.

        A silence is long if it exceeds half the session timeout. `action` runs on the event loop,
        before the caller gets that response.
        """
        self._silence_actions.append(action)
        if self._polling is None:
            self._responded_at = self._loop.time()
            self._polling = self._loop.create_task(self._poll())

    async def _poll(self) -> None:
        """Send requests periodically, because kazoo's pings do not show that the process was
        suspended.
        """
        while True:
            with suppress(MetadataError):
                await self.exists("/")
            await asyncio.sleep(self.session_timeout_s * _POLL_SHARE)

    def _note_response(self) -> None:
        now = self._loop.time()
        was_silent = now - self._responded_at > self.session_timeout_s / 2
        self._responded_at = now
        if was_silent:
            for action in self._silence_actions:
                action()

    def _refuse(self) -> None:
        self._is_refused = True
        for done in self._pending:
            if not done.done():
                done.set_exception(self._secret_error())

    def _secret_error(self) -> SecretNeededError:
        return SecretNeededError(
            f"ZooKeeper at {self.location.servers} refuses this process, which does not know the"
            f" server's secret; run it as the user who started ZooKeeper, or set"
            f" {SECRET_VARIABLE}"
        )

    def _note_state(self, state: str) -> None:
        if state != KazooState.CONNECTED:
            self._connected.clear()
            self._session_was_lost |= state == KazooState.LOST
            return
        self._connected.set()
        calls, self._broken_watches = self._broken_watches, []
        if self._session_was_lost:
            self._session_was_lost = False
            calls += self._new_session_actions
        for call in calls:
            call()

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node and its missing parents, and return the path of the node."""
        check_node(path, data)
        for attempts_left in reversed(range(_CREATE_ATTEMPTS)):
            request = self.client.create_async(
                self._whole(path), data, ephemeral=ephemeral, sequence=sequential, makepath=True
            )
            try:
                created: str = await self._result(path, request)
            except NoNodeError:
                # Another client deleted a parent that was just created, because it was empty.
                # Retries are limited, because this could happen forever.
                if not attempts_left:
                    raise
            else:
                break
        return created.removeprefix(self.location.chroot)

    async def create_child(self, path: str, data: bytes, parent_version: int) -> None:
        check_node(path, data)
        transaction = self.client.transaction()
        transaction.check(self._whole(path.rpartition("/")[0]), parent_version)
        transaction.create(self._whole(path), data)
        for outcome in await self._result(path, transaction.commit_async()):
            # If a request of a transaction fails, the requests before it are rolled back.
            if isinstance(outcome, KazooException) and not isinstance(outcome, RolledBackError):
                raise _metadata_error(path, outcome)

    async def get(self, path: str, on_change: OnChange | None = None) -> tuple[bytes, int]:
        request = self.client.get_async(self._whole(path), self._watch(on_change))
        data, stat = await self._result(path, request)
        return data, stat.version

    async def exists(self, path: str, on_change: OnChange | None = None) -> bool:
        request = self.client.exists_async(self._whole(path), self._watch(on_change))
        return await self._result(path, request) is not None

    async def set(self, path: str, data: bytes, version: int) -> int:
        check_node(path, data)
        stat = await self._result(path, self.client.set_async(self._whole(path), data, version))
        new_version: int = stat.version
        return new_version

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._result(path, self.client.delete_async(self._whole(path), version))

    async def children(self, path: str, on_change: OnChange | None = None) -> list[str]:
        request = self.client.get_children_async(self._whole(path), self._watch(on_change))
        return sorted(await self._result(path, request))

    async def sync(self) -> None:
        # Any path works, because `sync` makes the server catch up with all earlier changes.
        await self._result("/", self.client.sync_async("/"))

    def _whole(self, path: str) -> str:
        """Prepend the chroot, because kazoo's own option would require the chroot to exist."""
        return f"{self.location.chroot}{path}"

    def _watch(self, on_change: OnChange | None) -> Callable[[WatchedEvent], None] | None:
        """Return a watch, which kazoo calls once, on a change or when it drops the watch."""
        if on_change is None:
            return None

        def notify(event: WatchedEvent) -> None:
            if event.type == EventType.NONE:
                self._loop.call_soon_threadsafe(self._note_broken_watch, on_change)
            else:
                self._loop.call_soon_threadsafe(on_change)

        return notify

    def _note_broken_watch(self, on_change: OnChange) -> None:
        if self._connected.is_set():
            on_change()
        else:
            self._broken_watches.append(on_change)

    async def _result(self, path: str, result: IAsyncResult) -> Any:
        if self._is_refused:
            raise self._secret_error()
        # Use a future of this event loop, because kazoo's results cannot be awaited.
        done: asyncio.Future[None] = self._loop.create_future()
        self._pending.add(done)

        def finish() -> None:
            if result.exception is None or type(result.exception) in _ERRORS:
                self._note_response()
            if not done.done():
                done.set_result(None)

        result.rawlink(lambda _: self._loop.call_soon_threadsafe(finish))
        try:
            async with asyncio.timeout(_RESPONSE_TIMEOUT_S):
                await done
        except TimeoutError:
            raise MetadataUnavailableError(
                f"{path}: ZooKeeper at {self.location.servers} did not respond within"
                f" {_RESPONSE_TIMEOUT_S:g} s"
            ) from None
        finally:
            self._pending.discard(done)
        try:
            return result.get()
        except SessionClosedRequireSaslError:
            raise self._secret_error() from None
        except KazooException as error:
            raise _metadata_error(path, error) from None


def _metadata_error(path: str, error: KazooException) -> MetadataError:
    kind = _ERRORS.get(type(error), MetadataUnavailableError)
    return kind(f"{path}: {type(error).__name__} {error}".rstrip())


class _Handler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """Runs watches in the thread that reads responses, so that a watch runs before later responses
    are handled.

    Calls `on_refusal` if this thread fails because the server refused the client.
    """

    def __init__(self, on_refusal: Callable[[], object]) -> None:
        super().__init__()
        self.is_stopping = False
        self.met_other_server = False
        """Whether a server other than ZooKeeper responded, such as a bookie."""
        self._on_refusal = on_refusal

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> Any:
        """Run kazoo's connection thread, and rerun it whenever it ends.

        The thread ends if the connection is lost during authentication, because kazoo mistakes this
        for a wrong secret.
        """

        def run() -> None:
            while not self.is_stopping:
                try:
                    func(*args, **kwargs)
                except (SASLException, SessionClosedRequireSaslError):
                    self._on_refusal()
                    return
                except (TypeError, struct.error):  # kazoo cannot parse another server's bytes.
                    self.met_other_server = True
                if not self.is_stopping:
                    time.sleep(_RECONNECT_DELAY_S)

        return super().spawn(run)

    def select(
        self,
        readable: Sequence[socket.socket],
        writable: Sequence[socket.socket],
        exceptional: Sequence[socket.socket],
        timeout: float | None = None,
    ) -> tuple[list[socket.socket], list[socket.socket], list[socket.socket]]:
        """Wait with `poll`, if the system supports it. A request makes five such calls, and kazoo
        would create a selector for each of them, which takes a third of the request's processor
        time.
        """
        if not hasattr(select, "poll"):
            found: tuple[list[Any], list[Any], list[Any]] = super().select(
                readable, writable, exceptional, timeout
            )
            return found
        poll = select.poll()
        for each in readable:
            poll.register(each, select.POLLIN)
        for each in writable:
            poll.register(each, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll(None if timeout is None else 1000 * timeout)}
        return (
            [each for each in readable if each.fileno() in ready],
            [each for each in writable if each.fileno() in ready],
            [],
        )

    def dispatch_callback(self, callback: Callback) -> None:
        callback.func(*callback.args)
