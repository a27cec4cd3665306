"""Handles a request for a partitioned topic by sending one request for each of its partitions.

The broker sends these requests over HTTP, with the client's credentials, to the brokers that own
the partitions (possibly including itself). If one of these requests fails, the client can repeat
the whole request.

In Pulsar: `broker/admin/impl/PersistentTopicsBase.java`.
"""

import asyncio
import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from tornado.httpclient import AsyncHTTPClient, HTTPClientError

from labkit.system.broker.namespaces import topics_of
from labkit.system.topic.names import partition_name
from labkit.worlds.live.admin.call import Action, Call, StatusError

_TIMEOUT_S = 60.0
_AT_ONCE = 8
_TOPIC_SEGMENTS = 7
"""Number of path segments up to the topic, counting the empty one before the first slash."""


async def all_partitions(call: Call) -> range:
    """Return the indices of the topic's partitions, or an empty range if the topic is not
    partitioned.

    Raises `BrokerError`.
    """
    return range(await call.broker.partition_count(call.topic, create=False))


async def existing_partitions(call: Call, partitions: Sequence[int]) -> list[int]:
    """Return the partitions that exist. A partition is created when a client first uses it."""
    used = set(await topics_of(call.broker.store, call.namespace))
    return [each for each in partitions if partition_name(call.topic, each) in used]


async def check_not_partitioned(call: Call, what: str) -> None:
    """Raise `StatusError` if the topic is partitioned, because the request can only be applied to a
    single partition.

    `what` is the beginning of the advice in the error message, such as "skip messages of".
    """
    if await all_partitions(call):
        raise StatusError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"{call.topic} is partitioned: {what} one of its partitions,"
            f" such as {partition_name(call.topic, 0)}",
        )


async def forward_to_partitions(
    call: Call,
    partitions: Sequence[int],
    *ignored: int,
    rest: str | None = None,
    method: str | None = None,
) -> dict[int, Any]:
    """Forward the request once for each of these partitions and return the responses by partition.

    `rest`, if given, replaces the part of the path after the topic, and `method` replaces the HTTP
    method. Raises the first error, but ignores an error whose status is one of `ignored` if another
    partition accepted the request.
    """
    limit = asyncio.Semaphore(_AT_ONCE)
    tenant, namespace, topic = call.names[:3]
    if rest is None:
        rest = "/".join(call.path.split("/")[_TOPIC_SEGMENTS:])

    async def forward_one(partition: int) -> Any:
        names = tenant, namespace, partition_name(topic, partition)
        path = f"/admin/v2/persistent/{'/'.join(quote(name, safe='') for name in names)}/{rest}"
        async with limit:
            return await forward(call, path.rstrip("/"), method or call.method)

    answers = await asyncio.gather(*map(forward_one, partitions), return_exceptions=True)
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    for error in errors:
        is_ignored = isinstance(error, StatusError) and error.status in ignored
        if not is_ignored or len(errors) == len(answers):
            raise error
    pairs = zip(partitions, answers, strict=True)
    return {at: answer for at, answer in pairs if not isinstance(answer, BaseException)}


async def forward(call: Call, path: str, method: str) -> Any:
    """Send this broker a request for another path, with the call's body, options and credentials.

    If necessary, the broker redirects the request to the topic's owner. Returns the response's
    JSON, and raises `StatusError` for an error response.
    """
    options = {name: value for name, value in call.options.items() if name != "authoritative"}
    headers = {"Content-Type": "application/json"}
    if call.authorization:
        headers["Authorization"] = call.authorization
    body = b"" if call.body is None else json.dumps(call.body).encode()
    try:
        response = await AsyncHTTPClient().fetch(
            f"{call.broker.address.web_url}{path}?{urlencode(options)}",
            method=method,
            headers=headers,
            body=body if body or method in ("PUT", "POST") else None,
            request_timeout=_TIMEOUT_S,
            allow_nonstandard_methods=True,
        )
    except (HTTPClientError, OSError) as error:
        if isinstance(error, HTTPClientError) and error.response is not None:
            reason = _reason(error.response.body) or f"{path}: {error}"
            raise StatusError(error.code, reason) from None
        # The request timed out, or the connection was closed.
        raise StatusError(
            HTTPStatus.SERVICE_UNAVAILABLE, f"{path}: its broker is not responding: {error}"
        ) from None
    return json.loads(response.body) if response.body else None


def _reason(body: bytes) -> str:
    """Return the reason that an error response contains, or "" if it was not sent by a broker."""
    try:
        return str(json.loads(body)["reason"])
    except (ValueError, KeyError, TypeError):
        return ""


def on_each_partition(action: Action, *ignored: int) -> Action:
    """Extend an action for a single topic to partitioned topics.

    `forward_to_partitions` forwards the request for each existing partition.
    """

    async def act(call: Call) -> object:
        if not (partitions := await all_partitions(call)):
            return await action(call)
        used = await existing_partitions(call, partitions)
        if not used:
            raise StatusError(
                HTTPStatus.NOT_FOUND, f"no partition of {call.topic} has been used yet"
            )
        await forward_to_partitions(call, used, *ignored)
        return None

    return act
