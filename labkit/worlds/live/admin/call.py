"""A parsed HTTP request to a broker, and the exceptions that reject or redirect it."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from labkit.system.broker.broker import Broker
from labkit.system.broker.broker_service import full_topic_name
from labkit.system.broker.errors import BrokerError
from labkit.system.broker.namespaces import topics_of
from labkit.system.broker.topics import BrokerTopic
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.names import check_namespace, shorten


class RedirectError(LabkitError):
    """The request must be redirected. The message is the URL of the broker that can handle it."""


class BadRequestError(LabkitError):
    """The request's body, path or query string is not valid."""


class StatusError(LabkitError):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def not_supported(what: str) -> StatusError:
    """Return the error for a Pulsar feature that labkit does not support.

    The error's status is not 404, because clients would conclude that the object does not exist.
    """
    return StatusError(501, f"{what} is not supported here; see docs/pulsar.md for what is")


@dataclass(frozen=True, slots=True)
class Binary:
    headers: Sequence[tuple[str, str]]
    body: bytes


class PlainText(str):
    pass


def decode_body(data: bytes) -> Any:
    """Decode a JSON body. An empty body becomes None. Raises `BadRequestError`."""
    if not data:
        return None
    try:
        body = json.loads(data)
        json.dumps(body, ensure_ascii=False).encode()  # This fails for an unpaired surrogate.
    except RecursionError:
        raise BadRequestError("the body is nested too deeply") from None
    except ValueError:
        raise BadRequestError("the body is not valid JSON") from None
    return body


@dataclass(frozen=True, slots=True)
class Call:
    """A parsed request. `names` contains the decoded variable segments of the path.

    `method`, `path` (as received) and `authorization` are used to forward the request to other
    brokers.
    """

    broker: Broker
    names: tuple[str, ...]
    options: Mapping[str, str]
    body: Any
    method: str
    path: str
    authorization: str

    @property
    def namespace(self) -> str:
        namespace = "/".join(self.names[:2])
        check_namespace(namespace)
        return namespace

    @property
    def topic(self) -> str:
        """The full name of the topic in the path. Raises `InvalidNameError` or `BrokerError`."""
        return full_topic_name(f"persistent://{'/'.join(self.names[:3])}")

    @property
    def subscription(self) -> str:
        """The subscription in the path. Its name is decoded twice, because Pulsar's client library
        encodes it twice.
        """
        return unquote_plus(self.names[3])

    def query_flag(self, name: str) -> bool:
        """Return whether the query string sets this parameter to true."""
        return self.options.get(name, "").lower() == "true"

    async def require_owner(self, topic: str) -> None:
        """Raise `RedirectError` unless this broker owns the topic or should acquire it."""
        owner, _ = await self.broker.look_up(topic, authoritative=self.query_flag("authoritative"))
        if owner.broker_id != self.broker.address.broker_id:
            raise RedirectError(owner.web_url)

    async def open_topic(self) -> BrokerTopic:
        """Return the topic in the path.

        Raises `RedirectError` if another broker owns the topic, and `BrokerError` if the topic does
        not exist.
        """
        await self.require_owner(self.topic)
        if self.topic not in await topics_of(self.broker.store, self.namespace):
            raise BrokerError(ServerError.TopicNotFound, f"topic {self.topic} does not exist")
        return await self.broker.topic(self.topic)

    def path_number(self, at: int) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", self.names[at], re.ASCII):
            raise BadRequestError(f"{shorten(self.names[at])} in the path must be a number")
        return int(self.names[at])

    def partition_count(self) -> int:
        if not isinstance(self.body, int) or isinstance(self.body, bool):
            raise BadRequestError("the body must be the number of partitions, such as 4")
        return self.body


Action = Callable[[Call], Awaitable[object]]
"""Handles one HTTP method of a path, and returns the response body, or None for status 204."""

Routes = Mapping[str, Mapping[str, Action]]
"""Maps a regular expression for a path to the path's actions, by HTTP method."""

NAMESPACE = "([^/]+)/([^/]+)"
TOPIC = f"{NAMESPACE}/([^/]+)"
