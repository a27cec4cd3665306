"""Feed a connection with received bytes in pieces that the caller chooses."""

import asyncio
from collections.abc import Sequence

from labkit.system.model.net import Connection, OnBodies
from labkit.worlds.live.net import FrameConnection
from labkit.worlds.live.peers import Peers


class _Transport(asyncio.Transport):
    """A transport that records whether reading is enabled and whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True
        self.closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing, because nothing is written."""

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


async def receive_in_pieces(stream: bytes, cuts: Sequence[int]) -> tuple[list[bytes], bool]:
    """Feed the stream to a connection in pieces of these sizes; return the decoded frames.

    The receiver pauses after every third batch. The second return value says whether the connection
    was closed.
    """
    bodies: list[bytes] = []
    batches = 0

    def open_it(connection: Connection) -> OnBodies:
        def on_bodies(batch: Sequence[bytes]) -> None:
            nonlocal batches
            bodies.extend(batch)
            batches += 1
            if batches % 3 == 0:
                connection.pause()
                asyncio.get_running_loop().call_soon(connection.resume)

        return on_bodies

    connection, transport = FrameConnection(open_it, lambda: None, Peers()), _Transport()
    connection.connection_made(transport)
    at, turn = 0, 0
    while at < len(stream) and not transport.closed:
        size = 1 + (cuts[turn % len(cuts)] ** 2 if cuts else 0)
        turn += 1
        piece = stream[at : at + size]
        connection.get_buffer(-1)[: len(piece)] = piece
        connection.buffer_updated(len(piece))
        at += size
        while not transport.is_read and not transport.closed:  # noqa: ASYNC110 - a turn is all
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    connection.connection_lost(None)
    return bodies, transport.closed
