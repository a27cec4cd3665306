"""Schedules requests: the requests of each channel are served in order, and the channels take
turns.

    version 2 adds   are served on arrival, because they are cheap and the memtable limits them
    all others       are served on arrival while the current turn (an iteration of the event loop)
                     has time left. Otherwise they wait, and each channel gets a share of every
                     following turn, starting with the channel that has waited longest.

As a result, large reads by one client do not delay the adds of other clients, which are received
between turns. The module `channel` lists all limits.

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
"""The maximum cost of a turn, which takes about a millisecond."""
SHARE_COST = TURN_COST // 4
"""The maximum cost of the requests that a waiting channel may run in one turn."""


class Turns:
    def __init__(self, finish: Callable[[Batch], None]) -> None:
        """`finish` sends the responses of a batch, either immediately or later."""
        self._finish = finish
        self._left = TURN_COST
        self._queue: deque[Channel] = deque()
        """Channels with waiting requests that may be served."""
        self._is_next_due = False

    def open(self, connection: Connection) -> Channel:
        channel = Channel(connection, self._wake)
        connection.when_writable(lambda: self._wake(channel))
        connection.when_closed(channel.close)
        return channel

    def serve_or_queue(self, batch: Batch, serve: Serve[R], request: R) -> None:
        """Serve a request if the current turn has time left and no other request is waiting.
        Otherwise, queue the request.
        """
        channel = batch.channel
        if channel.waiting or self._queue or self._left <= 0 or channel.is_blocked:
            channel.enqueue(serve, request)
            self._wake(channel)
            return
        before = batch.cost
        serve(batch, request)
        self._left -= batch.cost - before
        # Schedule the next turn even if the queue is empty, because each turn resets `_left`.
        if not self._is_next_due:
            self._schedule_next()

    def serve_or_queue_alone(self, channel: Channel, serve: Serve[R], request: R) -> None:
        batch = Batch(channel)
        self.serve_or_queue(batch, serve, request)
        self._finish(batch)

    def hold_back(self, channel: Channel) -> None:
        """Stop reading from a channel if it has waiting requests, or if its client does not read
        the responses.
        """
        if channel.waiting or not channel.connection.is_writable:
            channel.pause(Pause.TURN)

    def _wake(self, channel: Channel) -> None:
        """Queue the channel if it has waiting requests; otherwise, resume reading from it."""
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
        # Until now, `_wake` has not scheduled another turn, because the loop above serves the
        # channels anyway.
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
