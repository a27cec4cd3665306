"""Which request is served when: each channel's in their order, the channels in turn.

    adds        of version 2 are done as they come: they cost little, and the memtable bounds them
    the rest    is done as it comes while a turn of the event loop has time for it; what is left
                waits, and each channel gets a share of every further turn, those first that have
                waited longest

So one client's large reads do not hold up the adds of others, which are received between turns.  A
channel with requests that wait receives nothing more, and neither does one whose client does not
take its answers: a bookie keeps little more in memory for a client than one answer.

In BookKeeper: `proto/BookieRequestProcessor.java` (thread pools by kind of request,
`maxPendingReadRequestsPerThread`), `proto/PacketProcessorBase.java` (sendResponseAndWait).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from labkit.system.bookie.channel import Batch, Channel, Pause, Serve
from labkit.system.model.net import Connection

R = TypeVar("R")

TURN_COST = 1024 * 1024
"""Cost that one turn may take, over all channels: about a millisecond."""
SHARE_COST = TURN_COST // 4
"""The part of it that one waiting channel gets."""


class Turns:
    """Serves all channels of one bookie."""

    def __init__(self, finish: Callable[[Batch], None]) -> None:
        """`finish` sends a batch's answers, or has them sent when they may leave."""
        self._finish = finish
        self._left = TURN_COST
        self._queue: deque[Channel] = deque()
        """Channels with requests that wait and may be done."""
        self._is_next_due = False

    def open(self, connection: Connection) -> Channel:
        """A client connected."""
        channel = Channel(connection, self._wake)
        connection.when_writable(lambda: self._wake(channel))
        connection.when_closed(channel.close)
        return channel

    def serve_or_queue(self, batch: Batch, serve: Serve[R], request: R) -> None:
        """Do it now if there is time and none of the channel's requests waits; else in turn."""
        channel = batch.channel
        if channel.waiting or self._queue or self._left <= 0 or channel.is_blocked:
            channel.wait(serve, request)
            self._wake(channel)
            return
        before = batch.cost
        serve(batch, request)
        self._left -= batch.cost - before
        # Even with an empty queue: the next turn renews the time that is left.
        if not self._is_next_due:
            self._schedule_next()

    def serve_or_queue_alone(self, channel: Channel, serve: Serve[R], request: R) -> None:
        """The same for a request outside a batch."""
        batch = Batch(channel)
        self.serve_or_queue(batch, serve, request)
        self._finish(batch)

    def hold_back(self, channel: Channel) -> None:
        """Receive nothing more while requests wait, or while the client takes no answers."""
        if channel.waiting or not channel.connection.is_writable:
            channel.pause(Pause.TURN)

    def _wake(self, channel: Channel) -> None:
        """Give it a place in the queue if it wants one; else it may receive again."""
        if channel.is_queued or not channel.may_be_served:
            return
        if channel.waiting:
            channel.is_queued = True
            self._queue.append(channel)
            if not self._is_next_due:
                self._schedule_next()
        else:
            channel.resume(Pause.TURN)

    def _schedule_next(self) -> None:
        self._is_next_due = True
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._left = TURN_COST
        while self._queue and self._left > 0:
            channel = self._queue.popleft()
            channel.is_queued = False
            if channel.may_be_served:
                self._serve_share(Batch(channel))
            self._wake(channel)
        # Only now: the loop also serves channels that were woken in it.
        self._is_next_due = False
        if self._queue:
            self._schedule_next()

    def _serve_share(self, batch: Batch) -> None:
        channel = batch.channel
        while channel.waiting and batch.cost < SHARE_COST and not channel.is_blocked:
            serve, request = channel.waiting.popleft()
            serve(batch, request)
        self._left -= batch.cost
        self._finish(batch)
