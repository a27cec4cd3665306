"""How topics of drawn scenarios keep ledgers and cursors: not for ever, and in small pieces."""

import random
from dataclasses import replace

from labkit.worlds.sim.scenario.scenario import Scenario

_SHARE = 0.3


def with_topic_upkeep(scenario: Scenario, seed: int) -> Scenario:
    """The scenario, or, for three in ten, one whose brokers trim ledgers that all subscriptions
    have passed, and often store cursors in ledgers of few entries.
    """
    lots = random.Random(f"topic upkeep {seed}")
    if lots.random() >= _SHARE:
        return scenario
    broker = scenario.cluster.broker
    managed_ledger = replace(
        broker.managed_ledger,
        retention_time_ms=lots.choice((0, 0, 100)),
        retention_size_bytes=lots.choice((0, -1, 300)),
        check_interval_ms=lots.choice((20, 200)),
        max_entries_per_cursor_ledger=lots.choice((2, 50_000)),
        max_ranges_in_node=lots.choice((1, 1000)),
        entry_cache_size_bytes=lots.choice((0, 100, 16 * 1024 * 1024)),
    )
    # Deduplication has a cursor, which passes a ledger only with its next snapshot.
    is_deduplicated = lots.random() < 0.3
    broker = replace(
        broker, managed_ledger=managed_ledger, broker_deduplication_enabled=is_deduplicated
    )
    return replace(scenario, cluster=replace(scenario.cluster, broker=broker))
