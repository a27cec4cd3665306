"""A broker's HTTP side: Pulsar's paths for lookups and administration.

Answers are JSON; an error is `{"reason": ...}` with Pulsar's status for it.  A request that another
broker has to serve is answered with a redirect to it (307).  `docs/pulsar.md` lists the paths.

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
from labkit.system.topic.names import shortened
from labkit.worlds.live.admin.call import (
    Action,
    BadRequestError,
    Binary,
    Call,
    ElsewhereError,
    PlainText,
    StatusError,
    decode_body,
    not_supported,
)
from labkit.worlds.live.admin.clusters import CLUSTER_ROUTES
from labkit.worlds.live.admin.csrf import foreign_page, is_json
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
"""Any other error of a broker is transient: 503."""

_OTHERS: Mapping[type[LabkitError], int] = {
    PartitionCountError: 406,
    InvalidSchemaDataError: 422,
    BadRequestError: 400,
    NodeTooLargeError: 413,
}

LARGEST_BODY = 1024 * 1024
LONGEST_URI = 8 * 1024
_LONGEST_REASON = 1000
_BEARER = "Bearer "


class _WithExactNames(HTTPHeaders):
    """Headers, some of whose names keep their case: Pulsar's library looks for the exact name."""

    def __init__(self, headers: HTTPHeaders, exact: Sequence[tuple[str, str]]) -> None:
        super().__init__(headers)
        self._exact = exact

    def get_all(self) -> Iterator[tuple[str, str]]:
        yield from super().get_all()
        yield from self._exact


@stream_request_body
class _Handler(RequestHandler):
    """A request; tornado calls methods that have no docstring.

    The body is kept up to the limit; the rest is read and dropped.
    """

    reason = ""
    """The reason why the request is refused."""

    def initialize(self, broker: Broker) -> None:
        self.broker = broker

    def prepare(self) -> None:
        self._body = bytearray()
        self._is_too_large = False
        self._foreign = foreign_page(self.request, self.broker.address.web_url)

    def data_received(self, chunk: bytes) -> None:
        self._is_too_large |= len(self._body) + len(chunk) > LARGEST_BODY
        self._body = bytearray() if self._is_too_large else self._body + chunk

    def refuse_if_invalid(self) -> bool:
        """Refuse a request that is too large, or that a foreign page may have sent."""
        if self._foreign:
            self.refuse(403, self._foreign)
        elif len(self.request.uri or "") > LONGEST_URI:
            self.refuse(414, f"the path is longer than {LONGEST_URI} bytes")
        elif self._is_too_large:
            self.refuse(413, f"the body is larger than {LARGEST_BODY} bytes")
        elif self._body and not is_json(self.request):
            self.refuse(415, "the body must be JSON, sent with Content-Type: application/json")
        else:
            return False
        return True

    def refuse(self, status: int, reason: str) -> None:
        """Answer with the error."""
        self.reason = reason[:_LONGEST_REASON]
        self.answer(status, {"reason": self.reason})

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None))[1]
        said = error.get_message() if isinstance(error, HTTPError) else ""
        self.refuse(status_code, said or HTTPStatus(status_code).phrase)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        if not isinstance(value, HTTPError):
            super().log_exception(typ, value, tb)

    def answer(self, status: int, answer: object) -> None:
        """Answer in JSON, in plain text, or with a message; None: without a body."""
        self.set_status(status)
        if isinstance(answer, PlainText):
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish(answer)
        elif isinstance(answer, Binary):
            self.set_header("Content-Type", "application/octet-stream")
            self._headers = _WithExactNames(self._headers, answer.headers)
            self.finish(answer.body)
        elif status != 204:
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps(answer))


