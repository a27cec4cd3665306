"""The HTTP paths for creating, listing and deleting namespaces, and for managing their topics and
bundles.

In Pulsar: `broker/admin/v2/Namespaces.java`, `NonPersistentTopics.java`.
"""

from http import HTTPStatus

from labkit.system.broker.namespaces import partitioned_topics_of, topics_of
from labkit.system.broker.ownership import BUNDLE_BOUNDARIES, BUNDLE_RANGES, NamespaceBundle
from labkit.system.broker.policies import check_namespace_exists, namespace_policies
from labkit.system.broker.tenants import (
    create_namespace,
    delete_namespace,
    namespaces,
    new_policies,
)
from labkit.worlds.live.admin.call import (
    NAMESPACE,
    BadRequestError,
    Call,
    RedirectError,
    Routes,
    StatusError,
    not_supported,
)
from labkit.worlds.live.admin.partitions import forward
from labkit.worlds.live.admin.policies import POLICY_ROUTES, policies_of


async def _policies(call: Call) -> object:
    found = await namespace_policies(call.broker.store, call.namespace)
    return {**new_policies(call.broker.cluster), **found}


async def _create(call: Call) -> None:
    body = call.body or {}
    if not isinstance(body, dict):
        raise BadRequestError(
            'the body must be an object with policies, such as {"message_ttl_in_seconds": 60}'
        )
    _check_clusters(call, body.get("replication_clusters") or [])
    _check_clusters(call, body.get("allowed_clusters") or [])
    bundles = body.get("bundles") or {}
    wanted = bundles.get("numBundles") if isinstance(bundles, dict) else bundles
    boundaries = bundles.get("boundaries") if isinstance(bundles, dict) else None
    if wanted not in (None, 0, len(BUNDLE_RANGES)) or (
        boundaries and boundaries != BUNDLE_BOUNDARIES
    ):
        raise not_supported(
            f"a namespace without exactly {len(BUNDLE_RANGES)} bundles of equal size"
        )
    await create_namespace(
        call.broker.store, call.namespace, policies_of(body, call.broker.cluster)
    )


def _check_clusters(call: Call, clusters: object) -> None:
    """Raise `StatusError` if the request names another cluster, because that would require
    replication.
    """
    mine = call.broker.cluster
    if not isinstance(clusters, list):
        raise BadRequestError(f'the clusters must be a list, such as ["{mine}"]')
    if others := sorted({str(name) for name in clusters} - {mine}):
        raise StatusError(
            HTTPStatus.FORBIDDEN,
            f"cannot replicate to {', '.join(others)}: labkit does not support geo-replication, and"
            f" this cluster is {mine}",
        )


async def _delete(call: Call) -> None:
    if call.query_flag("force"):
        raise StatusError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "namespaces cannot be force-deleted; delete the topics first",
        )
    await delete_namespace(call.broker.store, call.namespace)


async def _replication(call: Call) -> object:
    await check_namespace_exists(call.broker.store, call.namespace)
    return [call.broker.cluster]


async def _set_replication(call: Call) -> None:
    await check_namespace_exists(call.broker.store, call.namespace)
    _check_clusters(call, call.body)


# Topics


async def _topics(call: Call) -> object:
    await check_namespace_exists(call.broker.store, call.namespace)
    if call.options.get("mode") == "NON_PERSISTENT":
        return []
    return await topics_of(call.broker.store, call.namespace)


async def _partitioned_topics(call: Call) -> object:
    await check_namespace_exists(call.broker.store, call.namespace)
    return await partitioned_topics_of(call.broker.store, call.namespace)


async def _no_topics(call: Call) -> object:
    """Return no non-persistent topics, because labkit does not support them."""
    await check_namespace_exists(call.broker.store, call.namespace)
    return []


# Bundles


async def _bundles(call: Call) -> object:
    policies = await namespace_policies(call.broker.store, call.namespace)
    return policies.get("bundles", new_policies("")["bundles"])


async def _unload(call: Call) -> None:
    """Forward an unload request for each bundle to the bundle's owner."""
    await check_namespace_exists(call.broker.store, call.namespace)
    for bundle in BUNDLE_RANGES:
        await forward(call, f"{call.path.removesuffix('unload')}{bundle}/unload", "PUT")


async def _unload_bundle(call: Call) -> None:
    await check_namespace_exists(call.broker.store, call.namespace)
    if call.names[2] not in BUNDLE_RANGES:
        raise StatusError(
            HTTPStatus.PRECONDITION_FAILED,
            f"{call.names[2]} is not a bundle of {call.namespace}; expected one of"
            f" {', '.join(BUNDLE_RANGES)}",
        )
    lower, upper = (int(bound, 16) for bound in call.names[2].split("_"))
    bundle = NamespaceBundle(call.namespace, lower, upper)
    owner = await call.broker.ownership.owner_of(bundle)
    if owner is None:
        return
    if owner.broker_id != call.broker.address.broker_id:
        raise RedirectError(owner.web_url)
    await call.broker.unload_bundle(bundle)


CLIENT_NAMESPACE_REQUESTS = (_topics,)
"""Requests that a client sends before it starts to consume."""

_NAMESPACES = f"/admin/v2/namespaces/{NAMESPACE}"

NAMESPACE_ROUTES: Routes = {
    **POLICY_ROUTES,
    "/admin/v2/namespaces/([^/]+)": {
        "GET": lambda call: namespaces(call.broker.store, call.names[0])
    },
    _NAMESPACES: {"GET": _policies, "PUT": _create, "DELETE": _delete},
    f"{_NAMESPACES}/replication": {"GET": _replication, "POST": _set_replication},
    f"{_NAMESPACES}/topics": {"GET": _topics},
    f"/admin/v2/persistent/{NAMESPACE}": {"GET": _topics},
    f"/admin/v2/persistent/{NAMESPACE}/partitioned": {"GET": _partitioned_topics},
    f"/admin/v2/non-persistent/{NAMESPACE}": {"GET": _no_topics},
    f"/admin/v2/non-persistent/{NAMESPACE}/partitioned": {"GET": _no_topics},
    f"{_NAMESPACES}/bundles": {"GET": _bundles},
    f"{_NAMESPACES}/unload": {"PUT": _unload},
    f"{_NAMESPACES}/(0x[0-9a-f]+_0x[0-9a-f]+)/unload": {"PUT": _unload_bundle},
}
