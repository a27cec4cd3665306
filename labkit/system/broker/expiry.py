"""Expires messages by acknowledging all entries that were published before a given time.

In Pulsar: `broker/service/BrokerService.java` (`checkMessageExpiry`),
`persistent/PersistentMessageExpiryMonitor.java`.
"""

import asyncio
from typing import NoReturn

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.positions import first_published_from
from labkit.system.broker.subscription import Subscription
from labkit.system.broker.topics import BrokerTopic
from labkit.system.model.errors import LabkitError
from labkit.system.topic.managed_ledger import ManagedLedger


async def expire(
    ledger: ManagedLedger, subscription: Subscription, published_before_ms: int
) -> bool:
    """Acknowledge all entries published before this time. Return whether there was a backlog."""
    if not subscription.cursor.unacknowledged_count:
        return False
    kept = await first_published_from(ledger, published_before_ms)
    if (last := ledger.chain.last_before(kept)) is not None:
        await subscription.skip(last)
    return True


async def expire_messages(broker: BrokerService) -> NoReturn:
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
        except LabkitError as error:  # The next round will retry.
            broker.client.recorder.record(
                "expiry.failed",
                topic=topic.name,
                subscription=subscription.name,
                explanation=str(error),
            )
