"""Chooses a port that a server can bind again after a restart."""

import errno
import random
import socket

from labkit.system.model.missing_part import MissingPart

LOOPBACK = "127.0.0.1"

_FREE_PORTS = range(20_000, 32_768)
"""The chosen ports are below those that Linux, macOS and Windows assign to outgoing connections.

While a server is down, its clients keep trying to reconnect. If its port were in the range for
outgoing connections, one of these attempts could take the port, and the server could not restart.
"""


class PortTaken(MissingPart):
    def __init__(self, port: int) -> None:
        super().__init__(
            "Port",
            f"{port} of {LOOPBACK} is in use by another program",
            "stop that program, or use port 0 for any free port",
        )


def free_port(port: int = 0) -> int:
    """Return `port` if it is free on loopback. If `port` is 0, choose one that is likely to stay
    free.

    Raises:
        PortTaken: another program is listening on `port`.
    """
    if port:
        if not _is_free(port):
            raise PortTaken(port)
        return port
    while not _is_free(chosen := random.choice(_FREE_PORTS)):
        pass
    return chosen


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise
            return False
    return True
