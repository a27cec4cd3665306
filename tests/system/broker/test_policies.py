"""Tests for namespace policies, which other programs may have stored."""

import asyncio
import json
from typing import Any

import pytest

from labkit.system.broker import broker as broker_module
from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.errors import BrokerError
from labkit.system.broker.policies import (
    NamespacePolicies,
    TopicPolicies,
    policies_path,
    read_namespace_policies,
    read_topic_policies,
)
from labkit.system.broker.protocol.authorization import PRODUCE, Authorization
from labkit.system.metadata.store import ANY_VERSION
from labkit.system.model.errors import BKMetadataSerializationException
from labkit.system.topic.config import UNLIMITED, ManagedLedgerConfig
from tests.system.broker.held import FrameClient, held_broker
from tests.system.client.memory_store import MemoryStore
from tests.until import until

DEFAULTS = BrokerConfig(
    broker_deduplication_enabled=True,
    ttl_duration_default_s=5,
    managed_ledger=ManagedLedgerConfig(),
)
INVALID: list[dict[str, Any]] = [
    {"deduplicationEnabled": "yes"},
    {"message_ttl_in_seconds": "60"},
    {"message_ttl_in_seconds": True},
    {"message_ttl_in_seconds": -1},
    {"retention_policies": 60},
    {"retention_policies": {"retentionTimeInMinutes": "60", "retentionSizeInMB": 1}},
    {"is_allow_auto_update_schema": 1},
    {"schema_compatibility_strategy": ["FULL"]},
    {"auth_policies": []},
    {"auth_policies": {"namespace_auth": {"alice": "produce"}}},
    {"auth_policies": {"destination_auth": {"topic": []}}},
    {"auth_policies": {"subscription_auth_roles": {"sub": [1]}}},
]


def store_with(policies: dict[str, Any]) -> Any:
    store = MemoryStore()
    store.tree.create(policies_path("t/n"), json.dumps(policies).encode(), 0, False)
    return store


@pytest.mark.parametrize("stored", INVALID, ids=str)
async def test_a_value_of_the_wrong_type_is_reported_by_its_key(stored: dict[str, Any]) -> None:
    store = store_with(stored)
    [key] = stored
    with pytest.raises(BKMetadataSerializationException, match=rf"{key}.* policies of t/n is "):
        await read_topic_policies(store, "t/n", DEFAULTS)
    with pytest.raises(BKMetadataSerializationException):
        await read_namespace_policies(store, "t/n")
    with pytest.raises(BKMetadataSerializationException):
        await Authorization(store, ()).check_namespace("alice", "t/n", PRODUCE)


async def test_a_missing_number_of_the_retention_is_0_as_in_java() -> None:
    store = store_with({"retention_policies": {"retentionTimeInMinutes": -1}})
    policies = await read_topic_policies(store, "t/n", DEFAULTS)
    retention = policies.managed_ledger
    assert (retention.retention_time_ms, retention.retention_size_bytes) == (UNLIMITED, 0)


async def test_null_stands_for_a_policy_that_is_not_set() -> None:
    nothing = NamespacePolicies.decode("t/n", {})
    keys = [key for stored in INVALID for key in stored]
    assert NamespacePolicies.decode("t/n", dict.fromkeys(keys)) == nothing
    store = store_with(dict.fromkeys(keys))
    defaults = TopicPolicies(True, 5000, ManagedLedgerConfig())
    assert await read_topic_policies(store, "t/n", DEFAULTS) == defaults
    await store.set(policies_path("t"), b'{"adminRoles": null}', ANY_VERSION)
    with pytest.raises(BrokerError, match="not permitted"):
        await Authorization(store, ()).check_admin("alice", "t")


@pytest.mark.parametrize("stored", INVALID, ids=str)
async def test_invalid_policies_leave_an_open_topic_as_it_is(
    monkeypatch: pytest.MonkeyPatch, stored: dict[str, Any]
) -> None:
    monkeypatch.setattr(broker_module, "_POLICIES_INTERVAL_S", 0.001)
    broker = held_broker()
    await (await FrameClient(broker).connect()).produce()
    [topic] = broker.topics
    before = topic.policies
    reloading = asyncio.create_task(broker.reload_policies())
    data = json.dumps(stored).encode()
    await broker.store.set(policies_path("public/default"), data, ANY_VERSION)
    store: Any = broker.store
    count = store.get_count
    await until(lambda: store.get_count > count + 2)
    assert not reloading.done()
    assert topic.policies == before
    reloading.cancel()
