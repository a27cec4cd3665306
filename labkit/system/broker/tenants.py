"""Clusters, tenants and namespaces in the metadata store, in Pulsar's format.

    /admin/clusters/<cluster>               JSON: serviceUrl, brokerServiceUrl
    /admin/policies/<tenant>                JSON: adminRoles, allowedClusters
    /admin/policies/<tenant>/<namespace>    JSON: replication_clusters, bundles, and the policies

The first broker of a cluster creates the cluster and the namespace public/default.

In Pulsar: `PulsarClusterMetadataSetup.java`, `broker/resources/TenantResources.java`,
`NamespaceResources.java`.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from labkit.system.broker.errors import BrokerError, NotAllowedError, TopicNotFoundError
from labkit.system.broker.ownership import BUNDLE_BOUNDARIES, BrokerAddress
from labkit.system.broker.policies import (
    ADMIN_ROLES,
    AUTH,
    NAMESPACE_AUTH,
    SUBSCRIPTION_AUTH,
    TOPIC_AUTH,
    admin_roles_of,
    change_policies,
    policies_path,
    stored_policies,
)
from labkit.system.metadata.json_node import decode_json_object
from labkit.system.metadata.store import MetadataStore, NodeExistsError, NoNodeError, NotEmptyError
from labkit.system.model.errors import BKIncorrectParameterException

CLUSTERS = "/admin/clusters"
_TENANTS = "/admin/policies"
_TOPICS = ("/managed-ledgers", "/admin/partitioned-topics")
_DEFAULT_CLUSTER = "standalone"
_DEFAULT_NAMESPACE = "public/default"
_GLOBAL = "global"
"""Not a cluster. Older versions of Pulsar stored the configuration of all clusters here."""

TenantInfo = Mapping[str, Any]


async def join_cluster(store: MetadataStore, wanted: str, address: BrokerAddress) -> str:
    """Return the name of the broker's cluster. Create the cluster if the store contains none.

    If `wanted` is empty, the broker joins the only existing cluster. When a cluster is created, the
    tenants and namespaces of existing topics are created, too, because `topic.Topic.create`, which
    needs no broker, does not store them. Raises `BKIncorrectParameterException` if `wanted` is not
    one of the existing clusters.
    """
    existing = await clusters(store)
    if existing:
        name = wanted or existing[0]
        if name not in existing or (not wanted and len(existing) > 1):
            raise BKIncorrectParameterException(
                f"clusterName is {wanted!r}; it must be one of the clusters in the metadata store:"
                f" {', '.join(existing)}"
            )
        return name
    name = wanted or _DEFAULT_CLUSTER
    for namespace in sorted({_DEFAULT_NAMESPACE, *await _used_namespaces(store)}):
        tenant, policies = new_tenant([], [name]), new_policies(name)
        for path, defaults in ((namespace.partition("/")[0], tenant), (namespace, policies)):
            await change_policies(store, path, partial(_with_defaults, defaults))
    urls = {
        "serviceUrl": address.web_url,
        "serviceUrlTls": address.web_url_tls,
        "brokerServiceUrl": address.service_url,
        "brokerServiceUrlTls": address.service_url_tls,
    }
    data = json.dumps({key: url for key, url in urls.items() if url}).encode()
    with suppress(NodeExistsError):  # Another broker that started at the same time was faster.
        # This must be the last step. If it is not reached, the next broker repeats all steps.
        await store.create(f"{CLUSTERS}/{name}", data)
    return name


async def _used_namespaces(store: MetadataStore) -> list[str]:
    return sorted(
        {
            f"{tenant}/{namespace}"
            for root in (*_TOPICS, _TENANTS)
            for tenant in await _children(store, root)
            for namespace in await _children(store, f"{root}/{tenant}")
        }
    )


def _with_defaults(defaults: Mapping[str, Any], found: dict[str, Any] | None) -> dict[str, Any]:
    return {**defaults, **(found or {})}


async def clusters(store: MetadataStore) -> list[str]:
    return [name for name in await _children(store, CLUSTERS) if name != _GLOBAL]


async def cluster_data(store: MetadataStore, name: str) -> dict[str, Any]:
    path = f"{CLUSTERS}/{name}"
    try:
        data, _ = await store.get(path)
    except NoNodeError:
        raise TopicNotFoundError(f"cluster {name} does not exist") from None
    return decode_json_object(data or b"{}", f"the znode {path}")


# Tenants


def new_tenant(admin_roles: Sequence[str], allowed_clusters: Sequence[str]) -> TenantInfo:
    return {ADMIN_ROLES: [*admin_roles], "allowedClusters": [*allowed_clusters]}


async def tenants(store: MetadataStore) -> list[str]:
    return await _children(store, _TENANTS)


async def tenant_info(store: MetadataStore, tenant: str) -> TenantInfo:
    info, _ = await stored_policies(store, tenant)
    if info is None:
        raise _no_tenant_error(tenant)
    return new_tenant(admin_roles_of(tenant, info), info.get("allowedClusters") or ())


async def create_tenant(store: MetadataStore, tenant: str, info: TenantInfo) -> None:
    try:
        await store.create(policies_path(tenant), json.dumps(info).encode())
    except NodeExistsError:
        raise NotAllowedError(f"tenant {tenant} already exists") from None


async def update_tenant(store: MetadataStore, tenant: str, info: TenantInfo) -> None:
    def changed(found: dict[str, Any] | None) -> TenantInfo:
        if found is None:
            raise _no_tenant_error(tenant)
        return info

    await change_policies(store, tenant, changed)


async def delete_tenant(store: MetadataStore, tenant: str) -> None:
    """Delete a tenant. Raises `BrokerError` if it does not exist or has namespaces."""
    try:
        await store.delete(policies_path(tenant))
    except NoNodeError:
        raise _no_tenant_error(tenant) from None
    except NotEmptyError:
        raise NotAllowedError(
            f"tenant {tenant} has namespaces; delete them first:"
            f" {', '.join(await _children(store, policies_path(tenant)))}"
        ) from None


# Namespaces


def new_policies(cluster: str) -> dict[str, Any]:
    return {
        AUTH: {NAMESPACE_AUTH: {}, TOPIC_AUTH: {}, SUBSCRIPTION_AUTH: {}},
        "replication_clusters": [cluster],
        "bundles": {"boundaries": BUNDLE_BOUNDARIES, "numBundles": len(BUNDLE_BOUNDARIES) - 1},
    }


async def namespaces(store: MetadataStore, tenant: str) -> list[str]:
    await tenant_info(store, tenant)
    return [f"{tenant}/{name}" for name in await _children(store, policies_path(tenant))]


async def create_namespace(
    store: MetadataStore, namespace: str, policies: Mapping[str, Any]
) -> None:
    await tenant_info(store, namespace.partition("/")[0])
    try:
        await store.create(policies_path(namespace), json.dumps(policies).encode())
    except NodeExistsError:
        raise NotAllowedError(f"namespace {namespace} already exists") from None


async def delete_namespace(store: MetadataStore, namespace: str) -> None:
    """Delete a namespace. Raises `BrokerError` if it does not exist or has topics."""
    policies, _ = await stored_policies(store, namespace)
    if policies is None:
        raise TopicNotFoundError(f"namespace {namespace} does not exist")
    # Mark the namespace first, so that no topic is created in the meantime.
    await _mark_deleted(store, namespace, deleted=True)
    try:
        for root in _TOPICS:
            await _delete_empty(store, f"{root}/{namespace}/persistent")
            await _delete_empty(store, f"{root}/{namespace}")
    except NotEmptyError:
        await _mark_deleted(store, namespace, deleted=False)
        raise NotAllowedError(f"namespace {namespace} has topics; delete them first") from None
    await _delete_empty(store, f"/admin/local-policies/{namespace}")
    await _delete_empty(store, policies_path(namespace))


async def _mark_deleted(store: MetadataStore, namespace: str, *, deleted: bool) -> None:
    await change_policies(
        store, namespace, lambda found: None if found is None else {**found, "deleted": deleted}
    )


async def _delete_empty(store: MetadataStore, path: str) -> None:
    with suppress(NoNodeError):
        await store.delete(path)


async def _children(store: MetadataStore, path: str) -> list[str]:
    try:
        return await store.children(path)
    except NoNodeError:
        return []


def _no_tenant_error(tenant: str) -> BrokerError:
    return TopicNotFoundError(f"tenant {tenant} does not exist")