class _RouteHandler(_Handler):
    """One path."""

    def initialize(  # type: ignore[override]
        self,
        broker: Broker,
        pattern: re.Pattern[str],
        actions: Mapping[str, Action],
        for_super_users: bool,
    ) -> None:
        super().initialize(broker)
        self.pattern = pattern
        self.actions = actions
        self.for_super_users = for_super_users

    async def _serve(self, *_: str) -> None:
        method = self.request.method or ""
        if self.refuse_if_invalid():
            return
        try:
            role = self._authenticate()
            if (action := self.actions.get(method)) is None:
                raise not_supported(f"{method} {shortened(self.request.path)}")
            call = self._call()
            await self._check_may(role, action, call)
            answer = await action(call)
        except ElsewhereError as elsewhere:
            self.redirect(f"{elsewhere}{self._authoritative_uri()}", status=307)
        except LabkitError as error:
            self.refuse(_status(error), str(error))
        else:
            self.answer(204 if answer is None else 200, answer)

    get = head = put = post = delete = patch = options = _serve

    def _authenticate(self) -> str:
        """The client's role.  Raises `BrokerError`."""
        token = self.request.headers.get("Authorization", "")
        method = "token" if token.startswith(_BEARER) else ""
        return self.broker.identify(method, token.removeprefix(_BEARER).encode()).role

    async def _check_may(self, role: str, action: Action, call: Call) -> None:
        """Check the role: clients' requests need a grant on the topic, all others an administrator.

        Raises `BrokerError`.
        """
        authorization = self.broker.authorization
        if authorization is None:
            return
        if action in CLIENT_TOPIC_REQUESTS:
            await authorization.check_topic(role, call.topic, (PRODUCE, CONSUME))
        elif action in CLIENT_NAMESPACE_REQUESTS:
            await authorization.check_namespace(role, call.namespace, CONSUME)
        elif self.for_super_users:
            authorization.check_super_user(role)
        else:
            await authorization.check_admin(role, call.names[0])

    def _call(self) -> Call:
        match = self.pattern.fullmatch(self.request.path)
        assert match is not None
        # Java writes a space as "+", which tornado would keep.
        names = tuple(unquote_plus(name) for name in match.groups())
        body = decode_body(bytes(self._body))
        options = {
            key: values[-1].decode(errors="replace")
            for key, values in self.request.arguments.items()
        }
        request = self.request
        authorization = request.headers.get("Authorization", "")
        method, path = request.method or "", request.path
        return Call(self.broker, names, options, body, method, path, authorization)

    def _authoritative_uri(self) -> str:
        """The URI for a redirect: the broker there must take the topic, not redirect again."""
        uri = self.request.uri or ""
        if "authoritative=true" in uri:
            return uri
        return f"{uri}{'&' if '?' in uri else '?'}authoritative=true"


class _UnknownPathHandler(_Handler):
    """Any other path: one of Pulsar's that is not supported, or one that Pulsar does not have."""

    def _refuse(self) -> None:
        if not self.refuse_if_invalid():
            # Never 404, which tells a client that a topic or a namespace is missing.
            what = f"{self.request.method} {shortened(self.request.path)}"
            refusal = not_supported(what)
            self.refuse(refusal.status, str(refusal))

    get = head = put = post = delete = patch = options = _refuse


def _status(error: LabkitError) -> int:
    if isinstance(error, StatusError):
        return error.status
    code = error.code if isinstance(error, BrokerError) else None
    otherwise = _STATUS.get(code, 503) if code is not None else 503
    return next((status for kind, status in _OTHERS.items() if isinstance(error, kind)), otherwise)


def admin_application(broker: Broker, log: Callable[[str], None]) -> Application:
    """The paths, served on a broker's behalf; `log` gets a line for each refused request."""

    def log_refusal(handler: RequestHandler) -> None:
        status = handler.get_status()
        if 400 <= status < 500 or status == HTTPStatus.NOT_IMPLEMENTED:
            request = handler.request
            reason = getattr(handler, "reason", "") or "refused"
            what = f"{request.method} {shortened(request.path)} of {request.remote_ip}"
            log(f"{what}: {status}, {reason}")

    def route(
        path: str, actions: Mapping[str, Action], *, for_super_users: bool = False
    ) -> tuple[str, type[_RouteHandler], dict[str, object]]:
        arguments = {
            "broker": broker,
            "pattern": re.compile(path),
            "actions": actions,
            "for_super_users": for_super_users,
        }
        return path, _RouteHandler, arguments

    routes = [
        *(route(path, actions) for path, actions in {**NAMESPACE_ROUTES, **TOPIC_ROUTES}.items()),
        *(route(*each, for_super_users=True) for each in CLUSTER_ROUTES.items()),
    ]
    return Application(
        routes,
        default_handler_class=_UnknownPathHandler,
        default_handler_args={"broker": broker},
        log_function=log_refusal,
    )
