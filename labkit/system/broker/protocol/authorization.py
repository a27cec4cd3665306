"""Permissions: superusers may do anything, tenant admins may do anything in their tenant, and the
namespace's policies grant permissions to all other roles.

    /admin/policies/<tenant>                JSON: adminRoles
    /admin/policies/<tenant>/<namespace>    JSON: auth_policies, with these fields among others
        namespace_auth                      role -> actions on all topics
        destination_auth                    topic or partition -> role -> actions on it
        subscription_auth_roles             subscription -> the only roles that may use it

Changed permissions apply to new requests; connected producers and consumers keep their access.

In Pulsar: `broker/authorization/PulsarAuthorizationProvider.java`,
`common/policies/data/AuthPolicies.java`.
"""

from collections.abc import Collection

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.policies import admin_roles_of, read_namespace_policies, stored_policies
from labkit.system.metadata.store import MetadataStore
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.names import namespace_of, without_partition

PRODUCE, CONSUME = "produce", "consume"
ACTIONS = (PRODUCE, CONSUME, "functions", "sources", "sinks", "packages")
"""Pulsar's actions. A broker checks only the first two."""


class Authorization:
    """Every check raises `BrokerError` if permission is denied."""

    def __init__(self, store: MetadataStore, super_user_roles: Collection[str]) -> None:
        self._store = store
        self._super_user_roles = super_user_roles

    async def check_topic(
        self, role: str, topic: str, actions: Collection[str], subscription: str = ""
    ) -> None:
        """Check that the role may perform one of the actions, and use the subscription, if any."""
        namespace = namespace_of(topic)
        if await self._is_admin(role, namespace.partition("/")[0]):
            return
        policies = (await read_namespace_policies(self._store, namespace)).auth
        chosen = policies.subscription_roles.get(subscription)
        granted = {
            *policies.on_namespace.get(role, ()),
            *policies.on_topics.get(topic, {}).get(role, ()),
            *policies.on_topics.get(without_partition(topic), {}).get(role, ()),
        }
        if granted.isdisjoint(actions) or (chosen and role not in chosen):
            raise _denied_error(role, f"{' or '.join(actions)} on {topic}", subscription)

    async def check_namespace(self, role: str, namespace: str, action: str) -> None:
        """Check that the role may perform the action on all topics of the namespace."""
        if not await self._is_admin(role, namespace.partition("/")[0]):
            policies = (await read_namespace_policies(self._store, namespace)).auth
            if action not in policies.on_namespace.get(role, ()):
                raise _denied_error(role, f"{action} on {namespace}")

    async def check_admin(self, role: str, tenant: str) -> None:
        if not await self._is_admin(role, tenant):
            raise _denied_error(role, f"administer {tenant}")

    def check_super_user(self, role: str) -> None:
        if role not in self._super_user_roles:
            raise _denied_error(role, "administer the brokers")

    async def _is_admin(self, role: str, tenant: str) -> bool:
        if role in self._super_user_roles:
            return True
        tenant_policies, _ = await stored_policies(self._store, tenant)
        return role in admin_roles_of(tenant, tenant_policies or {})


def _denied_error(role: str, what: str, subscription: str = "") -> BrokerError:
    by = f" with subscription {subscription}" if subscription else ""
    return BrokerError(
        ServerError.AuthorizationError, f"role {role!r} is not permitted to {what}{by}"
    )
