"""The HTTP API for tenants, namespaces and policies uses Pulsar's paths, JSON and status codes."""

import json
from typing import Any

import pytest

from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.policies import policies_path
from labkit.system.broker.protocol.authentication import Identity
from labkit.system.broker.protocol.authorization import Authorization
from labkit.system.broker.tenants import CLUSTERS
from labkit.system.metadata.store import ANY_VERSION, NodeExistsError
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.topic.names import managed_ledger_path, partitions_path
from tests.system.broker.held import held_broker
from tests.worlds.live.admin_site import Site

TENANTS = "/admin/v2/tenants"
NAMESPACES = "/admin/v2/namespaces"
HERE = {"adminRoles": ["alice"], "allowedClusters": ["standalone"]}
BUNDLES = {
    "boundaries": ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"],
    "numBundles": 4,
}


async def stored(site: Site, path: str) -> Any:
    return json.loads((await site.broker.store.get(path))[0])


async def test_a_tenant_is_created_changed_and_deleted(site: Site) -> None:
    path = f"{TENANTS}/sales"
    assert await site.json("PUT", path, HERE) == (204, None)
    assert (await site.json("PUT", path, HERE))[0] == 409
    assert await site.json("GET", path) == (200, HERE)
    assert await site.json("GET", TENANTS) == (200, ["public", "sales", "t"])
    assert await site.json("POST", path, {**HERE, "adminRoles": []}) == (204, None)
    assert await stored(site, policies_path("sales")) == {**HERE, "adminRoles": []}
    assert (await site.json("PUT", f"{NAMESPACES}/sales/eu"))[0] == 204
    assert (await site.json("DELETE", path))[0] == 409
    assert (await site.json("DELETE", f"{NAMESPACES}/sales/eu"))[0] == 204
    assert await site.json("DELETE", path) == (204, None)
    for method, body in (("GET", None), ("POST", HERE), ("DELETE", None)):
        assert (await site.json(method, path, body))[0] == 404


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("a%20b", HERE, 412),
        ("sales", {"allowedClusters": []}, 412),
        ("sales", {"allowedClusters": ["nowhere"]}, 412),
        ("sales", {"adminRoles": [" alice"], "allowedClusters": ["standalone"]}, 412),
        ("sales", {"adminRoles": "alice", "allowedClusters": ["standalone"]}, 400),
        ("sales", None, 412),
    ],
)
async def test_a_tenant_that_pulsar_refuses_is_refused(
    site: Site, name: str, body: Any, status: int
) -> None:
    assert (await site.json("PUT", f"{TENANTS}/{name}", body))[0] == status


async def test_a_namespace_is_stored_as_pulsar_stores_it(site: Site) -> None:
    path = f"{NAMESPACES}/t/new"
    given = {"bundles": {"numBundles": 4}, "replication_clusters": ["standalone"], "deleted": False}
    retention = {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}
    body = {**given, "message_ttl_in_seconds": 60, "retention_policies": retention}
    assert await site.json("PUT", path, body) == (204, None)
    assert (await site.json("PUT", path, body))[0] == 409
    policies = await stored(site, policies_path("t/new"))
    assert policies == {
        "auth_policies": {
            "namespace_auth": {},
            "destination_auth": {},
            "subscription_auth_roles": {},
        },
        "replication_clusters": ["standalone"],
        "bundles": BUNDLES,
        "message_ttl_in_seconds": 60,
        "retention_policies": retention,
    }
    assert await site.json("GET", path) == (200, policies)
    assert await site.json("GET", f"{path}/bundles") == (200, BUNDLES)
    assert await site.json("GET", f"{path}/replication") == (200, ["standalone"])
    assert await site.json("GET", f"{NAMESPACES}/t") == (200, ["t/n", "t/new"])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("none/ns", None, 404),
        ("t/new", {"replication_clusters": ["standalone", "far"]}, 403),
        ("t/new", {"bundles": {"numBundles": 16}}, 501),
        ("t/new", {"max_producers_per_topic": 5}, 501),
        (
            "t/new",
            {"retention_policies": {"retentionTimeInMinutes": 1, "retentionSizeInMB": 0}},
            400,
        ),
        ("t/new", {"message_ttl_in_seconds": -1}, 412),
        ("t/new", [1], 400),
    ],
)
async def test_a_namespace_that_cannot_be_as_wanted_is_not_created(
    site: Site, path: str, body: Any, status: int
) -> None:
    assert (await site.json("PUT", f"{NAMESPACES}/{path}", body))[0] == status
    assert not await site.broker.store.exists(policies_path(path))


