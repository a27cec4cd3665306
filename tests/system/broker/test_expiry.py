"""Tests for message expiry, and for policy changes that apply to topics that are already open."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pulsar
import pytest

from labkit.system.broker import broker as broker_module
from labkit.system.broker.broker import Broker
from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.expiry import expire_messages
from labkit.system.broker.policies import MESSAGE_TTL, RETENTION, change_policy
from labkit.system.broker.subscription import Subscription
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.client import connect, send_all
from tests.system.broker.serving import serving
from tests.until import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAYLOADS = [b"%d" % number for number in range(10)]


@asynccontextmanager
async def running(*works: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(work) for work in works]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def subscription_of(broker: Broker) -> Subscription:
    [topic] = broker.topics
    [subscription] = topic.subscriptions.all
    return subscription


async def in_thread(broker: Broker, use: Callable[[pulsar.Client], object]) -> None:
    def run() -> None:
        client = connect(broker.address.service_url)
        use(client)
        client.close()

    await asyncio.to_thread(run)


@pytest.mark.parametrize("partly", [False, True])
async def test_messages_older_than_the_message_ttl_expire_and_younger_ones_stay(
    bookies: LocalCluster, topic: str, partly: bool
) -> None:
    config = BrokerConfig(ttl_duration_default_s=600, message_expiry_check_interval_s=0.05)

    def subscribe_and_send(client: pulsar.Client) -> None:
        client.subscribe(topic, "sub").close()
        send_all(client.create_producer(topic), PAYLOADS)

    async with serving(bookies, config) as broker:
        await in_thread(broker, subscribe_and_send)
        cursor = subscription_of(broker).cursor
        [opened] = broker.topics
        first_ledger = opened.ledger.ledgers[-1].ledger_id
        now_ms = broker.client.wall_clock_ms
        broker.client.wall_clock_ms = lambda: now_ms() + (599_000 if partly else 601_000)
        async with running(expire_messages(broker)):
            if partly:
                await asyncio.sleep(0.2)
                assert cursor.unacknowledged_count == 10
            else:
                await until(lambda: cursor.unacknowledged_count == 0)
        assert cursor.mark_delete == (first_ledger, -1 if partly else 9)


async def test_changed_policies_apply_to_a_topic_that_is_open(
    bookies: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_module, "_POLICIES_INTERVAL_S", 0.02)
    namespace = "public/default"
    retention = {"retentionTimeInMinutes": 5, "retentionSizeInMB": -1}
    async with serving(bookies, BrokerConfig()) as broker:
        await in_thread(broker, lambda client: client.create_producer(topic))
        [opened] = broker.topics
        async with running(broker.reload_policies()):
            await change_policy(broker.store, namespace, RETENTION, lambda _: retention)
            await until(lambda: opened.policies.managed_ledger.retention_time_ms == 300_000)
            await change_policy(broker.store, namespace, MESSAGE_TTL, lambda _: 7)
            await until(lambda: opened.policies.message_ttl_ms == 7_000)
            for key in (RETENTION, MESSAGE_TTL):
                await change_policy(broker.store, namespace, key, lambda _: None)
            await until(lambda: opened.policies.managed_ledger.retention_time_ms == 0)
            await until(lambda: opened.policies.message_ttl_ms == 0)
