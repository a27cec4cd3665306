"""Send HTTP requests to a broker, as an administrator's tools would."""

import json
import time
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pulsar

from labkit.worlds.live.processes.cluster import LocalCluster

Response = tuple[int, Any]

DEADLINE_S = 30.0
JSON = {"Content-Type": "application/json"}


class _NoJson:
    """Marker for a request without a body."""


NOTHING = _NoJson()


def ask(
    brokers: LocalCluster,
    method: str,
    path: str,
    body: Any = NOTHING,
    *,
    broker: str = "broker-1",
    data: bytes = b"",
) -> Response:
    """Send a request, following redirects, and return the status and the decoded response."""
    url = f"{brokers.web_url_of(broker)}{path}"
    if body is not NOTHING:
        data = json.dumps(body).encode()
    while True:
        status, response, url = _once(method, url, data)
        if status != HTTPStatus.TEMPORARY_REDIRECT:
            return status, response


def _once(method: str, url: str, data: bytes) -> tuple[int, Any, str]:
    try:
        with urlopen(Request(url, data or None, JSON, method=method), timeout=20) as response:
            text = response.read()
            return response.status, json.loads(text) if text else None, url
    except HTTPError as error:
        with error:
            text = error.read()
            redirected = error.headers.get("Location", url)
            return error.code, json.loads(text) if text else None, redirected


def done(brokers: LocalCluster, method: str, path: str, body: Any = NOTHING) -> Any:
    """Send a request that must succeed and return the response."""
    status, response = ask(brokers, method, path, body)
    assert status in (HTTPStatus.OK, HTTPStatus.NO_CONTENT), response
    return response


def message_at(brokers: LocalCluster, path: str) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a response that contains a message."""
    with urlopen(f"{brokers.web_url_of('broker-1')}{path}", timeout=20) as response:
        return dict(response.headers.items()), response.read()


def backlog_of(brokers: LocalCluster, topic: str, subscription: str = "sub") -> int:
    """Return the number of messages that the subscription has not acknowledged."""
    stats = done(brokers, "GET", topic_path(topic, "/stats"))
    backlog: int = stats["subscriptions"][subscription]["msgBacklog"]
    return backlog


def topic_path(topic: str, what: str = "") -> str:
    """Return the admin path of a topic in the default namespace."""
    return f"/admin/v2/persistent/public/default/{topic}{what}"


def unload(brokers: LocalCluster, topic: str) -> None:
    """Close the topic; the next client that uses it reopens it with a new ledger."""
    done(brokers, "PUT", topic_path(topic, "/unload"))


def wait_until_acknowledged(
    brokers: LocalCluster, topic: str, last: pulsar.MessageId, subscription: str = "sub"
) -> None:
    """Wait until the broker has processed the acknowledgement of all messages up to `last`; the
    client sends this acknowledgement with a delay.
    """
    wanted = f"{last.ledger_id()}:{last.entry_id()}"
    deadline = time.monotonic() + DEADLINE_S
    stats = {"cursors": {subscription: {"markDeletePosition": ""}}}
    while stats["cursors"][subscription]["markDeletePosition"] != wanted:
        assert time.monotonic() < deadline, stats
        stats = done(brokers, "GET", topic_path(topic, "/internalStats"))
