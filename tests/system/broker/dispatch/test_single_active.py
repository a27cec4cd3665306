"""Test which Failover consumer is active; `dispatch_single_active.txt` shows all other rules."""

import pytest

from labkit.system.broker.dispatch.single_active import choose_active
from tests.system.broker.in_memory import Client


@pytest.mark.promise("Failover: partitions are spread by their index")
@pytest.mark.parametrize(
    ("partition", "consumers", "active"),
    [
        (-1, {"b": 0, "a": 0, "c": 0}, "a"),
        (0, {"b": 0, "a": 0, "c": 0}, "a"),
        (1, {"b": 0, "a": 0, "c": 0}, "b"),
        (5, {"b": 0, "a": 0, "c": 0}, "c"),
        # Only consumers of the best priority become active.
        (0, {"a": 1, "b": 0, "c": 0}, "b"),
        (1, {"a": 1, "b": 0, "c": 0}, "c"),
        (2, {"a": 1, "b": 0, "c": 0}, "b"),
    ],
)
def test_partitions_are_spread_over_failover_consumers(
    partition: int, consumers: dict[str, int], active: str
) -> None:
    connected = [Client().consumer(name, priority=each) for name, each in consumers.items()]
    assert choose_active(connected, partition).name == active