async def test_a_namespace_with_topics_is_not_deleted(site: Site) -> None:
    store, topic = site.broker.store, "persistent://t/n/x"
    for path in (managed_ledger_path(topic), partitions_path(topic)):
        await store.create(path, b"")
        assert (await site.json("DELETE", f"{NAMESPACES}/t/n"))[0] == 409
        # The namespace is still in use.
        assert (await site.json("GET", f"{NAMESPACES}/t/n"))[0] == 200
        await store.delete(path)
    assert await site.json("DELETE", f"{NAMESPACES}/t/n") == (204, None)
    assert (await site.json("DELETE", f"{NAMESPACES}/t/n"))[0] == 404


async def test_a_deletion_that_was_interrupted_is_finished_by_the_next_one(site: Site) -> None:
    path = policies_path("t/n")
    await site.broker.store.set(path, b'{"deleted": true}', ANY_VERSION)
    assert (await site.json("GET", f"{NAMESPACES}/t/n/retention"))[0] == 404
    assert (await site.json("PUT", "/admin/v2/persistent/t/n/x/partitions", 2))[0] == 404
    assert await site.json("DELETE", f"{NAMESPACES}/t/n") == (204, None)
    assert not await site.broker.store.exists(path)


@pytest.mark.parametrize("kind", ["persistent", "non-persistent"])
@pytest.mark.parametrize("what", ["", "/partitioned"])
async def test_topics_are_listed_and_there_are_none_that_are_not_stored(
    site: Site, kind: str, what: str
) -> None:
    topic = "persistent://t/n/x"
    await site.broker.store.create(managed_ledger_path(topic), b"")
    await site.broker.store.create(partitions_path(topic), b"")
    listed = [topic] if kind == "persistent" else []
    assert await site.json("GET", f"/admin/v2/{kind}/t/n{what}") == (200, listed)
    assert (await site.json("GET", f"/admin/v2/{kind}/t/none{what}"))[0] == 404


@pytest.mark.parametrize("namespace", ["t/none", "none/n"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "persistent/{}/x", None),
        ("PUT", "persistent/{}/x-partition-1", None),
        ("PUT", "persistent/{}/x/partitions", 2),
        ("GET", "persistent/{}/x/partitions?checkAllowAutoCreation=true", None),
        ("GET", "persistent/{}/x-partition-1/partitions?checkAllowAutoCreation=true", None),
        ("GET", "/lookup/v2/topic/persistent/{}/x", None),
        ("PUT", "persistent/{}/x/subscription/sub", "latest"),
        ("POST", "schemas/{}/x/schema", {"type": "STRING", "schema": ""}),
        ("DELETE", "schemas/{}/x/schema", None),
        ("POST", "schemas/{}/x/compatibility", {"type": "STRING", "schema": ""}),
        ("GET", "schemas/{}/x/schemas", None),
        ("GET", "namespaces/{}/topics", None),
        ("GET", "namespaces/{}", None),
        ("GET", "namespaces/{}/messageTTL", None),
        ("POST", "namespaces/{}/messageTTL", 60),
        ("PUT", "namespaces/{}/unload", None),
    ],
)
async def test_nothing_is_created_in_an_unknown_namespace(
    site: Site, namespace: str, method: str, path: str, body: Any
) -> None:
    store = site.broker.store
    path = path.format(namespace) if path[0] == "/" else f"/admin/v2/{path.format(namespace)}"
    status, answer = await site.json(method, path, body)
    if "x-partition-1/partitions" not in path:
        assert status == 404
    assert "does not exist" in answer["reason"]
    for root in ("managed-ledgers", "admin/partitioned-topics", "admin/policies", "schemas"):
        assert not await store.exists(f"/{root}/{namespace}")
    assert not await store.exists(f"/namespace/{namespace}")


