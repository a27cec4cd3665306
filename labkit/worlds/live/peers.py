"""Limits on the memory that a process holds for its peers, over all their connections.

Two things are held for a peer: the received part of an incomplete frame, and bytes that it has not
read.  Each connection bounds the second by itself (`is_writable`); the limits over all connections
are here:

    memory       while more than `most_memory_mb` is held, no connection is writable, and only the
                 oldest half frame receives more bytes.  Peers that have been behind for
                 `PATIENCE_S` are dropped, those behind longest first, until there is room
    time         a peer that has been behind with a frame for half a minute is dropped
    connections  one above `most_connections` replaces the oldest one that never sent a frame;
                 if all have sent one, the new one is dropped

A peer is behind while half a frame of it is held, or it has unread answers, and it moves less than
64 KiB in a second.

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


class Peer(Protocol):
    """One of many connections, as these limits see it."""

    @property
    def has_half_a_frame(self) -> bool:
        """Whether a part of a frame has arrived, and the rest is missing."""

    def behind_since(self, now: float) -> float | None:
        """The time since which its peer is behind; None if it is not.  Called once a second."""

    def is_overdue(self, now: float) -> bool:
        """Whether its peer has been behind for longer than is allowed."""

    def may_receive(self, may: bool) -> None:
        """Allow it to receive the rest of a frame, or stop that."""

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

    def spoke(self, peer: Peer) -> None:
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
                peer.may_receive(peer is front)
        elif was_full:
            # A copy: a peer that is allowed to send again may end its connection.
            for peer in list(self._all):
                peer.may_receive(True)
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
            since = peer.behind_since(now)
            if peer.is_overdue(now):
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
