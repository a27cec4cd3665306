"""Tests for nodes that contain JSON objects and may have been damaged by other programs."""

import pytest

from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.policies import policies_path, read_topic_policies
from labkit.system.broker.tenants import CLUSTERS, cluster_data
from labkit.system.metadata.json_node import decode_json_object
from labkit.system.model.errors import BKMetadataSerializationException
from labkit.system.topic.names import partitions_path
from labkit.system.topic.partitions import read_partitioned_topic
from tests.system.client.memory_store import MemoryStore

TOPIC = "persistent://public/default/t"
DAMAGED = [b"{", b"[]", b"\xff", b"1", pytest.param(b"[" * 500_000, id="nested")]


@pytest.mark.parametrize("data", [*DAMAGED, b""])
def test_anything_but_an_object_is_reported(data: bytes) -> None:
    with pytest.raises(BKMetadataSerializationException, match="the node is not a JSON object"):
        decode_json_object(data, "the node")
    assert decode_json_object(b'{"a": 1}', "the node") == {"a": 1}


@pytest.mark.parametrize("data", DAMAGED)
async def test_damaged_policies_and_clusters_are_errors_that_a_broker_survives(data: bytes) -> None:
    store = MemoryStore()
    for path in (policies_path("public/default"), f"{CLUSTERS}/standalone"):
        store.tree.create(path, data, 0, False)
    with pytest.raises(BKMetadataSerializationException, match="znode /admin/policies/public/def"):
        await read_topic_policies(store, "public/default", BrokerConfig())
    with pytest.raises(BKMetadataSerializationException, match="znode /admin/clusters/standalone"):
        await cluster_data(store, "standalone")


@pytest.mark.parametrize("data", [*DAMAGED, b"{}", b'{"partitions": "4"}'])
async def test_damaged_record_of_a_partitioned_topic_is_reported(data: bytes) -> None:
    store = MemoryStore()
    store.tree.create(partitions_path(TOPIC), data, 0, False)
    with pytest.raises(BKMetadataSerializationException, match="the record of a partitioned topic"):
        await read_partitioned_topic(store, TOPIC)