REFUSED = ((60, 0), (0, 100), (-1, 0), (0, -1), (-2, 5), (5, -2), ("1", 1), (None, 1))
STORED = ((0, 0), (60, 100), (-1, -1), (-1, 100), (60, -1))


@pytest.mark.parametrize(("time", "size"), [*REFUSED, *STORED])
async def test_a_retention_is_stored_if_pulsar_accepts_it(
    site: Site, time: object, size: object
) -> None:
    path = f"{NAMESPACES}/t/n/retention"
    body = {"retentionTimeInMinutes": time, "retentionSizeInMB": size}
    is_stored = (time, size) in STORED
    assert (await site.json("POST", path, body))[0] == (204 if is_stored else 400)
    assert await site.json("GET", path) == ((200, body) if is_stored else (204, None))
    policies = await stored(site, policies_path("t/n"))
    assert policies.get("retention_policies") == (body if is_stored else None)


async def test_the_message_ttl_is_stored_where_pulsar_reads_it(site: Site) -> None:
    path = f"{NAMESPACES}/t/n/messageTTL"
    for body, status in ((-1, 412), ("60", 400), (True, 400), (None, 400)):
        assert (await site.json("POST", path, body))[0] == status
    assert await site.json("POST", path, 60) == (204, None)
    assert (await stored(site, policies_path("t/n")))["message_ttl_in_seconds"] == 60
    assert await site.json("DELETE", path) == (204, None)
    assert await site.json("GET", path) == (204, None)


async def test_a_policy_without_effect_here_is_read_and_removed_but_not_set(site: Site) -> None:
    path = f"{NAMESPACES}/t/n/maxProducersPerTopic"
    status, answer = await site.json("POST", path, 5)
    assert (status, "not supported here" in answer["reason"]) == (501, True)
    assert await site.json("GET", path) == (204, None)
    # Store the policy as one of Pulsar's brokers would.
    await site.broker.store.set(
        policies_path("t/n"), b'{"max_producers_per_topic": 5}', ANY_VERSION
    )
    assert await site.json("GET", path) == (200, 5)
    assert await site.json("DELETE", path) == (204, None)
    assert await stored(site, policies_path("t/n")) == {}


async def test_replication_to_another_cluster_is_refused_by_name(site: Site) -> None:
    path = f"{NAMESPACES}/t/n/replication"
    assert await site.json("POST", path, ["standalone"]) == (204, None)
    status, answer = await site.json("POST", path, ["standalone", "far"])
    assert (status, "far" in answer["reason"]) == (403, True)


@pytest.mark.parametrize("before", [None, b'{"auth_policies": {"subscription_auth_roles": null}}'])
async def test_permissions_on_subscriptions_are_stored(site: Site, before: bytes | None) -> None:
    if before is not None:
        await site.broker.store.set(policies_path("t/n"), before, ANY_VERSION)
    path = f"{NAMESPACES}/t/n/permissions/subscription"
    assert await site.json("POST", f"{path}/sub", ["alice"]) == (204, None)
    assert await site.json("GET", path) == (200, {"sub": ["alice"]})
    assert (await site.json("POST", f"{path}/sub", "alice"))[0] == 400


@pytest.mark.parametrize(
    "auth", ["text", {"subscription_auth_roles": ["sub"]}, {"subscription_auth_roles": {"sub": 1}}]
)
async def test_permissions_that_cannot_be_decoded_are_not_changed(site: Site, auth: object) -> None:
    before = {"auth_policies": auth}
    await site.broker.store.set(policies_path("t/n"), json.dumps(before).encode(), ANY_VERSION)
    path = f"{NAMESPACES}/t/n/permissions/subscription"
    for method, url, body in (("GET", path, None), ("POST", f"{path}/sub", ["alice"])):
        status, answer = await site.json(method, url, body)
        assert (status, "auth_policies in the policies of t/n" in answer["reason"]) == (503, True)
    assert await stored(site, policies_path("t/n")) == before


