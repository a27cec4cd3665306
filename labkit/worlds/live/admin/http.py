"""A broker's HTTP request handlers: Pulsar's paths for lookups and administration.

Responses are JSON. Errors have the form `{"reason": ...}` and the same status as in Pulsar. A
request for a topic or bundle that another broker owns is redirected to that broker (307).
`docs/pulsar.md` lists the supported paths.

In Pulsar: `broker/web/PulsarWebResource.java`, `RestException.java`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_plus

from tornado.httputil import HTTPHeaders
from tornado.web import Application, HTTPError, RequestHandler, stream_request_body

from labkit.system.broker.broker import Broker
from labkit.system.broker.errors import BrokerError
from labkit.system.broker.operations.partitions import PartitionCountError
from labkit.system.broker.protocol.authorization import CONSUME, PRODUCE
from labkit.system.broker.schemas.checks import InvalidSchemaDataError
from labkit.system.metadata.store import NodeTooLargeError
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.names import InvalidNameError, shorten
from labkit.worlds.live.admin.call import (
    Action,
    BadRequestError,
    Binary,
    Call,
    PlainText,
    RedirectError,
    Routes,
    StatusError,
    decode_body,
    not_supported,
)
from labkit.worlds.live.admin.clusters import CLUSTER_ROUTES
from labkit.worlds.live.admin.csrf import cross_site_reason, is_json
from labkit.worlds.live.admin.namespaces import CLIENT_NAMESPACE_REQUESTS, NAMESPACE_ROUTES
from labkit.worlds.live.admin.topics import CLIENT_TOPIC_REQUESTS, TOPIC_ROUTES

_STATUS = {
    ServerError.AuthenticationError: 401,
    ServerError.AuthorizationError: 403,
    ServerError.TopicNotFound: 404,
    ServerError.SubscriptionNotFound: 404,
    ServerError.NotAllowedError: 409,
    ServerError.IncompatibleSchema: 409,
    ServerError.InvalidTopicName: 412,
    ServerError.MetadataError: 412,
}
"""HTTP status by error code. All other broker errors are transient and get status 503."""

_OTHERS: Mapping[type[LabkitError], int] = {
    PartitionCountError: 406,
    InvalidSchemaDataError: 422,
    BadRequestError: 400,
    InvalidNameError: 412,
    NodeTooLargeError: 413,
}

_UNKNOWN_ROUTES: Routes = {".*": {}}

MAX_BODY_BYTES = 1024 * 1024
MAX_URI_BYTES = 8 * 1024
_MAX_REASON_LENGTH = 1000
_BEARER = "Bearer "


class _WithExactNames(HTTPHeaders):
    """Response headers, some of which keep the exact case of their names, because Pulsar's library
    compares these names case-sensitively.
    """

    def __init__(self, headers: HTTPHeaders, exact: Sequence[tuple[str, str]]) -> None:
        super().__init__(headers)
        self._exact = exact

    def get_all(self) -> Iterator[tuple[str, str]]:
        yield from super().get_all()
        yield from self._exact


@stream_request_body
class _Handler(RequestHandler):
    """Handles one path of the admin API, with one action per HTTP method. Methods without a
    docstring are called by tornado.

    A body larger than `MAX_BODY_BYTES` is read to its end but discarded.
    """

    reason = ""
    """Why the request was rejected."""

    def initialize(self, broker: Broker, path: str, table: Routes) -> None:
        self._broker = broker
        self._pattern = path
        self._actions = table[path]
        self._is_for_super_users = table is CLUSTER_ROUTES

    def prepare(self) -> None:
        self._body = bytearray()
        self._is_too_large = False
        self._foreign = cross_site_reason(self.request, self._broker.address.web_url)

    def data_received(self, chunk: bytes) -> None:
        self._is_too_large |= len(self._body) + len(chunk) > MAX_BODY_BYTES
        self._body = bytearray() if self._is_too_large else self._body + chunk

    async def _serve(self, *_: str) -> None:
        method = self.request.method or ""
        try:
            self._check_request()
            role = self._authenticate()
            if (action := self._actions.get(method)) is None:
                # Do not use status 404, because clients would conclude that a topic or a namespace
                # does not exist.
                raise not_supported(f"{method} {shorten(self.request.path)}")
            call = self._call()
            await self._check_may(role, action, call)
            body = await action(call)
        except RedirectError as elsewhere:
            # Tell the target broker to acquire the topic instead of redirecting again.
            uri = self.request.uri or ""
            if "authoritative=true" not in uri:
                uri = f"{uri}{'&' if '?' in uri else '?'}authoritative=true"
            self.redirect(f"{elsewhere}{uri}", status=307)
        except LabkitError as error:
            self._refuse(_status(error), str(error))
        else:
            self._respond(204 if body is None else 200, body)

    get = head = put = post = delete = patch = options = _serve

    def _check_request(self) -> None:
        if self._foreign:
            raise StatusError(403, self._foreign)
        if len(self.request.uri or "") > MAX_URI_BYTES:
            raise StatusError(414, f"the path is longer than {MAX_URI_BYTES} bytes")
        if self._is_too_large:
            raise StatusError(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
        if self._body and not is_json(self.request):
            raise StatusError(415, "the body must be JSON, sent as Content-Type: application/json")

    def _authenticate(self) -> str:
        """Return the client's role. Raises `BrokerError`."""
        token = self.request.headers.get("Authorization", "")
        method = "token" if token.startswith(_BEARER) else ""
        return self._broker.identify(method, token.removeprefix(_BEARER).encode()).role

    async def _check_may(self, role: str, action: Action, call: Call) -> None:
        """Raise `BrokerError` if the client's role is not allowed to perform the action.

        For requests that ordinary clients send, the role must have been granted access to the topic
        or the namespace. All other requests require an administrator or a superuser.
        """
        authorization = self._broker.authorization
        if authorization is None:
            return
        if action in CLIENT_TOPIC_REQUESTS:
            await authorization.check_topic(role, call.topic, (PRODUCE, CONSUME))
        elif action in CLIENT_NAMESPACE_REQUESTS:
            await authorization.check_namespace(role, call.namespace, CONSUME)
        elif self._is_for_super_users:
            authorization.check_super_user(role)
        else:
            await authorization.check_admin(role, call.names[0])

    def _call(self) -> Call:
        match = re.fullmatch(self._pattern, self.request.path)
        assert match is not None
        # Java encodes a space as "+", which tornado would not decode.
        names = tuple(unquote_plus(name) for name in match.groups())
        body = decode_body(bytes(self._body))
        options = {
            key: values[-1].decode(errors="replace")
            for key, values in self.request.arguments.items()
        }
        request = self.request
        authorization = request.headers.get("Authorization", "")
        method, path = request.method or "", request.path
        return Call(self._broker, names, options, body, method, path, authorization)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None))[1]
        message = error.get_message() if isinstance(error, HTTPError) else ""
        self._refuse(status_code, message or HTTPStatus(status_code).phrase)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        if not isinstance(value, HTTPError):
            super().log_exception(typ, value, tb)

    def _refuse(self, status: int, reason: str) -> None:
        self.reason = reason[:_MAX_REASON_LENGTH]
        self._respond(status, {"reason": self.reason})

    def _respond(self, status: int, body: object) -> None:
        """Send text, bytes or JSON, depending on the type of `body`. Status 204 has no body."""
        self.set_status(status)
        if isinstance(body, PlainText):
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish(body)
        elif isinstance(body, Binary):
            self.set_header("Content-Type", "application/octet-stream")
            self._headers = _WithExactNames(self._headers, body.headers)
            self.finish(body.body)
        elif status != 204:
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps(body))


def _status(error: LabkitError) -> int:
    if isinstance(error, StatusError):
        return error.status
    for kind, status in _OTHERS.items():
        if isinstance(error, kind):
            return status
    return _STATUS.get(error.code, 503) if isinstance(error, BrokerError) else 503


def admin_application(broker: Broker, log: Callable[[str], None]) -> Application:
    """Return the broker's tornado application. The application logs one line for each rejected
    request.
    """

    def log_refusal(handler: RequestHandler) -> None:
        status = handler.get_status()
        if 400 <= status < 500 or status == HTTPStatus.NOT_IMPLEMENTED:
            request = handler.request
            reason = getattr(handler, "reason", "") or "refused"
            what = f"{request.method} {shorten(request.path)} of {request.remote_ip}"
            log(f"{what}: {status}, {reason}")

    routes = [
        (path, _Handler, {"broker": broker, "path": path, "table": table})
        for table in (NAMESPACE_ROUTES, TOPIC_ROUTES, CLUSTER_ROUTES, _UNKNOWN_ROUTES)
        for path in table
    ]
    return Application(routes, log_function=log_refusal)
