"""Where a cluster's metadata are, as BookKeeper's configuration names the place."""

import pytest

from labkit.system.metadata.cluster import init_cluster, read_layout
from labkit.system.metadata.ledger_layout import (
    FLAT,
    HIERARCHICAL,
    LONG_HIERARCHICAL,
    ForeignLayoutError,
)
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.place import MetadataPlace, parse_place, place_of_servers
from labkit.system.metadata.registration import all_bookies, register_bookie, writable_bookies
from labkit.system.model.errors import BKIncorrectParameterException
from tests.system.client.memory_store import MemoryStore


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("h:2181", MetadataPlace("h:2181")),
        ("h1:2181,h2:2181/pulsar/a", MetadataPlace("h1:2181,h2:2181", "/pulsar/a")),
        ("[::1]:2181", MetadataPlace("[::1]:2181")),
        ("zk://h/ledgers", MetadataPlace("h")),
        ("zk+null://h:2181/ledgers/", MetadataPlace("h:2181")),
        ("ZK+Null://h:2181/l", MetadataPlace("h:2181", "", "/l")),
        ("zk+flat://h1:1;h2:2/a/b", MetadataPlace("h1:1,h2:2", "/a", "/b", FLAT)),
        ("zk+hierarchical://h/ledgers", MetadataPlace("h", layout=HIERARCHICAL)),
        ("zk+longhierarchical://h/ledgers", MetadataPlace("h", layout=LONG_HIERARCHICAL)),
    ],
)
def test_a_place_is_read_as_bookkeeper_reads_it(text: str, place: MetadataPlace) -> None:
    assert parse_place(text) == place
    assert parse_place(str(place)) == place


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("etcd://h:2379/ledgers", "in ZooKeeper alone, not in another store"),
        ("etcd+hierarchical:http://h:2379/scope", "in ZooKeeper alone"),
        ("etcd:h:2379", "in ZooKeeper alone"),
        ("metadata-store:zk:h:2181/ledgers", "not through metadata-store"),
        ("oxia://h:6648/default", "in ZooKeeper alone"),
        ("zk+ms://h:2181/ledgers", "ledger manager 'ms'; labkit has flat, hierarchical"),
        ("zk+legacyhierarchical://h:2181/ledgers", "and null for the one that the cluster has"),
        ("zk+://h:2181/ledgers", "ledger manager ''"),
        ("zk://h:2181", "names no root path for the ledgers; write zk://h:2181/ledgers"),
        ("zk+null://h:2181/", "names no root path"),
        ("zk+null:///ledgers", "not a ZooKeeper address; write host:port"),
        ("", "not a ZooKeeper address"),
        ("h:port", "not a ZooKeeper address"),
        ("h 1:2181", "not a ZooKeeper address"),
        ("h:2181/a/../b", "not a path of ZooKeeper's"),
        ("h:2181//a", "not a path of ZooKeeper's"),
    ],
)
def test_a_uri_that_is_not_a_place_in_zookeeper_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match=reason):
        parse_place(text)


def test_the_older_keys_name_the_same_places() -> None:
    assert place_of_servers("h1:1,h2:2", "/ledgers") == MetadataPlace("h1:1,h2:2")
    assert place_of_servers("h:1/a", "/b/c", FLAT) == MetadataPlace("h:1", "/a/b", "/c", FLAT)


async def test_clusters_with_other_roots_see_nothing_of_each_other() -> None:
    one, two = MemoryStore(), MemoryStore()
    two.tree, two.place = one.tree, MetadataPlace("memory", "", "/second")
    first, second = await init_cluster(one, "1"), await init_cluster(two, "2")
    assert (first, second) == ("1", "2")
    await register_bookie(one, "b1", [])
    await one.create(f"{one.place.cookies}/b1", b"")
    assert (await writable_bookies(one), await writable_bookies(two)) == (["b1"], [])
    assert (await all_bookies(one), await all_bookies(two)) == (["b1"], [])
    ids = [await LedgerManager(store).new_ledger_id() for store in (one, two, one, two)]
    assert ids == [0, 0, 1, 1]


async def test_a_cluster_is_made_with_the_layout_of_its_place_and_then_keeps_it() -> None:
    store = MemoryStore()
    store.place = MetadataPlace("memory", layout=FLAT)
    with pytest.raises(ForeignLayoutError, match="layout hierarchical is asked for, and not"):
        await init_cluster(store, "1", HIERARCHICAL)
    await init_cluster(store, "1")
    assert await read_layout(store) == FLAT
    store.place = MetadataPlace("memory", layout=HIERARCHICAL)
    with pytest.raises(ForeignLayoutError, match=r"the cluster's layout is flat, and zk\+hier"):
        await LedgerManager(store).ids()
    store.place = MetadataPlace("memory")
    assert await LedgerManager(store).layout() == FLAT