async def test_the_cluster_its_brokers_and_bookies_are_listed(site: Site) -> None:
    assert await site.json("GET", "/admin/v2/clusters") == (200, ["standalone"])
    _, data = await site.json("GET", "/admin/v2/clusters/standalone")
    assert data["brokerServiceUrl"] == "pulsar://127.0.0.1:6650"
    assert (await site.json("GET", "/admin/v2/clusters/nowhere"))[0] == 404
    assert (await site.ask("GET", "/admin/v2/brokers/version"))[2].startswith("labkit")
    assert await site.json("GET", "/admin/v2/bookies/all") == (200, {"bookies": []})
    await site.json("GET", "/lookup/v2/topic/persistent/t/n/x?authoritative=true")
    owned = "/admin/v2/brokers/standalone/127.0.0.1:8080/ownedNamespaces"
    [bundle] = (await site.json("GET", owned))[1]
    assert bundle.startswith("t/n/0x")
    assert (await site.json("GET", owned.replace("8080", "1")))[0] == 404


async def test_only_a_superuser_manages_tenants_and_clusters(site: Site) -> None:
    site.broker.authenticate = lambda _, data: Identity(data.decode(), None)
    site.broker.authorization = Authorization(site.broker.store, ["root"])
    await site.json("PUT", f"{TENANTS}/standalone", HERE, Authorization="Bearer root")
    for method, path in (
        ("GET", f"{TENANTS}/standalone"),
        ("DELETE", f"{TENANTS}/standalone"),
        ("GET", TENANTS),
        # Here, the tenant has the same name as the cluster.
        ("GET", "/admin/v2/clusters/standalone"),
        ("GET", "/admin/v2/brokers/standalone"),
    ):
        assert (await site.json(method, path, Authorization="Bearer alice"))[0] == 403
    path = f"{NAMESPACES}/standalone/ns"
    assert (await site.json("PUT", path, Authorization="Bearer bob"))[0] == 403
    assert (await site.json("PUT", path, Authorization="Bearer alice"))[0] == 204


async def test_topics_created_without_a_broker_get_their_tenants_and_namespaces() -> None:
    broker = held_broker()
    store, topic = broker.store, "persistent://old/ns/topic"
    await store.create(managed_ledger_path(topic), b"")
    await store.create(partitions_path("persistent://other/ns/topic"), b'{"partitions": 1}')
    await store.create(policies_path("kept"), b'{"adminRoles": ["alice"]}')
    await store.create(policies_path("kept/ns"), b'{"deduplicationEnabled": true}')
    await broker.start()
    for namespace in ("old/ns", "other/ns", "kept/ns", "public/default"):
        policies = json.loads((await store.get(policies_path(namespace)))[0])
        assert (policies["replication_clusters"], policies["bundles"]) == (["standalone"], BUNDLES)
    assert policies.get("deduplicationEnabled") is None
    kept = json.loads((await store.get(policies_path("kept/ns")))[0])
    assert kept["deduplicationEnabled"] is True
    tenant = json.loads((await store.get(policies_path("kept")))[0])
    assert tenant == {"adminRoles": ["alice"], "allowedClusters": ["standalone"]}


async def test_a_broker_takes_the_name_of_the_cluster_that_it_finds() -> None:
    broker = held_broker()
    await broker.store.create(f"{CLUSTERS}/far", b"{}")
    await broker.start()
    assert broker.cluster == "far"
    with pytest.raises(NodeExistsError):
        await broker.store.create(f"{CLUSTERS}/far", b"{}")


@pytest.mark.parametrize("wanted", ["", "mine"])
async def test_a_broker_whose_cluster_is_none_of_several_does_not_start(wanted: str) -> None:
    broker = held_broker(BrokerConfig(cluster_name=wanted))
    for name in ("far", "near"):
        await broker.store.create(f"{CLUSTERS}/{name}", b"{}")
    with pytest.raises(BKIncorrectParameterException, match=r"must be one of .*: far, near"):
        await broker.start()
