"""Limits on the memory that a process holds for its peers, over all their connections.

Two things are held for a peer: the received part of an incomplete frame, and bytes that it has not
read.  Each connection bounds the second by itself (`is_writable`); the limits over all connections
are here:

    memory       while more than `most_memory_mb` is held, no connection is writable, and only the
                 oldest half frame receives more bytes.  Peers that have been behind for
                 `PATIENCE_S` are dropped, those behind longest first, until there is room
    time         a peer that has been behind with a frame for `FRAME_TIMEOUT_S`, or with reading
                 the last bytes of a closed connection, is dropped
    connections  one above `most_connections` replaces the oldest one that never sent a frame;
                 if all have sent one, the new one is dropped

A peer is behind while half a frame of it is held, or it leaves bytes unread.  One that moves
`PROGRESS_BYTES` between two checks, a second apart, has caught up.

A connection splits frames (`labkit.worlds.live.net`).  It reports what it moves and what it holds,
and stops receiving, or ends, when it is told to.

In BookKeeper: `serverWriteBufferHighWaterMark` and `readWorkerThreadsThrottlingEnabled` bound what
a connection and a thread hold back; nothing bounds all connections together.
"""

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol

from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.model.settings import check_ranges, setting
from labkit.system.model.wire import MAX_FRAME_SIZE
from labkit.worlds.live.host.heap import give_back_freed_memory

_log = logging.getLogger(__name__)

