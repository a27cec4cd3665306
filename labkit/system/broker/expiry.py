"""Periodic work on a broker's open topics: changed policies are applied, old messages expire.

In Pulsar: `broker/service/BrokerService.java` (`checkMessageExpiry`),
`PersistentMessageExpiryMonitor.java`.
"""

import asyncio
from itertools import groupby
from typing import NoReturn

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.skipping import expire
from labkit.system.broker.topics import BrokerTopic
from labkit.system.model.errors import LabkitError
from labkit.system.topic.names import namespace_of

_POLICIES_INTERVAL_S = 5.0


async def apply_policies(broker: BrokerService) -> NoReturn:
    """Give open topics the current policies of their namespaces."""
    while True:
        await asyncio.sleep(_POLICIES_INTERVAL_S)
        for namespace, topics in groupby(broker.topics, lambda topic: namespace_of(topic.name)):
            try:
                policies = await broker.policies(namespace)
            except LabkitError:
                continue  # The store did not answer, or the namespace is being deleted.
            for topic in topics:
                topic.apply(policies)


async def expire_messages(broker: BrokerService) -> NoReturn:
    """Acknowledge the messages that are older than their namespace's message TTL."""
    while True:
        await asyncio.sleep(broker.config.message_expiry_check_interval_s)
        for topic in broker.topics:
            if topic.policies.message_ttl_ms:
                await _expire(broker, topic)


async def _expire(broker: BrokerService, topic: BrokerTopic) -> None:
    published_before_ms = broker.client.wall_clock_ms() - topic.policies.message_ttl_ms
    for subscription in topic.subscriptions.all:
        try:
            await expire(topic.ledger, subscription, published_before_ms)
        except LabkitError as error:  # The next round tries again.
            note = f"{subscription.name} of {topic.name}: {error}"
            broker.client.recorder.record("expiry.failed", note=note)
