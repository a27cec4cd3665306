"""What the HTTP side does about namespaces and brokers: policies, bundles, who is there.

In Pulsar: `broker/admin/v2/Namespaces.java`, `broker/admin/impl/BrokersBase.java`.
"""

from labkit.live.admin_call import NAMESPACE, BadRequestError, Call, Routes
from labkit.model.proto.pulsar_pb2 import ServerError
from labkit.pulsar.administration import read_policy, write_policy
from labkit.pulsar.errors import BrokerError

_RETENTION = "retention_policies"
_DEDUPLICATION = "deduplicationEnabled"


async def _retention(call: Call) -> object:
    return await read_policy(call.broker.store, call.namespace, _RETENTION)


async def _set_retention(call: Call) -> None:
    body = call.body if isinstance(call.body, dict) else {}
    wanted = {key: body.get(key) for key in ("retentionTimeInMinutes", "retentionSizeInMB")}
    if not all(isinstance(value, int) for value in wanted.values()):
        raise BadRequestError(
            'the body is {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}; -1: no limit'
        )
    await write_policy(call.broker.store, call.namespace, _RETENTION, wanted)


async def _remove_retention(call: Call) -> None:
    await write_policy(call.broker.store, call.namespace, _RETENTION, None)


async def _deduplication(call: Call) -> object:
    return await read_policy(call.broker.store, call.namespace, _DEDUPLICATION)


async def _set_deduplication(call: Call) -> None:
    if not isinstance(call.body, bool):
        raise BadRequestError("the body is true or false")
    await write_policy(call.broker.store, call.namespace, _DEDUPLICATION, call.body)


async def _remove_deduplication(call: Call) -> None:
    await write_policy(call.broker.store, call.namespace, _DEDUPLICATION, None)


async def _unload_bundle(call: Call) -> None:
    """The bundles that this broker has; another's are asked of it."""
    for bundle in call.broker.ownership.owned:
        path = f"{call.namespace}/{call.names[2]}"
        if bundle.path.endswith(f"/{path}"):
            await call.broker.unload_bundle(bundle)
            return
    raise BrokerError(
        ServerError.TopicNotFound, f"this broker does not own {call.names[2]} of {call.namespace}"
    )


async def _brokers(call: Call) -> object:
    return [each.broker_id for each in await call.broker.ownership.brokers()]


async def _health(call: Call) -> object:
    await call.broker.ownership.brokers()
    return "ok"


_NAMESPACES = f"/admin/v2/namespaces/{NAMESPACE}"

NAMESPACE_ROUTES: Routes = {
    f"{_NAMESPACES}/retention": {
        "GET": _retention,
        "POST": _set_retention,
        "DELETE": _remove_retention,
    },
    f"{_NAMESPACES}/deduplication": {
        "GET": _deduplication,
        "POST": _set_deduplication,
        "DELETE": _remove_deduplication,
    },
    f"{_NAMESPACES}/(0x[0-9a-f]+_0x[0-9a-f]+)/unload": {"PUT": _unload_bundle},
    "/admin/v2/brokers/health": {"GET": _health},
    "/admin/v2/brokers(?:/[^/]+)?": {"GET": _brokers},
}
