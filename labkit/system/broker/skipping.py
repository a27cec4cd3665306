"""Entries that an administrator acknowledges for a subscription: skipped and expired ones.

They count as acknowledged whatever the subscription's type.  Consumers keep what they
have received.

In Pulsar: `broker/service/persistent/PersistentSubscription.java`,
`PersistentMessageExpiryMonitor.java`.
"""

from labkit.system.broker.positions import first_published_from, nth_unacknowledged
from labkit.system.broker.subscription import Subscription
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.managed_ledger import ManagedLedger


async def skip(ledger: ManagedLedger, subscription: Subscription, count: int) -> None:
    """Skip the next `count` unacknowledged entries, or all if there are fewer.

    Raises what `Subscription.skip` raises.
    """
    if count > 0:
        last = nth_unacknowledged(ledger, subscription.cursor, count)
        await subscription.skip(last or ledger.last_confirmed)


async def expire(
    ledger: ManagedLedger, subscription: Subscription, published_before_ms: int
) -> bool:
    """Acknowledge the entries published before that time; returns whether there was a backlog.

    Raises what `first_published_from` and `Subscription.skip` raise.
    """
    if not subscription.cursor.unacknowledged_count:
        return False
    kept = await first_published_from(ledger, published_before_ms)
    last: Position | None = ledger.chain.last_before(kept)
    if last is not None:
        await subscription.skip(last)
    return True
