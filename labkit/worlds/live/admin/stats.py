"""The HTTP paths for the statistics of topics, and for unloading and terminating topics.

In Pulsar: `broker/admin/v2/PersistentTopics.java`.
"""

from http import HTTPStatus
from typing import Any

from labkit.system.broker.operations.topic_stats import (
    internal_stats,
    sum_partition_stats,
    topic_stats,
)
from labkit.system.topic.names import partition_name
from labkit.worlds.live.admin.call import TOPIC, Call, Routes, StatusError
from labkit.worlds.live.admin.messages import message_id_json
from labkit.worlds.live.admin.partitions import (
    all_partitions,
    check_not_partitioned,
    existing_partitions,
    forward_to_partitions,
    on_each_partition,
)


async def _stats(call: Call) -> object:
    topic = await call.open_topic()
    return await topic_stats(topic, with_earliest_time=call.query_flag("getEarliestTimeInBacklog"))


async def _internal_stats(call: Call) -> object:
    return internal_stats(await call.open_topic())


async def _partitioned_stats(call: Call) -> object:
    parts = await _of_partitions(call, "stats")
    total = sum_partition_stats(parts["partitions"].values())
    if call.options.get("perPartition", "true").lower() != "true":
        parts["partitions"] = {}
    return {**total, **parts}


async def _of_partitions(call: Call, rest: str) -> dict[str, Any]:
    partitions = await all_partitions(call)
    if not partitions:
        raise StatusError(HTTPStatus.NOT_FOUND, f"partitioned topic {call.topic} does not exist")
    used = await existing_partitions(call, partitions)
    answers = await forward_to_partitions(call, used, rest=rest)
    return {
        "metadata": {"partitions": len(partitions), "deleted": False},
        "partitions": {partition_name(call.topic, at): each for at, each in answers.items()},
    }


async def _terminate(call: Call) -> object:
    await check_not_partitioned(call, "terminate all partitions at once, or")
    topic = await call.open_topic()
    return message_id_json(await topic.terminate(), topic)


async def _terminate_partitions(call: Call) -> object:
    partitions = await all_partitions(call)
    if not partitions:
        raise StatusError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"{call.topic} is not partitioned: terminate it without /partitions",
        )
    # Partitions that do not exist yet must also be terminated, so create them first.
    used = await existing_partitions(call, partitions)
    unused = [each for each in partitions if each not in used]
    await forward_to_partitions(call, unused, rest="", method="PUT")
    return await forward_to_partitions(call, partitions, rest="terminate", method="POST")


async def _unload(call: Call) -> None:
    await call.open_topic()
    await call.broker.unload(call.topic)


_TOPIC = f"/admin/v2/persistent/{TOPIC}"

STATS_ROUTES: Routes = {
    f"{_TOPIC}/stats": {"GET": _stats},
    f"{_TOPIC}/internalStats": {"GET": _internal_stats},
    f"{_TOPIC}/partitioned-stats": {"GET": _partitioned_stats},
    f"{_TOPIC}/partitioned-internalStats": {
        "GET": lambda call: _of_partitions(call, "internalStats")
    },
    f"{_TOPIC}/terminate": {"POST": _terminate},
    f"{_TOPIC}/terminate/partitions": {"POST": _terminate_partitions},
    f"{_TOPIC}/unload": {"PUT": on_each_partition(_unload)},
}
