"""Clusters, tenants and namespaces in the metadata store, in Pulsar's form.

    /admin/clusters/<cluster>               JSON: serviceUrl, brokerServiceUrl
    /admin/policies/<tenant>                JSON: adminRoles, allowedClusters
    /admin/policies/<tenant>/<namespace>    JSON: replication_clusters, bundles, and the policies

The first broker of a cluster creates the cluster with the namespace public/default.

In Pulsar: `PulsarClusterMetadataSetup.java`, `broker/resources/TenantResources.java`,
`NamespaceResources.java`.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.policies import policies_path, stored_policies
from labkit.system.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.ownership import BUNDLE_BOUNDARIES, BrokerAddress

CLUSTERS = "/admin/clusters"
_TENANTS = "/admin/policies"
_TOPICS = ("/managed-ledgers", "/admin/partitioned-topics")
_DEFAULT_CLUSTER = "standalone"
_DEFAULT_NAMESPACE = "public/default"
_GLOBAL = "global"
"""Not a cluster: older versions of Pulsar kept the configuration of all clusters there."""

TenantInfo = Mapping[str, Any]


async def join_cluster(store: MetadataStore, wanted: str, address: BrokerAddress) -> str:
    """Return the name of the broker's cluster, after creating the cluster if there is none.

    `wanted` "" stands for the only one.  Topics that earlier versions of labkit stored get the
    tenants and namespaces that they had no need of.  Raises `BKIncorrectParameterException`.
    """
    known = await clusters(store)
    if known:
        name = wanted or known[0]
        if name not in known or (not wanted and len(known) > 1):
            raise BKIncorrectParameterException(
                f"clusterName is {wanted!r}; set it to one of the clusters in the metadata store:"
                f" {', '.join(known)}"
            )
        return name
    name = wanted or _DEFAULT_CLUSTER
    for namespace in {_DEFAULT_NAMESPACE, *await _used_namespaces(store)}:
        await _complete(store, namespace.partition("/")[0], new_tenant([], [name]))
        await _complete(store, namespace, new_policies(name))
    urls = {
        "serviceUrl": address.web_url,
        "serviceUrlTls": address.web_url_tls,
        "brokerServiceUrl": address.service_url,
        "brokerServiceUrlTls": address.service_url_tls,
    }
    data = json.dumps({key: url for key, url in urls.items() if url}).encode()
    with suppress(NodeExistsError):  # Another broker that started at the same time was first.
        # The last step: until it is done, the next broker repeats all of them.
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


async def _complete(store: MetadataStore, name: str, defaults: Mapping[str, Any]) -> None:
    """Add what is missing to the policies of a tenant or a namespace."""
    while True:
        found, version = await stored_policies(store, name)
        data = json.dumps({**defaults, **found}).encode()
        try:
            if version is None:
                await store.create(policies_path(name), data)
            else:
                await store.set(policies_path(name), data, version)
        except (NodeExistsError, BadVersionError, NoNodeError):
            continue
        return


async def clusters(store: MetadataStore) -> list[str]:
    """The names of the clusters, sorted."""
    return [name for name in await _children(store, CLUSTERS) if name != _GLOBAL]


async def cluster_data(store: MetadataStore, name: str) -> dict[str, Any]:
    """The addresses of a cluster.  Raises `BrokerError` if it does not exist."""
    try:
        data, _ = await store.get(f"{CLUSTERS}/{name}")
    except NoNodeError:
        raise BrokerError(ServerError.TopicNotFound, f"the cluster {name} does not exist") from None
    found: dict[str, Any] = json.loads(data or b"{}")
    return found


# Tenants


def new_tenant(admin_roles: Sequence[str], allowed_clusters: Sequence[str]) -> TenantInfo:
    """A tenant as it is stored."""
    return {"adminRoles": [*admin_roles], "allowedClusters": [*allowed_clusters]}


async def tenants(store: MetadataStore) -> list[str]:
    """Their names, sorted."""
    return await _children(store, _TENANTS)


async def tenant_info(store: MetadataStore, tenant: str) -> TenantInfo:
    """Raises `BrokerError` if there is no such tenant."""
    info, version = await stored_policies(store, tenant)
    if version is None:
        raise _no_tenant(tenant)
    return new_tenant(info.get("adminRoles", ()), info.get("allowedClusters", ()))


async def create_tenant(store: MetadataStore, tenant: str, info: TenantInfo) -> None:
    """Raises `BrokerError` if the tenant exists."""
    try:
        await store.create(policies_path(tenant), json.dumps(info).encode())
    except NodeExistsError:
        raise BrokerError(ServerError.NotAllowedError, f"the tenant {tenant} exists") from None


async def update_tenant(store: MetadataStore, tenant: str, info: TenantInfo) -> None:
    """Raises `BrokerError` if there is no such tenant."""
    while True:
        _, version = await stored_policies(store, tenant)
        if version is None:
            raise _no_tenant(tenant)
        with suppress(BadVersionError, NoNodeError):
            await store.set(policies_path(tenant), json.dumps(info).encode(), version)
            return


async def delete_tenant(store: MetadataStore, tenant: str) -> None:
    """Raises `BrokerError` if there is no such tenant, or it has namespaces."""
    try:
        await store.delete(policies_path(tenant))
    except NoNodeError:
        raise _no_tenant(tenant) from None
    except NotEmptyError:
        raise BrokerError(
            ServerError.NotAllowedError,
            f"the tenant {tenant} has namespaces, delete them first:"
            f" {', '.join(await _children(store, policies_path(tenant)))}",
        ) from None


# Namespaces


def new_policies(cluster: str) -> dict[str, Any]:
    """The policies of a new namespace."""
    return {
        "auth_policies": {
            "namespace_auth": {},
            "destination_auth": {},
            "subscription_auth_roles": {},
        },
        "replication_clusters": [cluster],
        "bundles": {"boundaries": BUNDLE_BOUNDARIES, "numBundles": len(BUNDLE_BOUNDARIES) - 1},
    }


async def namespaces(store: MetadataStore, tenant: str) -> list[str]:
    """Full names of a tenant's namespaces, sorted.  Raises `BrokerError`."""
    await tenant_info(store, tenant)
    return [f"{tenant}/{name}" for name in await _children(store, policies_path(tenant))]


