"""The HTTP paths for clusters, tenants, brokers and bookies, all for superusers only.

In Pulsar: `broker/admin/v2/Clusters.java`, `Tenants.java`, `Brokers.java`, `Bookies.java`.
"""

from http import HTTPStatus

from labkit import __version__
from labkit.system.broker.errors import BrokerError, refused_names
from labkit.system.broker.tenants import (
    TenantInfo,
    cluster_data,
    clusters,
    create_tenant,
    delete_tenant,
    new_tenant,
    tenant_info,
    tenants,
    update_tenant,
)
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.names import check_namespace
from labkit.worlds.live.admin.call import (
    BadRequestError,
    Call,
    ElsewhereError,
    PlainText,
    Routes,
    StatusError,
)

# Clusters


async def _clusters(call: Call) -> object:
    return await clusters(call.broker.store)


async def _cluster(call: Call) -> object:
    return await cluster_data(call.broker.store, call.names[0])


async def _peers(call: Call) -> None:
    """Answer that the cluster has no peers, as geo-replication is not supported."""
    await cluster_data(call.broker.store, call.names[0])


async def _failure_domains(call: Call) -> object:
    await cluster_data(call.broker.store, call.names[0])
    return {}


# Tenants


async def _tenants(call: Call) -> object:
    return await tenants(call.broker.store)


async def _tenant(call: Call) -> object:
    return await tenant_info(call.broker.store, call.names[0])


async def _create_tenant(call: Call) -> None:
    await create_tenant(call.broker.store, _tenant_name(call), await _tenant_info(call))


async def _update_tenant(call: Call) -> None:
    await update_tenant(call.broker.store, call.names[0], await _tenant_info(call))


async def _delete_tenant(call: Call) -> None:
    await delete_tenant(call.broker.store, call.names[0])


def _tenant_name(call: Call) -> str:
    with refused_names():
        check_namespace(f"{call.names[0]}/default")
    return call.names[0]


async def _tenant_info(call: Call) -> TenantInfo:
    body = call.body if isinstance(call.body, dict) else {}
    roles, allowed = body.get("adminRoles") or [], body.get("allowedClusters")
    if not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in (roles, allowed or [])
    ):
        raise BadRequestError('the body is {"adminRoles": ["alice"], "allowedClusters": ["..."]}')
    known = await clusters(call.broker.store)
    if not allowed or not set(allowed) <= set(known):
        raise StatusError(
            HTTPStatus.PRECONDITION_FAILED,
            f"allowedClusters is {allowed}; expected at least one of {', '.join(known)}",
        )
    if any(role != role.strip() for role in roles):
        raise StatusError(
            HTTPStatus.PRECONDITION_FAILED, "a role must not begin or end with a space"
        )
    return new_tenant(roles, allowed)


# Brokers and bookies


async def _brokers(call: Call) -> object:
    return [each.broker_id for each in await call.broker.ownership.brokers()]


async def _version(_: Call) -> object:
    return PlainText(f"labkit-{__version__}")


async def _ready(_: Call) -> object:
    return PlainText("ok")


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
    return PlainText("ok")


async def _owned_namespaces(call: Call) -> object:
    """The bundles of a broker, as Pulsar shows them, or a redirect to it."""
    address = call.broker.address
    if call.names[1] != address.broker_id:
        for other in await call.broker.ownership.brokers():
            if other.broker_id == call.names[1]:
                raise ElsewhereError(other.web_url)
        raise BrokerError(ServerError.TopicNotFound, f"there is no broker {call.names[1]}")
    owned = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    return {str(bundle): owned for bundle in call.broker.ownership.owned}


async def _bookies(call: Call) -> object:
    names = await call.broker.client.writable_bookies()
    return {"bookies": [{"bookieId": name} for name in sorted(names)]}


_OTHER_REQUESTS = (
    "backlog-quota-check|configuration|health|internal-configuration|leaderBroker|ready|shutdown"
    "|version"
)
"""The names in this place that are not clusters."""

CLUSTER_ROUTES: Routes = {
    "/admin/v2/clusters": {"GET": _clusters},
    "/admin/v2/clusters/([^/]+)": {"GET": _cluster},
    "/admin/v2/clusters/([^/]+)/peers": {"GET": _peers},
    "/admin/v2/clusters/([^/]+)/failureDomains": {"GET": _failure_domains},
    "/admin/v2/tenants": {"GET": _tenants},
    "/admin/v2/tenants/([^/]+)": {
        "GET": _tenant,
        "PUT": _create_tenant,
        "POST": _update_tenant,
        "DELETE": _delete_tenant,
    },
    "/admin/v2/brokers": {"GET": _brokers},
    "/admin/v2/brokers/version": {"GET": _version},
    "/admin/v2/brokers/ready": {"GET": _ready},
    "/admin/v2/brokers/health": {"GET": _health},
    f"/admin/v2/brokers/(?!(?:{_OTHER_REQUESTS})$)([^/]+)": {"GET": _brokers},
    "/admin/v2/brokers/(?!configuration/)([^/]+)/([^/]+)/ownedNamespaces": {
        "GET": _owned_namespaces
    },
    "/admin/v2/bookies/all": {"GET": _bookies},
}
