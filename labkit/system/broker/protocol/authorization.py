"""Permissions: superusers may do everything, a tenant's admins everything in it, and all others
what a namespace grants to their role.

    /admin/policies/<tenant>                JSON: adminRoles
    /admin/policies/<tenant>/<namespace>    JSON: auth_policies, of which labkit reads
        namespace_auth                      role -> actions on all topics
        destination_auth                    topic or partition -> role -> actions on it
        subscription_auth_roles             subscription -> the only roles that may use it

A change of grants applies from the next request on; connected producers and consumers keep their
access until they connect again.

In Pulsar: `broker/authorization/PulsarAuthorizationProvider.java`,
`common/policies/data/AuthPolicies.java`.
"""

from collections.abc import Collection, Mapping
from typing import Any

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.policies import stored_policies
from labkit.system.metadata.store import MetadataStore
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.names import namespace_of, partition_of

PRODUCE, CONSUME = "produce", "consume"
ACTIONS = (PRODUCE, CONSUME, "functions", "sources", "sinks", "packages")
"""All actions in Pulsar; a broker checks only the first two."""


class Authorization:
    """Every check raises `BrokerError` when the answer is no, and `MetadataUnavailableError`."""

    def __init__(self, store: MetadataStore, super_user_roles: Collection[str]) -> None:
        self._store = store
        self._super_user_roles = super_user_roles

    async def check_topic(
        self, role: str, topic: str, actions: Collection[str], subscription: str = ""
    ) -> None:
        """Check that the role may perform one of the actions on the topic with this full name, and
        use the subscription, if one is named.
        """
        namespace = namespace_of(topic)
        if await self._is_admin(role, namespace.partition("/")[0]):
            return
        policies = await self._auth_policies(namespace)
        chosen = policies.get("subscription_auth_roles", {}).get(subscription)
        granted = _granted_on_topic(policies, role, topic)
        if granted.isdisjoint(actions) or (chosen and role not in chosen):
            raise _refused(role, f"{' or '.join(actions)} on {topic}", subscription)

    async def check_namespace(self, role: str, namespace: str, action: str) -> None:
        """Check that the role may perform the action on all topics of `tenant/namespace`."""
        if not await self._is_admin(role, namespace.partition("/")[0]):
            policies = await self._auth_policies(namespace)
            if action not in policies.get("namespace_auth", {}).get(role, ()):
                raise _refused(role, f"{action} on {namespace}")

    async def check_admin(self, role: str, tenant: str) -> None:
        """Check that the role administers the tenant."""
        if not await self._is_admin(role, tenant):
            raise _refused(role, f"administer {tenant}")

    def check_super_user(self, role: str) -> None:
        """Check that the role is a superuser."""
        if role not in self._super_user_roles:
            raise _refused(role, "administer the brokers")

    async def _is_admin(self, role: str, tenant: str) -> bool:
        if role in self._super_user_roles:
            return True
        of_tenant, _ = await stored_policies(self._store, tenant)
        return role in of_tenant.get("adminRoles", ())

    async def _auth_policies(self, namespace: str) -> Mapping[str, Any]:
        of_namespace, _ = await stored_policies(self._store, namespace)
        policies: Mapping[str, Any] = of_namespace.get("auth_policies", {})
        return policies


def _granted_on_topic(policies: Mapping[str, Any], role: str, topic: str) -> set[str]:
    on_topics = policies.get("destination_auth", {})
    whole = topic.removesuffix(f"-partition-{partition_of(topic)}")
    return {
        *policies.get("namespace_auth", {}).get(role, ()),
        *on_topics.get(topic, {}).get(role, ()),
        *on_topics.get(whole, {}).get(role, ()),
    }


def _refused(role: str, what: str, subscription: str = "") -> BrokerError:
    by = f" with the subscription {subscription}" if subscription else ""
    return BrokerError(
        ServerError.AuthorizationError, f"the role {role!r} is not granted to {what}{by}"
    )
