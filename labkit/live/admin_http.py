"""A broker's HTTP side: Pulsar's paths for lookups and for what an administrator does.

Answers are JSON; an error is `{"reason": ...}` with the status that Pulsar gives it.  What another
broker has to do is answered with a redirect to it (307).  `docs/pulsar.md` lists the paths.

In Pulsar: `broker/web/PulsarWebResource.java`, `RestException.java`.
"""

import json
from collections.abc import Mapping

from tornado.web import Application, RequestHandler

from labkit.live.admin_call import Action, BadRequestError, Call, ElsewhereError
from labkit.live.admin_namespaces import NAMESPACE_ROUTES
from labkit.live.admin_topics import NAMESPACE_QUESTIONS, TOPIC_QUESTIONS, TOPIC_ROUTES
from labkit.model.errors import LabkitError
from labkit.model.proto.pulsar_pb2 import ServerError
from labkit.pulsar.authorization import CONSUME, PRODUCE
from labkit.pulsar.broker import Broker
from labkit.pulsar.errors import BrokerError

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
"""Everything else is 503: it may pass by itself."""

_BEARER = "Bearer "


class _Route(RequestHandler):
    """One path."""

    def initialize(self, broker: Broker, actions: Mapping[str, Action]) -> None:
        """Called by tornado for each request."""
        self._broker = broker
        self._actions = actions

    async def _serve(self, *names: str) -> None:
        method = self.request.method or ""
        if method not in self._actions:
            self._answer(405, {"reason": f"{method} is none of {', '.join(self._actions)}"})
            return
        try:
            role = self._authenticate()
            action, call = self._actions[method], self._call(names)
            await self._check_may(role, action, call)
            answer = await action(call)
        except ElsewhereError as elsewhere:
            self.redirect(f"{elsewhere}{self._authoritative_uri()}", status=307)
        except BadRequestError as error:
            self._answer(400, {"reason": str(error)})
        except LabkitError as error:
            status = _STATUS.get(error.code, 503) if isinstance(error, BrokerError) else 503
            self._answer(status, {"reason": str(error)})
        else:
            self._answer(204 if answer is None else 200, answer)

    get = put = post = delete = _serve

    def _authenticate(self) -> str:
        """The role of who asks.  Raises `BrokerError`."""
        token = self.request.headers.get("Authorization", "")
        method = "token" if token.startswith(_BEARER) else ""
        return self._broker.identify(method, token.removeprefix(_BEARER).encode()).role

    async def _check_may(self, role: str, action: Action, call: Call) -> None:
        """What clients ask is for those who may use the topic; all else takes an administrator.

        Raises `BrokerError`.
        """
        authorization = self._broker.authorization
        if authorization is None:
            return
        if action in TOPIC_QUESTIONS:
            await authorization.check_topic(role, call.topic, (PRODUCE, CONSUME))
        elif action in NAMESPACE_QUESTIONS:
            await authorization.check_namespace(role, call.namespace, CONSUME)
        elif call.names:
            await authorization.check_admin(role, call.names[0])
        else:
            authorization.check_super_user(role)

    def _call(self, names: tuple[str, ...]) -> Call:
        try:
            body = json.loads(self.request.body) if self.request.body else None
        except ValueError:
            raise BadRequestError("the body is no JSON") from None
        options = {key: values[-1].decode() for key, values in self.request.arguments.items()}
        return Call(self._broker, names, options, body)

    def _authoritative_uri(self) -> str:
        """Whoever is sent there by us is to take the topic, and not to send the client on."""
        uri = self.request.uri or ""
        if "authoritative=true" in uri:
            return uri
        return f"{uri}{'&' if '?' in uri else '?'}authoritative=true"

    def _answer(self, status: int, answer: object) -> None:
        self.set_status(status)
        if status != 204:
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps(answer))


class _NoRoute(RequestHandler):
    """Any other path."""

    def prepare(self) -> None:
        """Called by tornado for each request."""
        self.set_status(404)
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"reason": f"there is no {self.request.path} here"}))


def admin_application(broker: Broker) -> Application:
    """The paths, served on a broker's behalf."""
    routes = [
        (path, _Route, {"broker": broker, "actions": actions})
        for path, actions in {**NAMESPACE_ROUTES, **TOPIC_ROUTES}.items()
    ]
    return Application(routes, default_handler_class=_NoRoute, log_function=lambda handler: None)