async def create_namespace(
    store: MetadataStore, namespace: str, policies: Mapping[str, Any]
) -> None:
    """Raises `BrokerError` if the namespace exists, or its tenant does not."""
    await tenant_info(store, namespace.partition("/")[0])
    try:
        await store.create(policies_path(namespace), json.dumps(policies).encode())
    except NodeExistsError:
        raise BrokerError(
            ServerError.NotAllowedError, f"the namespace {namespace} exists"
        ) from None


async def delete_namespace(store: MetadataStore, namespace: str) -> None:
    """Delete an empty namespace.  Raises `BrokerError` if it does not exist, or has topics."""
    _, version = await stored_policies(store, namespace)
    if version is None:
        raise BrokerError(ServerError.TopicNotFound, f"the namespace {namespace} does not exist")
    # Marked first, so that no topic is created meanwhile; a deletion that ended here is repeated.
    await _mark_deleted(store, namespace, deleted=True)
    try:
        for root in _TOPICS:
            await _delete_empty(store, f"{root}/{namespace}/persistent")
            await _delete_empty(store, f"{root}/{namespace}")
    except NotEmptyError:
        await _mark_deleted(store, namespace, deleted=False)
        raise BrokerError(
            ServerError.NotAllowedError,
            f"the namespace {namespace} has topics; delete them first",
        ) from None
    await _delete_empty(store, f"/admin/local-policies/{namespace}")
    await _delete_empty(store, policies_path(namespace))


async def _mark_deleted(store: MetadataStore, namespace: str, *, deleted: bool) -> None:
    while True:
        policies, version = await stored_policies(store, namespace)
        if version is None:
            return
        data = json.dumps({**policies, "deleted": deleted}).encode()
        with suppress(BadVersionError, NoNodeError):
            await store.set(policies_path(namespace), data, version)
            return


async def _delete_empty(store: MetadataStore, path: str) -> None:
    with suppress(NoNodeError):
        await store.delete(path)


async def _children(store: MetadataStore, path: str) -> list[str]:
    try:
        return await store.children(path)
    except NoNodeError:
        return []


def _no_tenant(tenant: str) -> BrokerError:
    return BrokerError(ServerError.TopicNotFound, f"the tenant {tenant} does not exist")
