"""A broker's HTTP server, and the limits on what clients may send.

    request head    at most 64 KiB (8 KiB for the path), within 30 s
    request body    at most 1 MiB. Up to 128 MiB are read within 30 s and discarded, so that the
                    client receives the error
    connections     at most 128, each closed after 30 s without a request. A new connection
                    replaces the oldest one that has never sent a complete request, or else the
                    oldest idle one; if all are being served, the new connection is dropped

In Pulsar: `httpMaxRequestHeaderSize`, `maxConcurrentHttpRequests`, `httpServerAcceptQueueSize`.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from tornado.http1connection import HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import IOStream

from labkit.system.broker.broker import Broker
from labkit.worlds.live.admin.http import admin_application
from labkit.worlds.live.peer_log import PeerLog

MAX_CONNECTIONS = 128
PATIENCE_S = 30.0
_MAX_HEAD_BYTES = 64 * 1024
_MAX_DISCARDED_BYTES = 128 * 1024 * 1024


class _CompletionNotifier(HTTPMessageDelegate):
    """Passes a request on to `delegate`, and calls `on_whole` when the request is complete."""

    def __init__(self, delegate: HTTPMessageDelegate, on_whole: Callable[[], None]) -> None:
        self._delegate = delegate
        self._on_whole = on_whole

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        return self._delegate.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        return self._delegate.data_received(chunk)

    def finish(self) -> None:
        self._on_whole()
        self._delegate.finish()

    def on_connection_close(self) -> None:
        self._delegate.on_connection_close()


class AdminServer(HTTPServer):
    """Serves `admin_application` within the limits above. `admin_server` creates one.

    Its methods are called by tornado. For example, `start_request` is called when a connection
    begins to wait for a request.
    """

    def initialize(self, *args: object, **kwargs: object) -> None:
        super().initialize(*args, **kwargs)  # type: ignore[arg-type]
        self._all: dict[IOStream, None] = {}
        self._silent: dict[IOStream, None] = {}
        """Connections that have never sent a complete request, oldest first."""
        self._idle: dict[IOStream, None] = {}
        """Connections that are waiting for their next request, oldest first."""

    def handle_stream(self, stream: IOStream, address: tuple[str, int]) -> None:
        if len(self._all) >= MAX_CONNECTIONS:
            displaced = next(iter(self._silent or self._idle), stream)
            self._forget(displaced)
            displaced.close()
        if not stream.closed():
            self._all[stream] = self._silent[stream] = None
            super().handle_stream(stream, address)

    def start_request(
        self, server_conn: object, request_conn: HTTPConnection
    ) -> HTTPMessageDelegate:
        assert isinstance(server_conn, HTTP1ServerConnection)
        stream = server_conn.stream
        if stream in self._all and stream not in self._silent:
            self._idle[stream] = None
        delegate = super().start_request(server_conn, request_conn)
        return _CompletionNotifier(delegate, partial(self._mark_serving, stream))

    def on_close(self, server_conn: object) -> None:
        assert isinstance(server_conn, HTTP1ServerConnection)
        self._forget(server_conn.stream)
        super().on_close(server_conn)

    def _mark_serving(self, stream: IOStream) -> None:
        self._silent.pop(stream, None)
        self._idle.pop(stream, None)

    def _forget(self, stream: IOStream) -> None:
        self._mark_serving(stream)
        self._all.pop(stream, None)


def admin_server(broker: Broker, log: PeerLog) -> AdminServer:
    """Return the HTTP server, which logs one line per rejected request or uncaught exception."""
    for name in ("tornado.general", "tornado.application"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.handlers, logger.propagate = [log], False
    return AdminServer(
        admin_application(broker, log),
        max_header_size=_MAX_HEAD_BYTES,
        max_body_size=_MAX_DISCARDED_BYTES,
        body_timeout=PATIENCE_S,
        idle_connection_timeout=PATIENCE_S,
    )
