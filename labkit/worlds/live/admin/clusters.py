"""The HTTP paths for clusters, tenants, brokers and bookies, which only superusers may use.

In Pulsar: `broker/admin/v2/Clusters.java`, `Tenants.java`, `Brokers.java`, `Bookies.java`.
"""

from http import HTTPStatus

from labkit import __version__
from labkit.system.broker.errors import BrokerError
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
    PlainText,
    RedirectError,
    Routes,
    StatusError,
)

# Clusters


async def _peers(call: Call) -> None:
    """Return no peer clusters, because geo-replication is not supported."""
    await cluster_data(call.broker.store, call.names[0])


async def _failure_domains(call: Call) -> object:
    await cluster_data(call.broker.store, call.names[0])
    return {}


# Tenants


async def _create_tenant(call: Call) -> None:
    check_namespace(f"{call.names[0]}/default")
    await create_tenant(call.broker.store, call.names[0], await _tenant_info(call))


async def _update_tenant(call: Call) -> None:
    await update_tenant(call.broker.store, call.names[0], await _tenant_info(call))


async def _tenant_info(call: Call) -> TenantInfo:
    body = call.body if isinstance(call.body, dict) else {}
    roles, allowed = body.get("adminRoles") or [], body.get("allowedClusters")
    if not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in (roles, allowed or [])
    ):
        raise BadRequestError(
            'the body must look like {"adminRoles": ["alice"], "allowedClusters": ["..."]}'
        )
    existing = await clusters(call.broker.store)
    if not allowed or not set(allowed) <= set(existing):
        raise StatusError(
            HTTPStatus.PRECONDITION_FAILED,
            f"allowedClusters is {allowed}; expected at least one of {', '.join(existing)}",
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
    """Check that enough bookies are writable for a new ledger.

    The response is a plain `ok`, as Pulsar's tools expect.
    """
    needed = call.broker.config.managed_ledger.ensemble_size
    writable = len(await call.broker.client.writable_bookies())
    if writable < needed:
        raise BrokerError(
            ServerError.ServiceNotReady,
            f"only {writable} bookies accept writes, but a ledger needs {needed}"
            " (managedLedgerDefaultEnsembleSize)",
        )
    return PlainText("ok")


async def _owned_namespaces(call: Call) -> object:
    """Return this broker's bundles in Pulsar's format, or redirect to the broker in the path."""
    address = call.broker.address
    if call.names[1] != address.broker_id:
        for other in await call.broker.ownership.brokers():
            if other.broker_id == call.names[1]:
                raise RedirectError(other.web_url)
        raise BrokerError(ServerError.TopicNotFound, f"broker {call.names[1]} does not exist")
    owned = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    return {str(bundle): owned for bundle in call.broker.ownership.owned}


async def _bookies(call: Call) -> object:
    names = await call.broker.client.writable_bookies()
    return {"bookies": [{"bookieId": name} for name in sorted(names)]}


_OTHER_REQUESTS = (
    "backlog-quota-check|configuration|health|internal-configuration|leaderBroker|ready|shutdown"
    "|version"
)
"""Path segments after `/brokers/` that are not cluster names."""

CLUSTER_ROUTES: Routes = {
    "/admin/v2/clusters": {"GET": lambda call: clusters(call.broker.store)},
    "/admin/v2/clusters/([^/]+)": {
        "GET": lambda call: cluster_data(call.broker.store, call.names[0])
    },
    "/admin/v2/clusters/([^/]+)/peers": {"GET": _peers},
    "/admin/v2/clusters/([^/]+)/failureDomains": {"GET": _failure_domains},
    "/admin/v2/tenants": {"GET": lambda call: tenants(call.broker.store)},
    "/admin/v2/tenants/([^/]+)": {
        "GET": lambda call: tenant_info(call.broker.store, call.names[0]),
        "PUT": _create_tenant,
        "POST": _update_tenant,
        "DELETE": lambda call: delete_tenant(call.broker.store, call.names[0]),
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
