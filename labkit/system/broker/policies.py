"""Namespace policies from the metadata store, which override the broker's configuration.

    /admin/policies/<tenant>/<namespace>     JSON: Pulsar's `Policies`

`NamespacePolicies` contains the policies that labkit's brokers use. Changing a policy preserves all
others, even those that only Pulsar's brokers use. As in Pulsar, a single value of the wrong type
makes all policies of the namespace unreadable.

In Pulsar: `common/policies/data/Policies.java`, `AuthPolicies.java`, `RetentionPolicies.java`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.errors import TopicNotFoundError
from labkit.system.metadata.json_node import decode_json_object
from labkit.system.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
)
from labkit.system.model.errors import BKMetadataSerializationException
from labkit.system.topic.config import UNLIMITED, ManagedLedgerConfig

_Value = TypeVar("_Value")

_MINUTE_MS = 60 * 1000
_MEBIBYTE = 1024 * 1024

DEDUPLICATION = "deduplicationEnabled"
MESSAGE_TTL = "message_ttl_in_seconds"
RETENTION = "retention_policies"
SCHEMA_STRATEGY = "schema_compatibility_strategy"
LEGACY_SCHEMA_STRATEGY = "schema_auto_update_compatibility_strategy"
ALLOW_AUTO_UPDATE_SCHEMA = "is_allow_auto_update_schema"
SCHEMA_VALIDATION_ENFORCED = "schema_validation_enforced"
AUTH = "auth_policies"
NAMESPACE_AUTH = "namespace_auth"
TOPIC_AUTH = "destination_auth"
SUBSCRIPTION_AUTH = "subscription_auth_roles"
"""Keys in the JSON; the last three are in the object `auth_policies`."""
ADMIN_ROLES = "adminRoles"
"""A key in the JSON of a tenant."""

ActionsByRole = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class RetentionPolicies:
    """How long acknowledged messages are kept; a negative number means no limit."""

    time_minutes: int
    size_mb: int


@dataclass(frozen=True, slots=True)
class AuthPolicies:
    """If `subscription_roles` contains a subscription, only the listed roles may use it."""

    on_namespace: ActionsByRole
    on_topics: Mapping[str, ActionsByRole]
    subscription_roles: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class NamespacePolicies:
    """The policies of a namespace. A value of None means that the policy is not set."""

    deduplication_enabled: bool | None
    message_ttl_s: int | None
    retention: RetentionPolicies | None
    schema_strategy: str | None
    legacy_schema_strategy: str | None
    allow_auto_update_schema: bool | None
    schema_validation_enforced: bool | None
    auth: AuthPolicies

    @classmethod
    def decode(cls, namespace: str, fields: Mapping[str, Any]) -> "NamespacePolicies":
        """Raise `BKMetadataSerializationException` if a value has the wrong type."""
        policies = _Object(f"the policies of {namespace}", fields)
        ttl_s, retention = policies.get(MESSAGE_TTL, int), None
        if ttl_s is not None and ttl_s < 0:
            raise policies.error(MESSAGE_TTL, "0 or a positive number")
        if RETENTION in policies:
            limits = policies.object(RETENTION)
            # In Java, a missing number is 0.
            retention = RetentionPolicies(
                limits.get("retentionTimeInMinutes", int) or 0,
                limits.get("retentionSizeInMB", int) or 0,
            )
        auth = policies.object(AUTH)
        topics = auth.object(TOPIC_AUTH)
        return cls(
            policies.get(DEDUPLICATION, bool),
            ttl_s,
            retention,
            policies.get(SCHEMA_STRATEGY, str),
            policies.get(LEGACY_SCHEMA_STRATEGY, str),
            policies.get(ALLOW_AUTO_UPDATE_SCHEMA, bool),
            policies.get(SCHEMA_VALIDATION_ENFORCED, bool),
            AuthPolicies(
                auth.object(NAMESPACE_AUTH).lists(),
                {topic: topics.object(topic).lists() for topic in topics.fields},
                auth.object(SUBSCRIPTION_AUTH).lists(),
            ),
        )


@dataclass(frozen=True, slots=True)
class TopicPolicies:
    """The settings of a topic. If `message_ttl_ms` is 0, messages do not expire."""

    deduplication_enabled: bool
    message_ttl_ms: int
    managed_ledger: ManagedLedgerConfig


def policies_path(name: str) -> str:
    return f"/admin/policies/{name}"


async def stored_policies(store: MetadataStore, name: str) -> tuple[dict[str, Any] | None, int]:
    """Return the policies of a tenant or namespace (None if missing) and their node's version.

    Raises `BKMetadataSerializationException` if the policies cannot be decoded.
    """
    path = policies_path(name)
    try:
        data, version = await store.get(path)
    except NoNodeError:
        return None, -1
    return decode_json_object(data or b"{}", f"the znode {path}"), version


async def read_namespace_policies(store: MetadataStore, namespace: str) -> NamespacePolicies:
    """Return the namespace's policies. If the namespace does not exist, no policy is set."""
    stored, _ = await stored_policies(store, namespace)
    return NamespacePolicies.decode(namespace, stored or {})


