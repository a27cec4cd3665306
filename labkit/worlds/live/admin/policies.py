"""The HTTP paths for namespace policies.

Every policy can be read and removed, including those that only Pulsar's brokers enforce. Only
policies that labkit's brokers enforce can be set.

In Pulsar: `broker/admin/v2/Namespaces.java`, `NamespacesBase.java`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from labkit.system.broker.policies import (
    ALLOW_AUTO_UPDATE_SCHEMA,
    AUTH,
    DEDUPLICATION,
    MESSAGE_TTL,
    NAMESPACE_AUTH,
    RETENTION,
    SCHEMA_STRATEGY,
    SCHEMA_VALIDATION_ENFORCED,
    SUBSCRIPTION_AUTH,
    AuthPolicies,
    NamespacePolicies,
    change_policy,
    check_namespace_exists,
    namespace_policies,
)
from labkit.system.broker.protocol.authorization import ACTIONS
from labkit.system.broker.schemas.checks import UNDEFINED, Strategy
from labkit.system.broker.tenants import new_policies
from labkit.worlds.live.admin.call import (
    NAMESPACE,
    Action,
    BadRequestError,
    Call,
    Routes,
    StatusError,
    not_supported,
)


def _is_number(value: object) -> bool:
    """Return whether the value is an integer that fits in 32 bits, as in Pulsar."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31


def _retention(body: object) -> object:
    limits = body if isinstance(body, dict) else {}
    time: Any = limits.get("retentionTimeInMinutes")
    size: Any = limits.get("retentionSizeInMB")
    if not (_is_number(time) and _is_number(size) and time >= -1 and size >= -1):
        raise BadRequestError(
            'the body must look like {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100};'
            " use -1 for no limit"
        )
    if (time == 0) != (size == 0):
        raise BadRequestError(
            f"a retention of {time} minutes and {size} MB retains nothing, because a limit of 0"
            " deletes at once: use -1 for no limit, or 0 for both to turn retention off"
        )
    return {"retentionTimeInMinutes": time, "retentionSizeInMB": size}


def _message_ttl(body: object) -> object:
    if not _is_number(body):
        raise BadRequestError(
            "the body must be a number of seconds, such as 3600; use 0 for no expiry"
        )
    if isinstance(body, int) and body < 0:
        raise StatusError(
            HTTPStatus.PRECONDITION_FAILED,
            f"the message TTL is {body}; expected 0 (no expiry) or a positive number of seconds",
        )
    return body


def _flag(body: object) -> object:
    if not isinstance(body, bool):
        raise BadRequestError("the body must be true or false")
    return body


def _strategy(body: object) -> object:
    names = [UNDEFINED, *(strategy.value for strategy in Strategy)]
    if body not in names:
        raise BadRequestError(f"the body must be one of {', '.join(names)}, in quotation marks")
    return body


@dataclass(frozen=True, slots=True)
class _Policy:
    """A namespace policy, stored under `key`.

    `checked` validates a request body and returns the value to store. It raises `BadRequestError`
    or `StatusError` if the body is invalid. If `checked` is None, the policy cannot be set.
    """

    key: str
    checked: Callable[[object], object] | None = None
    default: object = None


_POLICIES: Mapping[str, _Policy] = {
    "retention": _Policy(RETENTION, _retention),
    "messageTTL": _Policy(MESSAGE_TTL, _message_ttl),
    "deduplication": _Policy(DEDUPLICATION, _flag),
    "backlogQuotaMap": _Policy("backlog_quota_map", default={}),
    "persistence": _Policy("persistence"),
    "autoTopicCreation": _Policy("autoTopicCreationOverride"),
    "autoSubscriptionCreation": _Policy("autoSubscriptionCreationOverride"),
    "compactionThreshold": _Policy("compaction_threshold"),
    "deduplicationSnapshotInterval": _Policy("deduplicationSnapshotIntervalSeconds"),
    "delayedDelivery": _Policy("delayed_delivery_policies"),
    "dispatcherPauseOnAckStatePersistent": _Policy(
        "dispatcherPauseOnAckStatePersistentEnabled", default=False
    ),
    "encryptionRequired": _Policy("encryption_required", default=False),
    "entryFilters": _Policy("entryFilters"),
    "inactiveTopicPolicies": _Policy("inactive_topic_policies"),
    "isAllowAutoUpdateSchema": _Policy(ALLOW_AUTO_UPDATE_SCHEMA, _flag, default=True),
    "maxConsumersPerSubscription": _Policy("max_consumers_per_subscription"),
    "maxConsumersPerTopic": _Policy("max_consumers_per_topic"),
    "maxProducersPerTopic": _Policy("max_producers_per_topic"),
    "maxSubscriptionsPerTopic": _Policy("max_subscriptions_per_topic"),
    "maxTopicsPerNamespace": _Policy("max_topics_per_namespace"),
    "maxUnackedMessagesPerConsumer": _Policy("max_unacked_messages_per_consumer"),
    "maxUnackedMessagesPerSubscription": _Policy("max_unacked_messages_per_subscription"),
    "offloadDeletionLagMs": _Policy("offload_deletion_lag_ms"),
    "offloadPolicies": _Policy("offload_policies"),
    "offloadThreshold": _Policy("offload_threshold", default=-1),
    "offloadThresholdInSeconds": _Policy("offload_threshold_in_seconds", default=-1),
    "properties": _Policy("properties", default={}),
    "resourcegroup": _Policy("resource_group_name"),
    "schemaCompatibilityStrategy": _Policy(SCHEMA_STRATEGY, _strategy, default=UNDEFINED),
    "schemaValidationEnforced": _Policy(SCHEMA_VALIDATION_ENFORCED, _flag, default=False),
    "subscriptionAuthMode": _Policy("subscription_auth_mode", default="None"),
    "subscriptionExpirationTime": _Policy("subscription_expiration_time_minutes"),
    "subscriptionTypesEnabled": _Policy("subscription_types_enabled", default=[]),
}
"""Policies by the last segment of the path."""