PATIENCE_S = 2.0
"""How long a peer may be behind while all peers together hold too much."""
FRAME_TIMEOUT_S = 30.0
"""How long a peer may be behind with the rest of a frame."""
PROGRESS_BYTES = 64 * 1024
"""A peer that moves this many bytes between two checks is not behind."""
_RECEIVE_BYTES = 256 * 1024
_RECEIVE_BYTES_WHEN_FULL = 4 * 1024
_LOOK_INTERVAL_S = 1.0
_WORTH_GIVING_BACK = 16 * 1024 * 1024
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """Limits for all peers together.

    most_connections: connections of a server.
    most_memory_mb: the bytes held for all peers, in MiB; at least 20, room for a few frames.
    largest_frame: the bytes of the largest frame that is accepted, with its length word; 1024 to
        5 MiB, which is the largest that labkit's own clients send and accept.

    BookKeeper has no limits over all connections, so two of the keys are labkit's own.

    Raises `BKIncorrectParameterException` for a value out of its range.
    """

    most_connections: int = setting(1000, "labkitMaxConnections", at_least=1)
    most_memory_mb: int = setting(128, "labkitPeerMemoryMB", at_least=4 * MAX_FRAME_SIZE // _MIB)
    largest_frame: int = setting(
        MAX_FRAME_SIZE, "nettyMaxFrameSizeBytes", at_least=1024, at_most=MAX_FRAME_SIZE
    )

    def __post_init__(self) -> None:
        check_ranges(self)


class PeerProgress:
    """Since when the other end of one connection has been behind: in sending the rest of a frame,
    and in reading.
    """

    def __init__(self) -> None:
        self.moved_bytes = 0
        """Bytes received and written in all."""
        self._moved_before = 0
        """That number, without what was unread, at the last check."""
        self._loop = asyncio.get_running_loop()
        self._frame_since = 0.0
        """If half a frame has come: since when it has waited for the rest."""
        self._unread_since: float | None = None
        """None: it has read all bytes."""
        self._stopped_since: float | None = None
        """None: its bytes are received."""

    def begin_frame(self) -> None:
        """A part of a frame has come; the rest is missing from now on."""
        self._frame_since = self._loop.time()

    def stop_frame(self) -> None:
        """The rest is not received for now; that time does not count as late."""
        self._stopped_since = self._loop.time()

    def resume_frame(self) -> None:
        """The rest is received again."""
        if self._stopped_since is not None:
            self._frame_since += self._loop.time() - self._stopped_since
            self._stopped_since = None

    @property
    def is_stopped(self) -> bool:
        """Whether the rest of a frame is not received for now."""
        return self._stopped_since is not None

    def leave_unread(self) -> None:
        """Bytes are unread from now on."""
        self._unread_since = self._loop.time()

    def read_all(self) -> None:
        """No byte is unread."""
        self._unread_since = None

    @property
    def has_unread(self) -> bool:
        """Whether bytes are unread."""
        return self._unread_since is not None

    def behind_since(self, now: float, *, half_a_frame: bool, unread_bytes: int) -> float | None:
        """When it fell behind; None: it did not, or has moved `PROGRESS_BYTES` since the last call.
        `half_a_frame`: whether the rest of a frame is missing.
        """
        moved = self.moved_bytes - unread_bytes
        if moved - self._moved_before >= PROGRESS_BYTES:
            self._frame_since = now
            if self._unread_since is not None:
                self._unread_since = now
        self._moved_before = moved
        since = [self._frame_since] if half_a_frame and not self.is_stopped else []
        if self._unread_since is not None:
            since.append(self._unread_since)
        return min(since, default=None)

    def is_overdue(self, now: float, *, half_a_frame: bool, is_ending: bool) -> bool:
        """Whether the rest of a frame is overdue, or reading the last bytes of a connection that
        was closed.
        """
        since = [self._frame_since] if half_a_frame else []
        if is_ending and self._unread_since is not None:
            since.append(self._unread_since)
        return any(now - each >= FRAME_TIMEOUT_S for each in since)


class Peer(Protocol):
    """One of many connections, as these limits see it."""

    @property
    def progress(self) -> PeerProgress:
        """What the connection reports of its other end."""

    @property
    def has_half_a_frame(self) -> bool:
        """Whether a part of a frame has arrived, and the rest is missing."""

    @property
    def unsent_bytes(self) -> int:
        """What waits for the other end to read."""

    @property
    def is_ending(self) -> bool:
        """Whether it was closed; what is unsent may still leave."""

    def receive_or_not(self) -> None:
        """Called when `progress.is_stopped` has changed."""

    def has_room(self) -> None:
        """Called when all peers together are below their limit again."""

    def drop(self) -> None:
        """End the connection now, and drop everything held for it."""


class Peers:
    """All connections of a server, or of a client, and the bytes held for them."""

    def __init__(self, limits: PeerLimits | None = None) -> None:
        self._limits = limits or PeerLimits()
        self._most_bytes = self._limits.most_memory_mb * _MIB
        self.largest_body = self._limits.largest_frame - LENGTH_SIZE
        """The largest body of a frame, in bytes."""
        self._received = memoryview(bytearray(_RECEIVE_BYTES))
        self._all: dict[Peer, None] = {}
        self._silent: dict[Peer, None] = {}
        """Connections that have not sent a whole frame, oldest first."""
        self._held: dict[Peer, int] = {}
        self._held_bytes = self._most_held = 0
        """Bytes held now, and the most since freed memory was last given back."""
        self._looking: asyncio.TimerHandle | None = None
        self._dropped: Counter[str] = Counter()
        """The number of connections dropped since the last look, by reason."""
        self.is_full = False
        """Whether more bytes are held than allowed."""

    # Connections come and go

    def opened(self, peer: Peer) -> None:
        """A connection begins."""
        self._all[peer] = self._silent[peer] = None
        if len(self._all) > self._limits.most_connections:
            # A client that sent no frame loses least; active clients keep their connections.
            others = (other for other in self._silent if other is not peer)
            self._drop(next(others, peer), "there are too many")

    def received_a_frame(self, peer: Peer) -> None:
        """Called when a connection has received a complete frame."""
        self._silent.pop(peer, None)

    def closed(self, peer: Peer) -> None:
        """Called when a connection has ended."""
        self.hold(peer, 0)
        self._all.pop(peer, None)
        self._silent.pop(peer, None)

    # Bytes held for connections

    def receive_buffer(self) -> memoryview:
        """The buffer for the next receive; one for all, since each is emptied before the next.

        Separate buffers would leave holes in the heap, which stay when connections end.
        """
        return self._received[:_RECEIVE_BYTES_WHEN_FULL] if self.is_full else self._received

    def hold(self, peer: Peer, size: int) -> None:
        """Note that `size` bytes are now held for this peer."""
        before = self._held.get(peer, 0)
        if size:
            self._held[peer] = size
            if self._looking is None:
                self._look_later()
        elif before:
            del self._held[peer]
        self._held_bytes += size - before
        self._most_held = max(self._most_held, self._held_bytes)
        if self.is_full or self._held_bytes > self._most_bytes:
            self._balance()

    def _balance(self) -> None:
        was_full, self.is_full = self.is_full, self._held_bytes > self._most_bytes
        if self.is_full:
            # One at a time: many half frames could fill the memory, and none would ever be
            # complete.
            front = next((peer for peer in self._held if peer.has_half_a_frame), None)
            for peer in self._held:
                if peer is front:
                    _resume(peer)
                elif peer.has_half_a_frame and not peer.progress.is_stopped:
                    peer.progress.stop_frame()
                    peer.receive_or_not()
        elif was_full:
            # A copy: a peer that is allowed to send again may end its connection.
            for peer in list(self._all):
                _resume(peer)
                peer.has_room()

    # Peers that are behind

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(_LOOK_INTERVAL_S, self._look)

    def _look(self) -> None:
        """Drop peers that have been behind for too long."""
        now = asyncio.get_running_loop().time()
        behind: list[tuple[float, Peer]] = []
        # A copy: dropping a peer removes it from the dictionary.
        for peer in list(self._held):
            half = peer.has_half_a_frame
            unread_bytes = peer.unsent_bytes
            since = peer.progress.behind_since(now, half_a_frame=half, unread_bytes=unread_bytes)
            if peer.progress.is_overdue(now, half_a_frame=half, is_ending=peer.is_ending):
                self._drop(peer, "the rest of a frame did not come")
            elif since is not None:
                behind.append((since, peer))
        too_much = self._held_bytes - self._most_bytes
        for since, peer in sorted(behind, key=itemgetter(0)):
            if too_much > 0 and now - since >= PATIENCE_S:
                too_much -= self._held[peer]
                self._drop(peer, "all connections together hold too much")
        if self._most_held - self._held_bytes >= _WORTH_GIVING_BACK:
            self._most_held = self._held_bytes
            give_back_freed_memory()
        for why, count in self._dropped.items():
            _log.warning("labkit: connections dropped: %d, as %s", count, why)
        self._dropped.clear()
        self._looking = None
        if self._held or self._most_held >= _WORTH_GIVING_BACK:
            self._look_later()

    def _drop(self, peer: Peer, why: str) -> None:
        """End a connection; the log has one line a second, however many there are."""
        self._dropped[why] += 1
        peer.drop()
        if self._looking is None:
            self._look_later()


def _resume(peer: Peer) -> None:
    if peer.progress.is_stopped:
        peer.progress.resume_frame()
        peer.receive_or_not()