async def check_namespace_exists(store: MetadataStore, namespace: str) -> None:
    """Raise `BrokerError` if the namespace does not exist or is being deleted."""
    await namespace_policies(store, namespace)


async def namespace_policies(store: MetadataStore, namespace: str) -> dict[str, Any]:
    """Return the stored policies, or raise an error as in `check_namespace_exists`."""
    policies, _ = await stored_policies(store, namespace)
    return _existing(namespace, policies)


def _existing(namespace: str, policies: dict[str, Any] | None) -> dict[str, Any]:
    if policies is None or policies.get("deleted"):
        raise TopicNotFoundError(
            f"namespace {namespace} does not exist; create it with"
            f" pulsar-admin namespaces create {namespace}"
        )
    return policies


async def change_policy(
    store: MetadataStore, namespace: str, key: str, change: Callable[[Any], object]
) -> None:
    """Replace a policy's value with the result of `change`; None means that the policy is not set.

    Raises the same exceptions as `namespace_policies` and `change`.
    """

    def changed(stored: dict[str, Any] | None) -> dict[str, Any]:
        policies = _existing(namespace, stored)
        value = change(policies.get(key))
        others = {name: each for name, each in policies.items() if name != key}
        return others if value is None else {**others, key: value}

    await change_policies(store, namespace, changed)


async def change_policies(
    store: MetadataStore,
    name: str,
    change: Callable[[dict[str, Any] | None], Mapping[str, Any] | None],
) -> None:
    """Replace a tenant's or namespace's policies with what `change` returns, unless that is None.

    `change` receives the stored policies, if any; after a concurrent change, it is called again.
    """
    while True:
        policies, version = await stored_policies(store, name)
        changed = change(policies)
        if changed is None:
            return
        data = json.dumps(changed).encode()
        with suppress(NodeExistsError, BadVersionError, NoNodeError):
            if policies is None:
                await store.create(policies_path(name), data)
            else:
                await store.set(policies_path(name), data, version)
            return


async def read_topic_policies(
    store: MetadataStore, namespace: str, config: BrokerConfig
) -> TopicPolicies:
    """Raises the same exceptions as `namespace_policies` and `NamespacePolicies.decode`."""
    stored = NamespacePolicies.decode(namespace, await namespace_policies(store, namespace))
    deduplication_enabled, ttl_s = stored.deduplication_enabled, stored.message_ttl_s
    if deduplication_enabled is None:
        deduplication_enabled = config.broker_deduplication_enabled
    if ttl_s is None:
        ttl_s = config.ttl_duration_default_s
    managed_ledger = config.managed_ledger
    if (retention := stored.retention) is not None:
        managed_ledger = replace(
            managed_ledger,
            retention_time_ms=_scaled(retention.time_minutes, _MINUTE_MS),
            retention_size_bytes=_scaled(retention.size_mb, _MEBIBYTE),
        )
    return TopicPolicies(deduplication_enabled, 1000 * ttl_s, managed_ledger)


def _scaled(number: int, unit: int) -> int:
    return UNLIMITED if number < 0 else number * unit


def admin_roles_of(tenant: str, fields: Mapping[str, Any]) -> Sequence[str]:
    """Raise `BKMetadataSerializationException` if the roles are not a list of strings."""
    return _Object(f"the tenant {tenant}", fields).texts(ADMIN_ROLES)


_EXPECTED: Mapping[type, str] = {
    bool: "true or false",
    int: "a number",
    str: "a string",
    list: "a list of strings",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class _Object:
    """A JSON object. Its methods return a value, or raise `BKMetadataSerializationException` if the
    value has another type. A null counts as a missing value.
    """

    description: str
    fields: Mapping[str, Any]

    def __contains__(self, key: str) -> bool:
        return self.fields.get(key) is not None

    def get(self, key: str, kind: type[_Value]) -> _Value | None:
        value = self.fields.get(key)
        # Compare the types themselves, because a bool is also an instance of int.
        if value is not None and type(value) is not kind:
            raise self.error(key, _EXPECTED[kind])
        return value

    def texts(self, key: str) -> list[str]:
        values: list[object] = self.get(key, list) or []
        texts = [each for each in values if isinstance(each, str)]
        if len(texts) < len(values):
            raise self.error(key, _EXPECTED[list])
        return texts

    def lists(self) -> dict[str, list[str]]:
        return {key: self.texts(key) for key in self.fields}

    def object(self, key: str) -> "_Object":
        value: dict[str, Any] | None = self.get(key, dict)
        return _Object(f"{key} in {self.description}", value or {})

    def error(self, key: str, expected: str) -> BKMetadataSerializationException:
        return BKMetadataSerializationException(
            f"{key} in {self.description} is {self.fields[key]!r}; expected {expected}"
        )
