"""A broker's HTTP port, and the limits on what clients may send there.

    a request's head    64 KiB, of which 8 KiB for the path; half a minute
    its body            1 MiB is kept; the rest, up to 128 MiB in half a minute, is read and
                        dropped, so that the answer arrives
    connections         128; each has half a minute for the next request

In Pulsar: `httpMaxRequestHeaderSize`, `maxConcurrentHttpRequests`, `httpServerAcceptQueueSize`.
"""

import logging

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream

from labkit.live.admin_http import admin_application
from labkit.live.peer_log import PeerLog
from labkit.pulsar.broker import Broker

MOST_CONNECTIONS = 128
PATIENCE_S = 30.0
_LARGEST_HEAD = 64 * 1024
_MOST_DROPPED = 128 * 1024 * 1024


class AdminServer(HTTPServer):
    """Serves the paths of `admin_application` within these limits; `admin_server` makes one."""

    _count = 0

    def handle_stream(self, stream: IOStream, address: tuple[str, int]) -> None:
        """Called by tornado for each connection."""
        if self._count >= MOST_CONNECTIONS:
            stream.close()
            return
        self._count += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        """Called by tornado when a connection has ended."""
        self._count -= 1
        super().on_close(server_conn)


def admin_server(broker: Broker, log: PeerLog) -> AdminServer:
    """The broker's HTTP side; each refused request, and each that ends in an unforeseen error, gets
    a line in the log.
    """
    for name in ("tornado.general", "tornado.application"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.handlers, logger.propagate = [log], False
    return AdminServer(
        admin_application(broker, log),
        max_header_size=_LARGEST_HEAD,
        max_body_size=_MOST_DROPPED,
        body_timeout=PATIENCE_S,
        idle_connection_timeout=PATIENCE_S,
    )
