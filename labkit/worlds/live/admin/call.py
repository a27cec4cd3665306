"""A parsed request to a broker's HTTP side, and the errors for refused requests."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from labkit.system.broker.broker import Broker
from labkit.system.broker.broker_service import checked_name
from labkit.system.broker.errors import BrokerError, refused_names
from labkit.system.broker.namespaces import topics_of
from labkit.system.broker.topics import BrokerTopic
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.names import check_namespace, shortened


class ElsewhereError(LabkitError):
    """The broker with this address has to serve the request."""


class BadRequestError(LabkitError):
    """The request's body does not fit the path."""


class StatusError(LabkitError):
    """The request is refused with this HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def not_supported(what: str) -> StatusError:
    """The refusal of something that Pulsar does and labkit does not.

    Its status is never 404, which tells a client that an object is missing.
    """
    return StatusError(501, f"{what} is not supported here; docs/pulsar.md lists what is")


@dataclass(frozen=True, slots=True)
class Binary:
    """An answer that is bytes, with additional headers."""

    headers: Sequence[tuple[str, str]]
    body: bytes


class PlainText(str):
    """An answer in plain text."""


def decode_body(data: bytes) -> Any:
    """The decoded body; None if there is none.  Raises `BadRequestError`."""
    if not data:
        return None
    try:
        body = json.loads(data)
        json.dumps(body, ensure_ascii=False).encode()  # Half a surrogate pair is not text.
    except RecursionError:
        raise BadRequestError("the body is nested too deeply") from None
    except ValueError:
        raise BadRequestError("the body is not JSON") from None
    return body


@dataclass(frozen=True, slots=True)
class Call:
    """A parsed request: `names` are the path's variable parts.

    `method`, `path` (as it was sent) and `authorization` serve to send it on to other brokers.
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
        """The path's namespace, as `tenant/namespace`.  Raises `BrokerError`."""
        namespace = "/".join(self.names[:2])
        with refused_names():
            check_namespace(namespace)
        return namespace

    @property
    def topic(self) -> str:
        """The path's topic, by its full name.  Raises `BrokerError`."""
        return checked_name(f"persistent://{'/'.join(self.names[:3])}")

    @property
    def subscription(self) -> str:
        """The path's subscription; Pulsar's library encodes its name twice."""
        return unquote_plus(self.names[3])

    def flag(self, name: str) -> bool:
        """Whether the query string sets the flag to true."""
        return self.options.get(name, "").lower() == "true"

    async def require_owner(self, topic: str) -> None:
        """Serve the topic, or redirect the request to its owner."""
        found = await self.broker.find(topic, authoritative=self.flag("authoritative"))
        if found[0].broker_id != self.broker.address.broker_id:
            raise ElsewhereError(found[0].web_url)

    async def open_topic(self) -> BrokerTopic:
        """The topic that the path names, served by this broker; it must exist."""
        await self.require_owner(self.topic)
        if self.topic not in await topics_of(self.broker.store, self.namespace):
            raise BrokerError(ServerError.TopicNotFound, f"there is no topic {self.topic}")
        return await self.broker.topic(self.topic)

    def number(self, at: int) -> int:
        """The variable part of the path at this index, a number.  Raises `BadRequestError`."""
        if not re.fullmatch(r"-?[0-9]{1,18}", self.names[at], re.ASCII):
            raise BadRequestError(f"{shortened(self.names[at])} in the path is not a number")
        return int(self.names[at])

    def count(self) -> int:
        """The body as a number of partitions.  Raises `BadRequestError`."""
        if not isinstance(self.body, int) or isinstance(self.body, bool):
            raise BadRequestError("the body is the number of partitions, such as 4")
        return self.body


Action = Callable[[Call], Awaitable[object]]
"""The action of a path and a method; it returns the answer's body, None for no body."""

Routes = Mapping[str, Mapping[str, Action]]
"""Actions by the pattern of the path, and by the method."""

NAMESPACE = "([^/]+)/([^/]+)"
TOPIC = f"{NAMESPACE}/([^/]+)"