_BY_KEY = {policy.key: policy for policy in _POLICIES.values()}


async def _get(policy: _Policy, call: Call) -> object:
    policies = await namespace_policies(call.broker.store, call.namespace)
    return policies.get(policy.key, policy.default)


async def _set(name: str, policy: _Policy, call: Call) -> None:
    value = call.body
    if policy.checked is not None:
        value = policy.checked(value)
    elif policy.default is None or value != policy.default:
        await check_namespace_exists(call.broker.store, call.namespace)
        raise not_supported(f"the namespace policy {name}")
    await change_policy(call.broker.store, call.namespace, policy.key, lambda _: value)


async def _remove(policy: _Policy, call: Call) -> None:
    await change_policy(call.broker.store, call.namespace, policy.key, lambda _: None)


def policies_of(body: Mapping[str, Any], cluster: str) -> dict[str, Any]:
    """Return the policies of a new namespace in their stored form.

    Raises `BadRequestError` or `StatusError` for invalid values, and `StatusError` for policies
    that are not supported.
    """
    policies = new_policies(cluster)
    for key, value in body.items():
        policy = _BY_KEY.get(key, _Policy(key))
        if not value or value == policy.default or key in policies:
            continue
        if policy.checked is None:
            raise not_supported(f"the namespace policy {key}")
        policies[key] = policy.checked(value)
    return policies


# Permissions


async def _auth_policies(call: Call) -> AuthPolicies:
    stored = await namespace_policies(call.broker.store, call.namespace)
    return NamespacePolicies.decode(call.namespace, stored).auth


async def _permissions(call: Call) -> object:
    return (await _auth_policies(call)).on_namespace


async def _subscription_permissions(call: Call) -> object:
    return (await _auth_policies(call)).subscription_roles


async def _grant(call: Call) -> None:
    actions = call.body if isinstance(call.body, list) else []
    if not actions or any(action not in ACTIONS for action in actions):
        raise BadRequestError(
            'the body must be a list of actions, such as ["produce", "consume"]; valid actions:'
            f" {', '.join(ACTIONS)}"
        )
    await _change_auth(call, NAMESPACE_AUTH, actions)


async def _grant_subscription(call: Call) -> None:
    roles = call.body if isinstance(call.body, list) else []
    if not roles or not all(isinstance(role, str) for role in roles):
        raise BadRequestError('the body must be a list of roles, such as ["alice", "bob"]')
    await _change_auth(call, SUBSCRIPTION_AUTH, roles)


async def _change_auth(call: Call, kind: str, value: list[str] | None) -> None:
    """Set the entry for the role or subscription in the path, or remove it if `value` is None.

    Raises `BKMetadataSerializationException` if the stored permissions cannot be decoded.
    """

    def changed(before: Any) -> dict[str, Any]:
        NamespacePolicies.decode(call.namespace, {AUTH: before})
        policies = {**new_policies("")[AUTH], **(before or {})}
        names = {**(policies[kind] or {}), call.names[2]: value}
        return {**policies, kind: {name: each for name, each in names.items() if each is not None}}

    await change_policy(call.broker.store, call.namespace, AUTH, changed)


def _actions(name: str, policy: _Policy) -> Mapping[str, Action]:
    write = partial(_set, name, policy)
    return {
        "GET": partial(_get, policy),
        "DELETE": partial(_remove, policy),
        "POST": write,
        "PUT": write,
    }


_NAMESPACES = f"/admin/v2/namespaces/{NAMESPACE}"

POLICY_ROUTES: Routes = {
    **{f"{_NAMESPACES}/{name}": _actions(name, policy) for name, policy in _POLICIES.items()},
    f"{_NAMESPACES}/permissions": {"GET": _permissions},
    f"{_NAMESPACES}/permissions/subscription": {"GET": _subscription_permissions},
    f"{_NAMESPACES}/permissions/subscription/([^/]+)": {"POST": _grant_subscription},
    f"{_NAMESPACES}/permissions/([^/]+)": {
        "POST": _grant,
        "DELETE": lambda call: _change_auth(call, NAMESPACE_AUTH, None),
    },
}
