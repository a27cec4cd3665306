"""The metadata store behind its port: a ZooKeeper session through kazoo.

kazoo works in its own threads; results and watches come back to the event loop, a watch before the
answer to any later request.  kazoo reconnects by itself, and forgets all watches when it loses the
connection.  Since changes may have been missed, all watches are called once it is connected again,
in the same session or in a new one.
"""

import asyncio
import logging
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError as KazooBadVersionError,
)
from kazoo.exceptions import (
    KazooException,
    SASLException,
    SessionClosedRequireSaslError,
)
from kazoo.exceptions import (
    NodeExistsError as KazooNodeExistsError,
)
from kazoo.exceptions import (
    NoNodeError as KazooNoNodeError,
)
from kazoo.exceptions import (
    NotEmptyError as KazooNotEmptyError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import Callback, EventType, KazooState, WatchedEvent
from kazoo.retry import KazooRetry

from labkit.system.metadata.place import MetadataPlace
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

# Errors are raised; kazoo also logs them, for programs that want its log.
logging.getLogger("kazoo").addHandler(logging.NullHandler())

_ANSWER_TIMEOUT_S = 15.0
"""Longer than a session survives without a connection: kazoo itself would wait for ever."""

_CREATE_ATTEMPTS = 100

_POLL_SHARE = 1 / 4
"""The interval of requests that test whether the store answers, as a share of the time-out."""

_RECONNECT_DELAY_S = 0.1
_LONGEST_RECONNECT_DELAY_S = 1.0
"""kazoo's default of a minute would keep all clients waiting after a server's restart."""

_ERRORS: dict[type[Exception], type[MetadataError]] = {
    KazooNoNodeError: NoNodeError,
    KazooNodeExistsError: NodeExistsError,
    KazooBadVersionError: BadVersionError,
    KazooNotEmptyError: NotEmptyError,
}


class SecretNeededError(MetadataUnavailableError):
    """The server serves only clients that know its secret, and this process does not."""


class ZooKeeperStore:
    """A session with a ZooKeeper server or ensemble, for one cluster; a `MetadataStore`.

    ZooKeeper removes the session's ephemeral nodes `session_timeout_s` after its owner falls
    silent.
    """

    def __init__(self, place: MetadataPlace, session_timeout_s: float = 4.0) -> None:
        """Raises `BKIncorrectParameterException` for servers that have no address."""
        self.place = place
        self.session_timeout_s = session_timeout_s
        self._loop = asyncio.get_running_loop()
        self._handler = _Handler(self._note_refusal)
        self._connected = asyncio.Event()
        self._pending: set[asyncio.Future[None]] = set()
        self._is_refused = False
        self._session_was_lost = False
        self._new_session_actions: list[Callable[[], None]] = []
        self._silence_actions: list[Callable[[], None]] = []
        self._answered_at = self._loop.time()
        self._polling: asyncio.Task[None] | None = None
        self._broken_watches: list[Callable[[], None]] = []
        try:
            self.client = KazooClient(
                hosts=place.servers,
                timeout=session_timeout_s,
                handler=self._handler,
                sasl_options=sasl_options(place.servers),
                connection_retry=KazooRetry(
                    max_tries=-1, delay=_RECONNECT_DELAY_S, max_delay=_LONGEST_RECONNECT_DELAY_S
                ),
            )
        except ValueError as error:
            raise BKIncorrectParameterException(
                f"{place.servers!r} is not a ZooKeeper address: {error}; write host:port"
            ) from None
        self.client.add_listener(
            lambda state: self._loop.call_soon_threadsafe(self._note_state, state)
        )

    async def start(self, timeout_s: float = 10.0) -> None:
        """Start the session.  Raises `MetadataUnavailableError`, and `SecretNeededError` when the
        server needs a secret that this process does not know.
        """
        self.client.start_async()
        try:
            async with asyncio.timeout(timeout_s):
                await self._until_answered()
        except SecretNeededError:
            await self.stop()
            raise
        except TimeoutError:
            await self.stop()
            found = f"no ZooKeeper answers at {self.place.servers} within {timeout_s:g} s"
            hint = (
                "another kind of server does"
                if self._handler.met_other_server
                else "is it running?"
            )
            raise MetadataUnavailableError(f"{found}; {hint}") from None
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def _until_answered(self) -> None:
        """Return at the first answer: a server that needs a secret refuses the first request."""
        while True:
            await self._connected.wait()
            try:
                await self._result("/", self.client.exists_async("/"))
            except SecretNeededError:
                raise
            except MetadataUnavailableError:
                await asyncio.sleep(_RECONNECT_DELAY_S)  # The connection broke: try again.
            else:
                return

    async def stop(self) -> None:
        """End the session: its ephemeral nodes are removed at once, and no watch is called."""
        self._handler.is_stopping = True
        if self._polling is not None:
            self._polling.cancel()
        # In a thread: kazoo waits for its own threads, and the loop must go on meanwhile.
        await asyncio.to_thread(self.client.stop)
        await asyncio.to_thread(self.client.close)

    def on_new_session(self, action: Callable[[], None]) -> None:
        """Call `action` on the event loop when a new session has replaced a lost one, whose
        ephemeral nodes are gone.
        """
        self._new_session_actions.append(action)

    def on_silence(self, action: Callable[[], None]) -> None:
        """Call `action` on the event loop when the store answers after more than half a session's
        time-out, before the caller gets that answer.
        """
        self._silence_actions.append(action)
        if self._polling is None:
            self._answered_at = self._loop.time()
            self._polling = self._loop.create_task(self._poll())

    async def _poll(self) -> None:
        """Send requests at intervals: kazoo's own pings do not show that this process was
        suspended.
        """
        while True:
            with suppress(MetadataError):
                await self.exists("/")
            await asyncio.sleep(self.session_timeout_s * _POLL_SHARE)

    def _note_answer(self) -> None:
        now = self._loop.time()
        was_silent = now - self._answered_at > self.session_timeout_s / 2
        self._answered_at = now
        if was_silent:
            for action in self._silence_actions:
                action()

    def _note_refusal(self) -> None:
        """Called in kazoo's thread when it gives up: the server does not accept the secret."""
        self._loop.call_soon_threadsafe(self._refuse)

    def _refuse(self) -> None:
        self._is_refused = True
        for done in self._pending:
            if not done.done():
                done.set_exception(self._refused())

    def _refused(self) -> SecretNeededError:
        return SecretNeededError(
            f"ZooKeeper at {self.place.servers} refuses this process, as it does not know the"
            f" server's secret; start it as the user who started ZooKeeper, or set"
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
        """Create a node and its missing parents; returns its path."""
        check_node(path, data)
        for attempts_left in reversed(range(_CREATE_ATTEMPTS)):
            request = self.client.create_async(
                self._whole(path), data, ephemeral=ephemeral, sequence=sequential, makepath=True
            )
            try:
                created: str = await self._result(path, request)
            except NoNodeError:
                # Another client removed a parent that was just created, since it was empty.
                # A limit, since two clients could remove each other's parents for ever.
                if not attempts_left:
                    raise
            else:
                break
        return created.removeprefix(self.place.chroot)

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
        # Any path: the server gets everything that was changed before, in order.
        await self._result("/", self.client.sync_async("/"))

    def _whole(self, path: str) -> str:
        """A path below the chroot; kazoo's own chroot would have to exist before the first node."""
        return f"{self.place.chroot}{path}"

    def _watch(self, on_change: OnChange | None) -> Callable[[WatchedEvent], None] | None:
        """A watch for kazoo, which calls it once: for a change, or when it drops the watch."""
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
            raise self._refused()
        # A future of this loop: kazoo's result belongs to its threads and cannot be awaited.
        done: asyncio.Future[None] = self._loop.create_future()
        self._pending.add(done)

        def finish() -> None:
            if result.exception is None or type(result.exception) in _ERRORS:
                self._note_answer()
            if not done.done():
                done.set_result(None)

        def notify(_: IAsyncResult) -> None:
            self._loop.call_soon_threadsafe(finish)

        result.rawlink(notify)
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                await done
        except TimeoutError:
            raise MetadataUnavailableError(
                f"{path}: ZooKeeper at {self.place.servers} did not answer within"
                f" {_ANSWER_TIMEOUT_S:g} s"
            ) from None
        finally:
            self._pending.discard(done)
        try:
            return result.get()
        except SessionClosedRequireSaslError:
            raise self._refused() from None
        except KazooException as error:
            kind = _ERRORS.get(type(error), MetadataUnavailableError)
            raise kind(f"{path}: {type(error).__name__} {error}".rstrip()) from None


class _Handler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """Passes a watch on at once, from the thread that reads the answers, so that it comes before
    later answers.  Reports when this thread ends with an error: the server refused the client.
    """

    def __init__(self, on_refusal: Callable[[], None]) -> None:
        super().__init__()
        self.is_stopping = False
        self.met_other_server = False
        """Whether another kind of server answered, such as a bookie."""
        self._on_refusal = on_refusal

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> Any:
        """Run kazoo's own thread.  Run it again when a connection broke during authentication,
        which kazoo takes for a wrong secret.
        """

        def run() -> None:
            while not self.is_stopping:
                try:
                    func(*args, **kwargs)
                except (SASLException, SessionClosedRequireSaslError):
                    self._on_refusal()
                    return
                except (TypeError, struct.error):  # kazoo read another server's bytes.
                    self.met_other_server = True
                if not self.is_stopping:
                    time.sleep(_RECONNECT_DELAY_S)

        return super().spawn(run)

    def dispatch_callback(self, callback: Callback) -> None:
        callback.func(*callback.args)
