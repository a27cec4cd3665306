"""Requests about a partitioned topic, which are requests about each of its partitions.

A broker sends them over HTTP, with the credentials of the client, to the brokers that serve the
partitions, itself among them; so they can be repeated if one fails.

In Pulsar: `broker/admin/impl/PersistentTopicsBase.java`.
"""

import asyncio
import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPResponse

from labkit.system.broker.namespaces import topics_of
from labkit.system.topic.names import partition_name
from labkit.worlds.live.admin.call import Action, Call, StatusError

_TIMEOUT_S = 60.0
_AT_ONCE = 8
_BEFORE_REST = 7
"""Parts of the path up to the topic, among them an empty one in front of the first slash."""


async def all_partitions(call: Call) -> range:
    """The partitions of the topic; none if it has no partitions.  Raises `BrokerError`."""
    return range(await call.broker.partition_count(call.topic, create=False))


async def used_partitions(call: Call, partitions: Sequence[int]) -> list[int]:
    """Those that exist: a partition is created when a client first uses it."""
    used = set(await topics_of(call.broker.store, call.namespace))
    return [each for each in partitions if partition_name(call.topic, each) in used]


async def check_not_partitioned(call: Call, what: str) -> None:
    """Raises `StatusError` for a partitioned topic: the request makes sense for a partition."""
    if await all_partitions(call):
        raise StatusError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"{call.topic} is partitioned: {what} one of its partitions,"
            f" such as {partition_name(call.topic, 0)}",
        )


async def forward_to_partitions(
    call: Call, partitions: Sequence[int], rest: str | None = None, method: str = ""
) -> dict[int, Any]:
    """Send the request about each partition, or one with this method and this rest of the path.

    Returns the answers, of which those that are refusals are a `StatusError`.
    """
    turns = asyncio.Semaphore(_AT_ONCE)
    if rest is None:
        rest = "/".join(call.path.split("/")[_BEFORE_REST:])

    async def forward_one(partition: int) -> Any:
        async with turns:
            path = f"{_partition_path(call, partition)}/{rest}".rstrip("/")
            return await forward(call, path, method or call.method)

    answers = await asyncio.gather(*map(forward_one, partitions))
    return dict(zip(partitions, answers, strict=True))


def _partition_path(call: Call, partition: int) -> str:
    tenant, namespace, topic = call.names[:3]
    names = tenant, namespace, partition_name(topic, partition)
    return f"/admin/v2/persistent/{'/'.join(quote(name, safe='') for name in names)}"


async def forward(call: Call, path: str, method: str) -> Any:
    """Send the request on to the broker that serves the path; a refusal is a `StatusError`."""
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
    except HTTPClientError as error:
        return StatusError(error.code, _reason(error.response) or f"{path}: {error}")
    except OSError as error:
        return StatusError(
            HTTPStatus.SERVICE_UNAVAILABLE, f"{path}: its broker is not responding: {error}"
        )
    return json.loads(response.body) if response.body else None


def _reason(response: HTTPResponse | None) -> str:
    if response is None or not response.body:
        return ""
    return str(json.loads(response.body).get("reason", ""))


def accepted_answers(answers: dict[int, Any], *but: int) -> dict[int, Any]:
    """Return the answers that are not refusals.

    Raises the first refusal, unless it has one of these statuses and another partition has accepted
    the request.
    """
    refusals = [answer for answer in answers.values() if isinstance(answer, StatusError)]
    for refusal in refusals:
        if refusal.status not in but or len(refusals) == len(answers):
            raise refusal
    return {at: each for at, each in answers.items() if not isinstance(each, StatusError)}


def on_each_partition(action: Action, *but: int) -> Action:
    """The action on a topic, or on each used partition; `but` as in `accepted_answers`."""

    async def act(call: Call) -> object:
        if not (partitions := await all_partitions(call)):
            return await action(call)
        used = await used_partitions(call, partitions)
        if not used:
            raise StatusError(HTTPStatus.NOT_FOUND, f"no partition of {call.topic} was used yet")
        accepted_answers(await forward_to_partitions(call, used), *but)
        return None

    return act
