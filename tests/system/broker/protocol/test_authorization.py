"""Tests for the permissions that the metadata store grants to each role."""

import json
from collections.abc import Awaitable
from typing import Any

import pytest

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.authorization import CONSUME, PRODUCE, Authorization
from labkit.system.model.proto.pulsar_pb2 import ServerError
from tests.system.client.memory_store import MemoryStore

TOPIC = "persistent://tenant/ns/topic"
POLICIES = {
    "auth_policies": {
        "namespace_auth": {"writer": ["produce"], "reader": ["consume"], "other": ["functions"]},
        "destination_auth": {
            TOPIC: {"of-topic": ["produce", "consume"]},
            f"{TOPIC}-partition-1": {"of-partition": ["produce"]},
        },
        "subscription_auth_roles": {"chosen": ["of-topic"], "open": []},
    }
}


@pytest.fixture
async def authorization() -> Authorization:
    store: Any = MemoryStore()
    await store.create("/admin/policies/tenant", json.dumps({"adminRoles": ["admin"]}).encode())
    await store.create("/admin/policies/tenant/ns", json.dumps(POLICIES).encode())
    await store.create("/admin/policies/bare", b"")
    return Authorization(store, ("root",))


async def is_granted(check: Awaitable[None]) -> bool:
    try:
        await check
    except BrokerError:
        return False
    return True


@pytest.mark.parametrize(
    ("role", "topic", "produces", "consumes"),
    [
        ("root", TOPIC, True, True),
        ("admin", TOPIC, True, True),
        ("writer", TOPIC, True, False),
        ("writer", f"{TOPIC}-partition-7", True, False),
        ("reader", TOPIC, False, True),
        ("other", TOPIC, False, False),
        ("nobody", TOPIC, False, False),
        ("", TOPIC, False, False),
        ("of-topic", TOPIC, True, True),
        ("of-topic", f"{TOPIC}-partition-0", True, True),
        ("of-topic", "persistent://tenant/ns/another", False, False),
        ("of-partition", f"{TOPIC}-partition-1", True, False),
        ("of-partition", f"{TOPIC}-partition-0", False, False),
        ("of-partition", TOPIC, False, False),
        ("root", "persistent://bare/ns/topic", True, True),
        ("admin", "persistent://bare/ns/topic", False, False),
        ("writer", "persistent://none/ns/topic", False, False),
    ],
)
async def test_a_role_may_produce_and_consume_only_where_it_was_granted(
    authorization: Authorization, role: str, topic: str, produces: bool, consumes: bool
) -> None:
    check = authorization.check_topic
    assert await is_granted(check(role, topic, (PRODUCE,))) == produces
    assert await is_granted(check(role, topic, (CONSUME,))) == consumes
    assert await is_granted(check(role, topic, (PRODUCE, CONSUME))) == (produces or consumes)


@pytest.mark.parametrize(
    ("role", "subscription", "granted"),
    [
        ("reader", "any", True),
        ("reader", "open", True),
        ("reader", "chosen", False),
        ("of-topic", "chosen", True),
        ("admin", "chosen", True),
        ("writer", "chosen", False),
    ],
)
async def test_subscription_with_roles_is_theirs(
    authorization: Authorization, role: str, subscription: str, granted: bool
) -> None:
    check = authorization.check_topic(role, TOPIC, (CONSUME,), subscription)
    assert await is_granted(check) == granted


async def test_namespaces_tenants_and_brokers_have_their_own(authorization: Authorization) -> None:
    for role, of_namespace, of_tenant in (
        ("root", True, True),
        ("admin", True, True),
        ("reader", True, False),
        ("of-topic", False, False),
    ):
        check = authorization.check_namespace(role, "tenant/ns", CONSUME)
        assert await is_granted(check) == of_namespace
        assert await is_granted(authorization.check_admin(role, "tenant")) == of_tenant
    authorization.check_super_user("root")
    with pytest.raises(BrokerError, match="'admin' is not permitted") as rejected:
        authorization.check_super_user("admin")
    assert rejected.value.code == ServerError.AuthorizationError
