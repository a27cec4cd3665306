"""The HTTP paths for namespaces and brokers: policies, permissions, bundles, health.

In Pulsar: `broker/admin/v2/Namespaces.java`, `broker/admin/impl/BrokersBase.java`.
"""

from functools import partial
from typing import Any

from labkit.live.admin_call import NAMESPACE, BadRequestError, Call, Routes, Text
from labkit.model.proto.pulsar_pb2 import ServerError
from labkit.pulsar.administration import change_policy, read_policy, write_policy
from labkit.pulsar.authorization import ACTIONS
from labkit.pulsar.errors import BrokerError

_RETENTION = "retention_policies"
_DEDUPLICATION = "deduplicationEnabled"
_AUTH = "auth_policies"
_NAMESPACE_AUTH = "namespace_auth"


async def _retention(call: Call) -> object:
    return await read_policy(call.broker.store, call.namespace, _RETENTION)


async def _set_retention(call: Call) -> None:
    body = call.body if isinstance(call.body, dict) else {}
    wanted = {key: body.get(key) for key in ("retentionTimeInMinutes", "retentionSizeInMB")}
    if not all(_is_limit(value) for value in wanted.values()):
        raise BadRequestError(
            'the body is {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}; -1: no limit'
        )
    await write_policy(call.broker.store, call.namespace, _RETENTION, wanted)


def _is_limit(value: object) -> bool:
    """Whether the number fits Pulsar's 32 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 2**31


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


async def _permissions(call: Call) -> object:
    policies = await read_policy(call.broker.store, call.namespace, _AUTH)
    return policies.get(_NAMESPACE_AUTH, {}) if isinstance(policies, dict) else {}


async def _grant(call: Call) -> None:
    actions = call.body if isinstance(call.body, list) else []
    if not actions or any(action not in ACTIONS for action in actions):
        raise BadRequestError(f'the body is a list of {", ".join(ACTIONS)}: ["produce", "consume"]')
    await change_policy(
        call.broker.store, call.namespace, _AUTH, partial(_with_grant, call.names[2], actions)
    )


async def _revoke(call: Call) -> None:
    await change_policy(
        call.broker.store, call.namespace, _AUTH, partial(_with_grant, call.names[2], None)
    )


def _with_grant(role: str, actions: list[str] | None, before: Any) -> dict[str, Any]:
    """The namespace's `auth_policies` with these actions for the role, or none."""
    nothing: dict[str, Any] = {"destination_auth": {}, "subscription_auth_roles": {}}
    policies = {**nothing, **(before or {})}
    granted = {name: of for name, of in policies.get(_NAMESPACE_AUTH, {}).items() if name != role}
    if actions is not None:
        granted[role] = actions
    return {**policies, _NAMESPACE_AUTH: granted}


async def _unload_bundle(call: Call) -> None:
    """Unload a bundle that this broker owns; other bundles are their owners' task."""
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
    """Whether topics can store messages; Pulsar's tools expect the bare word `ok`."""
    needed = call.broker.config.managed_ledger.ensemble_size
    found = len(await call.broker.client.writable_bookies())
    if found < needed:
        raise BrokerError(
            ServerError.ServiceNotReady,
            f"{found} bookies take writes, and a ledger needs {needed}"
            " (managedLedgerDefaultEnsembleSize)",
        )
    return Text("ok")


_OTHER_QUESTIONS = "(?:version|configuration|leaderBroker|internal-configuration|ready)"
"""Questions of Pulsar's about a broker that labkit does not answer; they are not clusters."""

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
    f"{_NAMESPACES}/permissions": {"GET": _permissions},
    f"{_NAMESPACES}/permissions/([^/]+)": {"POST": _grant, "DELETE": _revoke},
    f"{_NAMESPACES}/(0x[0-9a-f]+_0x[0-9a-f]+)/unload": {"PUT": _unload_bundle},
    "/admin/v2/brokers/health": {"GET": _health},
    rf"/admin/v2/brokers(?:/(?!{_OTHER_QUESTIONS}$)[^/]+)?": {"GET": _brokers},
}
