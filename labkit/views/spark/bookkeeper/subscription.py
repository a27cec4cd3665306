"""Keeps a subscription at the position up to which a stream has processed each partition, so that
retention does not delete what a restarted query still needs.

The owner of a topic holds its cursors in memory, and stops if another process changes one of them
in the metadata store. The source therefore asks the broker over HTTP to move the subscription.

In Pulsar: `org.apache.pulsar.broker.admin.v2.PersistentTopics`. Pulsar's connector for Spark does
the same in `PulsarHelper.commitCursorToOffset`.
"""

import json
import time
from http import HTTPStatus
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, Request, build_opener

from labkit.system.model.errors import LabkitError
from labkit.system.model.message_id import MessageId
from labkit.system.topic.names import partition_name, partition_of
from labkit.views.spark.bookkeeper.offsets import Offset
from labkit.views.spark.bookkeeper.options import Options
from labkit.views.spark.bookkeeper.spans import Lane

_PAUSE_S = 0.2
_RETRIED = {
    # The brokers have not agreed yet on the topic's owner.
    HTTPStatus.TEMPORARY_REDIRECT,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
_HINTS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "; set option 'token'",
    HTTPStatus.FORBIDDEN: "; use the token of a role that may administer the topic",
}


class SubscriptionError(LabkitError):
    """The broker did not create or move the subscription."""


class ProgressSubscription:
    """The subscription given by option `predefinedSubscription`, on each lane of a stream."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._opener = build_opener(_RedirectToOwner)
        self._positions: Offset = {}

    def begin(self, offset: Offset) -> None:
        """Call `advance`, but only for lanes for which it has not been called yet."""
        self.advance({lane: at for lane, at in offset.items() if lane not in self._positions})

    def advance(self, offset: Offset) -> None:
        """Acknowledge everything before the last message that was read, but not that message
        itself.

        A restarted query needs the ledger of that message, even if the query has read the ledger to
        its end. Missing subscriptions are created. Raises `SubscriptionError` if a broker rejects a
        request or cannot be reached.
        """
        for lane, at in offset.items():
            if self._positions.get(lane) != at:
                self._reset(lane, at)
                self._positions[lane] = at

    def _reset(self, lane: Lane, at: MessageId) -> None:
        is_partition = lane.partition >= 0 and partition_of(lane.topic) < 0
        topic = partition_name(lane.topic, lane.partition) if is_partition else lane.topic
        names = *topic.removeprefix("persistent://").split("/"), self._options.subscription
        tenant, namespace, name, subscription = (quote(each, safe="") for each in names)
        path = f"/admin/v2/persistent/{tenant}/{namespace}/{name}/subscription/{subscription}"
        # A ledger id of -1 means the earliest message.
        entry_id = max(at.entry_id, 0) if at.ledger_id >= 0 else -1
        position = {"ledgerId": at.ledger_id, "entryId": entry_id, "partitionIndex": -1}
        body = json.dumps(position).encode()
        status, reason = self._request("POST", f"{path}/resetcursor", body)
        if status == HTTPStatus.NOT_FOUND:
            status, reason = self._request("PUT", path, body)
        if reason:
            raise SubscriptionError(
                f"cannot move subscription '{self._options.subscription}' of {topic} through the"
                f" broker at {self._options.admin_url}: {reason}{_HINTS.get(status, '')}"
            )

    def _request(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        """Return the status and, if the request failed, the reason; retry while no broker can serve
        it.
        """
        options = self._options
        headers = {"Content-Type": "application/json"}
        if options.token:
            headers["Authorization"] = f"Bearer {options.token}"
        request = Request(f"{options.admin_url}{path}", body, headers, method=method)
        deadline = time.monotonic() + options.retry_s
        while True:
            try:
                with self._opener.open(request, timeout=options.retry_s) as response:
                    return response.status, ""
            except HTTPError as error:
                with error:
                    status = error.code
                    reason = f"{status} {error.reason} {error.read().decode(errors='replace')}"
            except OSError as error:
                status, reason = HTTPStatus.SERVICE_UNAVAILABLE, f"{error}; is it running?"
            if status not in _RETRIED or time.monotonic() > deadline:
                return status, reason
            time.sleep(_PAUSE_S)


class _RedirectToOwner(HTTPRedirectHandler):
    """Repeats a redirected request, with its body, at the broker that owns the topic."""

    def redirect_request(
        self, req: Request, fp: object, code: int, msg: str, headers: object, newurl: str
    ) -> Request:
        return Request(newurl, req.data, req.headers, method=req.get_method())
