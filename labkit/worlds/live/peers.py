"""Limits the total memory that a process uses for the peers of all its connections.

For each peer, a process buffers the received part of an incomplete frame, and the bytes that the
peer has not read yet. Each connection limits its own unread bytes (`is_writable`). This module
enforces the limits on all connections together:

    memory       While more than `max_memory_mb` is held, no connection is writable, and only the
                 connection with the oldest incomplete frame may receive data. Peers that have been
                 behind for `PATIENCE_S` are then dropped, starting with the peer that has been
                 behind longest, until the total is within the limit.
    time         A peer is dropped if it does not complete a frame, or does not read the last bytes
                 of a closed connection, within `FRAME_TIMEOUT_S`.
    connections  A connection beyond `max_connections` replaces the oldest one that has never sent
                 a frame. If all have sent one, the new connection is dropped.

A peer is behind while it has an incomplete frame or unread bytes. A peer that transfers at least
`PROGRESS_BYTES` between two checks, which are one second apart, does not count as slow.

Connections (`labkit.worlds.live.net`) report how many bytes they transfer and hold, and `Peers`
tells each connection when to stop receiving and when to close.

In BookKeeper, `serverWriteBufferHighWaterMark` and `readWorkerThreadsThrottlingEnabled` limit how
much is buffered per connection and per thread. There is no limit on all connections together.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from operator import itemgetter

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.model.settings import check_ranges, setting
from labkit.system.model.wire import MAX_FRAME_SIZE
from labkit.worlds.live.host.memory import release_freed_memory
from labkit.worlds.live.host.posix import open_file_limit

_log = logging.getLogger(__name__)

PATIENCE_S = 2.0
"""The time after which a peer that is behind is disconnected while the memory limit is exceeded."""
FRAME_TIMEOUT_S = 30.0
"""How long a peer may take to complete a frame."""
PROGRESS_BYTES = 64 * 1024
"""A peer that transfers this many bytes between two checks does not count as slow."""
_MIN_CONNECTIONS = 10
_RECEIVE_BYTES = 256 * 1024
_RECEIVE_BYTES_WHEN_FULL = 4 * 1024
_CHECK_INTERVAL_S = 1.0
_WORTH_RELEASING = 16 * 1024 * 1024
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """Limits on all peers of a process.

    max_connections: the maximum number of connections to a server.
    max_memory_mb: the maximum memory held for all peers, in MiB. The minimum is 20, so that a few
        frames fit.
    max_frame_bytes: the maximum frame size in bytes, including the length prefix. The value can be
        from 1024 to 5 MiB, the size of the largest frame that labkit's own clients send and accept.

    BookKeeper does not limit all connections together, so two of the keys exist only in labkit.

    Raises `BKIncorrectParameterException` for a value out of range.
    """

    max_connections: int = setting(1000, "labkitMaxConnections", at_least=1)
    max_memory_mb: int = setting(128, "labkitPeerMemoryMB", at_least=4 * MAX_FRAME_SIZE // _MIB)
    max_frame_bytes: int = setting(
        MAX_FRAME_SIZE, "nettyMaxFrameSizeBytes", at_least=1024, at_most=MAX_FRAME_SIZE
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def within_open_files(self, others: int) -> "PeerLimits":
        """Return these limits, with fewer connections if the open-file limit requires it.

        `others` is the number of file descriptors needed for everything else. A process that runs
        out of descriptors cannot open index files either, and a bookie would mistake this for a
        failing disk. Raises `BKIncorrectParameterException` if fewer than 10 connections would be
        left.
        """
        files = open_file_limit()
        connections = min(self.max_connections, files - others)
        if connections < _MIN_CONNECTIONS:
            raise BKIncorrectParameterException(
                f"the operating system allows this process {files} open files, but it needs"
                f" {others} in addition to those for its connections; raise the limit (ulimit -n),"
                " or lower openFileLimit"
            )
        return replace(self, max_connections=connections)


class Peer(ABC):
    """A connection, and how far its other end lags behind."""

    def __init__(self) -> None:
        self.moved_bytes = 0
        """Total number of bytes received and written."""
        self.frame_since_s = 0.0
        """When the other end began the incomplete frame, if there is one."""
        self.unread_since_s: float | None = None
        """When the other end began to have unread bytes, or None if it has none."""
        self.stopped_since_s: float | None = None
        """When `Peers` stopped receiving, or None if it did not. Until it resumes, the other end
        need not complete its frame.
        """
        self._moved_before = 0
        """`moved_bytes` minus the unread bytes, at the last check."""

    @property
    @abstractmethod
    def has_incomplete_frame(self) -> bool: ...

    @property
    @abstractmethod
    def unread_bytes(self) -> int:
        """The number of sent bytes that the other end has not read yet."""

    @property
    @abstractmethod
    def is_ending(self) -> bool:
        """Whether the connection was closed. Unread bytes may still be sent."""

    @abstractmethod
    def update_receiving(self) -> None:
        """Called after `stopped_since_s` has changed."""

    @abstractmethod
    def notify_writable(self) -> None:
        """Called when the total memory drops below the limit again."""

    @abstractmethod
    def drop(self) -> None:
        """Close the connection immediately and discard everything held for it."""

    def stop_receiving(self) -> None:
        if self.stopped_since_s is None:
            self.stopped_since_s = now_s()
            self.update_receiving()

    def resume_receiving(self) -> None:
        if self.stopped_since_s is not None:
            self.frame_since_s += now_s() - self.stopped_since_s
            self.stopped_since_s = None
            self.update_receiving()

    def behind_since_s(self) -> float | None:
        """Return when the other end fell behind, or None if it is not behind.

        Restarts the timers if the connection has moved `PROGRESS_BYTES` since the last call.
        """
        moved = self.moved_bytes - self.unread_bytes
        if moved - self._moved_before >= PROGRESS_BYTES:
            self.frame_since_s = now_s()
            if self.unread_since_s is not None:
                self.unread_since_s = now_s()
        self._moved_before = moved
        must_complete = self.has_incomplete_frame and self.stopped_since_s is None
        since = [self.frame_since_s] if must_complete else []
        if self.unread_since_s is not None:
            since.append(self.unread_since_s)
        return min(since, default=None)

    def is_overdue(self) -> bool:
        """Return whether the other end took too long to complete a frame or to read its last
        bytes.
        """
        since = [self.frame_since_s] if self.has_incomplete_frame else []
        if self.is_ending and self.unread_since_s is not None:
            since.append(self.unread_since_s)
        return any(now_s() - each >= FRAME_TIMEOUT_S for each in since)


class Peers:
    """All connections of a server or client, with the number of bytes buffered for each."""

    def __init__(self, limits: PeerLimits | None = None) -> None:
        self._limits = limits or PeerLimits()
        self._max_bytes = self._limits.max_memory_mb * _MIB
        self.max_body_bytes = self._limits.max_frame_bytes - LENGTH_SIZE
        """The maximum body size of a frame, in bytes."""
        self._received = memoryview(bytearray(_RECEIVE_BYTES))
        self._all: dict[Peer, None] = {}
        self._silent: dict[Peer, None] = {}
        """Connections that have not sent a complete frame yet, oldest first."""
        self._held: dict[Peer, int] = {}
        self._held_bytes = self._peak_held_bytes = 0
        """Bytes held now, and the maximum since freed memory was last returned to the system."""
        self._checking: asyncio.TimerHandle | None = None
        self._dropped: Counter[str] = Counter()
        """The number of connections dropped since the last check, by reason."""
        self.is_full = False
        """Whether the memory limit is exceeded."""

    # Opening and closing connections

    def opened(self, peer: Peer) -> None:
        """Add a new connection, and drop one if there are too many."""
        self._all[peer] = self._silent[peer] = None
        if len(self._all) > self._limits.max_connections:
            # Disconnecting a client that has not sent a frame yet is the least harmful.
            others = (other for other in self._silent if other is not peer)
            self._drop(next(others, peer), "too many connections")

    def frame_received(self, peer: Peer) -> None:
        self._silent.pop(peer, None)

    def closed(self, peer: Peer) -> None:
        self.set_held_bytes(peer, 0)
        self._all.pop(peer, None)
        self._silent.pop(peer, None)

    # Bytes held for connections

    def receive_buffer(self) -> memoryview:
        """Return the receive buffer, which all connections share, because each connection empties
        it immediately. Separate buffers would fragment the heap even after their connections are
        closed.
        """
        return self._received[:_RECEIVE_BYTES_WHEN_FULL] if self.is_full else self._received

    def set_held_bytes(self, peer: Peer, size: int) -> None:
        before = self._held.get(peer, 0)
        if size:
            self._held[peer] = size
            if self._checking is None:
                self._check_later()
        elif before:
            del self._held[peer]
        self._held_bytes += size - before
        self._peak_held_bytes = max(self._peak_held_bytes, self._held_bytes)
        if self.is_full or self._held_bytes > self._max_bytes:
            self._enforce_memory_limit()

    def _enforce_memory_limit(self) -> None:
        was_full, self.is_full = self.is_full, self._held_bytes > self._max_bytes
        if self.is_full:
            # Let only one connection receive data. Otherwise, incomplete frames could fill the
            # memory, and none of them would ever be completed.
            front = next((peer for peer in self._held if peer.has_incomplete_frame), None)
            for peer in self._held:
                if peer is front:
                    peer.resume_receiving()
                elif peer.has_incomplete_frame:
                    peer.stop_receiving()
        elif was_full:
            # Iterate over a copy, because a callback may close its connection.
            for peer in list(self._all):
                peer.resume_receiving()
                peer.notify_writable()

    # Peers that are behind

    def _check_later(self) -> None:
        self._checking = asyncio.get_running_loop().call_later(_CHECK_INTERVAL_S, self._check)

    def _check(self) -> None:
        behind: list[tuple[float, Peer]] = []
        # Iterate over a copy, because dropping a peer removes it from the dictionary.
        for peer in list(self._held):
            since_s = peer.behind_since_s()
            if peer.is_overdue():
                self._drop(peer, "a frame was not completed or read in time")
            elif since_s is not None:
                behind.append((since_s, peer))
        too_much = self._held_bytes - self._max_bytes
        for since_s, peer in sorted(behind, key=itemgetter(0)):
            if too_much > 0 and now_s() - since_s >= PATIENCE_S:
                too_much -= self._held[peer]
                self._drop(peer, "all connections together use too much memory")
        if self._peak_held_bytes - self._held_bytes >= _WORTH_RELEASING:
            self._peak_held_bytes = self._held_bytes
            release_freed_memory()
        for why, count in self._dropped.items():
            _log.warning("labkit: connections dropped: %d (%s)", count, why)
        self._dropped.clear()
        self._checking = None
        if self._held or self._peak_held_bytes >= _WORTH_RELEASING:
            self._check_later()

    def _drop(self, peer: Peer, why: str) -> None:
        """Close a connection. The next check logs how many were closed for each reason."""
        self._dropped[why] += 1
        # Forget the connection now. Its end is reported only later, and until then, other new
        # connections would drop it again instead of another one.
        self._all.pop(peer, None)
        self._silent.pop(peer, None)
        peer.drop()
        if self._checking is None:
            self._check_later()


def now_s() -> float:
    return asyncio.get_running_loop().time()
