"""Tests for parsing the location of a cluster's metadata in BookKeeper's configuration format."""

import pytest

from labkit.system.metadata.cluster import init_cluster, read_layout
from labkit.system.metadata.ledger_layout import (
    FLAT,
    HIERARCHICAL,
    LONG_HIERARCHICAL,
    ForeignLayoutError,
)
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.location import MetadataLocation, location_of_servers, parse_location
from labkit.system.metadata.registration import all_bookies, register_bookie, writable_bookies
from labkit.system.model.errors import BKIncorrectParameterException
from tests.system.client.memory_store import MemoryStore


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("h:2181", MetadataLocation("h:2181")),
        ("h1:2181,h2:2181/pulsar/a", MetadataLocation("h1:2181,h2:2181", "/pulsar/a")),
        ("[::1]:2181", MetadataLocation("[::1]:2181")),
        ("zk://h/ledgers", MetadataLocation("h")),
        ("zk+null://h:2181/ledgers/", MetadataLocation("h:2181")),
        ("ZK+Null://h:2181/l", MetadataLocation("h:2181", "", "/l")),
        ("zk+flat://h1:1;h2:2/a/b", MetadataLocation("h1:1,h2:2", "/a", "/b", FLAT)),
        ("zk+hierarchical://h/ledgers", MetadataLocation("h", layout=HIERARCHICAL)),
        ("zk+longhierarchical://h/ledgers", MetadataLocation("h", layout=LONG_HIERARCHICAL)),
    ],
)
def test_a_location_is_parsed_as_bookkeeper_parses_it(
    text: str, location: MetadataLocation
) -> None:
    assert parse_location(text) == location
    assert parse_location(str(location)) == location


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("etcd://h:2379/ledgers", "labkit supports only ZooKeeper"),
        ("etcd+hierarchical:http://h:2379/scope", "labkit supports only ZooKeeper"),
        ("etcd:h:2379", "labkit supports only ZooKeeper"),
        ("metadata-store:zk:h:2181/ledgers", "not through metadata-store"),
        ("oxia://h:6648/default", "labkit supports only ZooKeeper"),
        (
            "zk+ms://h:2181/ledgers",
            "ledger manager 'ms' .*; valid ledger managers: flat, hierarchical",
        ),
        ("zk+legacyhierarchical://h:2181/ledgers", "or null to accept the cluster's"),
        ("zk+://h:2181/ledgers", "ledger manager ''"),
        ("zk://h:2181", "ledgers is missing from 'zk://h:2181'; use zk://h:2181/ledgers"),
        ("zk+null://h:2181/", "root path of the ledgers is missing"),
        ("zk+null:///ledgers", "not a ZooKeeper address; expected host:port"),
        ("", "not a ZooKeeper address"),
        ("h:port", "not a ZooKeeper address"),
        ("h 1:2181", "not a ZooKeeper address"),
        ("h:2181/a/../b", "not a valid ZooKeeper path"),
        ("h:2181//a", "not a valid ZooKeeper path"),
    ],
)
def test_a_uri_that_is_not_a_place_in_zookeeper_is_rejected_by_name(text: str, reason: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match=reason):
        parse_location(text)


def test_the_older_keys_name_the_same_places() -> None:
    assert location_of_servers("h1:1,h2:2", "/ledgers") == MetadataLocation("h1:1,h2:2")
    assert location_of_servers("h:1/a", "/b/c", FLAT) == MetadataLocation("h:1", "/a/b", "/c", FLAT)


@pytest.mark.promise("Two clusters below different paths of one ZooKeeper do not see each other")
async def test_clusters_with_other_roots_see_nothing_of_each_other() -> None:
    one, two = MemoryStore(), MemoryStore()
    two.tree, two.location = one.tree, MetadataLocation("memory", "", "/second")
    first, second = await init_cluster(one, "1"), await init_cluster(two, "2")
    assert (first, second) == ("1", "2")
    await register_bookie(one, "b1", [])
    await one.create(f"{one.location.cookies}/b1", b"")
    assert (await writable_bookies(one), await writable_bookies(two)) == (["b1"], [])
    assert (await all_bookies(one), await all_bookies(two)) == (["b1"], [])
    ids = [await LedgerManager(store).new_ledger_id() for store in (one, two, one, two)]
    assert ids == [0, 0, 1, 1]


async def test_a_cluster_is_made_with_the_layout_of_its_place_and_then_keeps_it() -> None:
    store = MemoryStore()
    store.location = MetadataLocation("memory", layout=FLAT)
    with pytest.raises(ForeignLayoutError, match="layout hierarchical was requested, but"):
        await init_cluster(store, "1", HIERARCHICAL)
    await init_cluster(store, "1")
    assert await read_layout(store) == FLAT
    store.location = MetadataLocation("memory", layout=HIERARCHICAL)
    with pytest.raises(ForeignLayoutError, match=r"the cluster's layout is flat, but zk\+hier"):
        await LedgerManager(store).ids()
    store.location = MetadataLocation("memory")
    assert await LedgerManager(store).layout() == FLAT
