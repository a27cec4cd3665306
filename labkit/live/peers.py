"""What the peers of a process may take of its memory, over all their connections.

Two things are held for a peer: what it has sent of a frame that is not whole, and what it is sent
and does not take.  A connection bounds the second for itself (`is_writable`); the bounds over all
connections are here:

    memory       while more than `most_bytes` are held, no connection is writable, and of the half
                 frames only the oldest goes on.  A peer that is behind for `PATIENCE_S` is dropped,
                 the longest first, until there is room
    time         a peer that is behind with a frame for half a minute is dropped
    connections  one above `most_connections` takes the place of the oldest that never sent a frame;
                 if all have sent one, the new one is dropped

A peer is behind while it leaves half a frame or does not take its answers, and moves less than
64 KiB in a second.

In BookKeeper: `serverWriteBufferHighWaterMark` and `readWorkerThreadsThrottlingEnabled` bound what
a connection and a thread hold back; nothing bounds all connections together.
"""

import asyncio
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol

from labkit.live.heap import give_back_freed_memory
from labkit.model.errors import BKIncorrectParameterException
from labkit.model.wire import MAX_FRAME_SIZE

PATIENCE_S = 2.0
_RECEIVE_BYTES = 256 * 1024
_RECEIVE_BYTES_WHEN_FULL = 4 * 1024
_LOOK_INTERVAL_S = 1.0
_WORTH_GIVING_BACK = 16 * 1024 * 1024
_LEAST_MEMORY = 4 * MAX_FRAME_SIZE


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """What all peers together may take; the smallest memory has room for a few frames.

    Raises `BKIncorrectParameterException` for a value out of its range.
    """

    most_connections: int = 1000
    most_bytes: int = 128 * 1024 * 1024

    def __post_init__(self) -> None:
        for name, least in (("most_connections", 1), ("most_bytes", _LEAST_MEMORY)):
            if getattr(self, name) < least:
                raise BKIncorrectParameterException(
                    f"{name} is {getattr(self, name)}; it must be at least {least}"
                )


class Peer(Protocol):
    """A connection, as one of many."""

    @property
    def has_half_a_frame(self) -> bool:
        """Whether the rest of a frame is to come."""

    def behind_since(self, now: float) -> float | None:
        """Since when its peer is behind; None if it is not.  Asked once a second."""

    def is_overdue(self, now: float) -> bool:
        """Whether its peer was behind for longer than anybody may be."""

    def may_receive(self, may: bool) -> None:
        """Whether it may receive the rest of a frame."""

    def has_room(self) -> None:
        """All peers together are below their limit again."""

    def drop(self) -> None:
        """End the connection now, with all that is held for it."""


class Peers:
    """All connections of a server, or of a client, and what is held for them."""

    def __init__(self, limits: PeerLimits | None = None) -> None:
        self._limits = limits or PeerLimits()
        self._received = memoryview(bytearray(_RECEIVE_BYTES))
        self._all: dict[Peer, None] = {}
        self._silent: dict[Peer, None] = {}
        """Those that have not sent a whole frame, oldest first."""
        self._held: dict[Peer, int] = {}
        self._held_bytes = self._most_held = 0
        """Now, and the most since freed memory was last given back."""
        self._looking: asyncio.TimerHandle | None = None
        self.is_full = False
        """Whether more is held than may be."""

    # Connections come and go

    def opened(self, peer: Peer) -> None:
        """A connection begins."""
        self._all[peer] = self._silent[peer] = None
        if len(self._all) > self._limits.most_connections:
            others = (other for other in self._silent if other is not peer)
            next(others, peer).drop()

    def spoke(self, peer: Peer) -> None:
        """A whole frame came."""
        self._silent.pop(peer, None)

    def closed(self, peer: Peer) -> None:
        """A connection has ended."""
        self.hold(peer, 0)
        self._all.pop(peer, None)
        self._silent.pop(peer, None)

    # What is held for them

    def receive_buffer(self) -> memoryview:
        """Where the next receive goes; one for all, since each is taken out before the next.

        Buffers of their own would leave holes in the heap, which stay when connections go.
        """
        return self._received[:_RECEIVE_BYTES_WHEN_FULL] if self.is_full else self._received

    def hold(self, peer: Peer, size: int) -> None:
        """From now on so many bytes are held for this peer."""
        before = self._held.get(peer, 0)
        if size:
            self._held[peer] = size
            if self._looking is None:
                self._look_later()
        elif before:
            del self._held[peer]
        self._held_bytes += size - before
        self._most_held = max(self._most_held, self._held_bytes)
        if self.is_full or self._held_bytes > self._limits.most_bytes:
            self._balance()

    def _balance(self) -> None:
        was_full, self.is_full = self.is_full, self._held_bytes > self._limits.most_bytes
        if self.is_full:
            front = next((peer for peer in self._held if peer.has_half_a_frame), None)
            for peer in self._held:
                peer.may_receive(peer is front)
        elif was_full:
            for peer in list(self._all):
                peer.may_receive(True)
                peer.has_room()

    # Those that are behind

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(_LOOK_INTERVAL_S, self._look)

    def _look(self) -> None:
        """Drop who has been behind for too long."""
        now = asyncio.get_running_loop().time()
        behind: list[tuple[float, Peer]] = []
        for peer in list(self._held):
            if (since := peer.behind_since(now)) is not None:
                behind.append((since, peer))
            if peer.is_overdue(now):
                peer.drop()
        too_much = self._held_bytes - self._limits.most_bytes
        for since, peer in sorted(behind, key=itemgetter(0)):
            if too_much > 0 and now - since >= PATIENCE_S:
                too_much -= self._held[peer]
                peer.drop()
        if self._most_held - self._held_bytes >= _WORTH_GIVING_BACK:
            self._most_held = self._held_bytes
            give_back_freed_memory()
        self._looking = None
        if self._held or self._most_held >= _WORTH_GIVING_BACK:
            self._look_later()
