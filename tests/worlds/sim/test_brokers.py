"""In the simulated world, a topic changes its owner without its producer noticing."""

from dataclasses import replace

import pytest

from labkit.system.check import Outcome, check_all
from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import random_topic_scenario
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import (
    Crash,
    Delay,
    Fault,
    Leave,
    Partition,
    Pause,
    Reset,
    SessionLoss,
)
from labkit.worlds.sim.scenario.rerun_with_fault import fork_range
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import BROKER, Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.publish import Publish
from tests.repeat import repeated
from tests.worlds.sim.runs import run_safely

CLUSTER = Cluster(session_timeout_ms=500, brokers=2)
OWNER, OTHER = "broker1", "broker0"
NOW = On("batch.stored", nth=6)
CALM = Scenario(CLUSTER, (Publish(every_ms=2),))
PROMISES = (
    *("MessageIdsGrow", "AcknowledgedMessagesAreKept", "MessagesAreStoredOnce"),
    *("ProducersOrderIsKept", "ReceiptsNameTheirMessages", "OneOwnerStores"),
)


def served(*faults: Fault) -> Trace:
    """Run the scenario and check that every message is published and no promise is broken."""
    trace = run_safely(CALM.with_fault(*faults))
    assert found(trace) == list(range(20))
    return trace


def found(trace: Trace) -> list[int]:
    """Return the sequence ids of the topic's messages in order."""
    return [event.sequence_id for event in trace.events if event.kind == "message.found"]


def owners(trace: Trace) -> list[str]:
    """Return the brokers that opened the topic, in order."""
    return [event.node for event in trace.events if event.kind == "topic.opened"]


def moments(trace: Trace, kind: str, node: str) -> list[int]:
    return [event.time_us for event in trace.events if (event.kind, event.node) == (kind, node)]


def test_calm_run_puts_all_promises_of_topics_to_the_test() -> None:
    verdicts = {verdict.name: verdict for verdict in check_all(served())}
    assert {verdicts[name].outcome for name in PROMISES} == {Outcome.VALID}


@pytest.mark.promise(
    "A topic keeps every promise to its producers when its owner shuts down, crashes, loses "
    "its session, pauses or is partitioned"
)
def test_owner_that_leaves_in_good_order_hands_the_topic_over() -> None:
    trace = served(Leave(OWNER, when=NOW))
    assert owners(trace) == [OWNER, OTHER]
    assert len(moments(trace, "topic.closed", OWNER)) == 1
    assert moments(trace, "session.lost", OWNER) == []


def test_topic_of_a_dead_owner_is_taken_over_when_its_session_is_over() -> None:
    trace = served(Crash(OWNER, when=NOW))
    assert owners(trace) == [OWNER, OTHER]
    (over,) = moments(trace, "session.lost", OWNER)
    assert moments(trace, "topic.opened", OTHER)[0] > over


def test_owner_that_loses_its_session_stops_at_once_and_opens_the_topic_again() -> None:
    trace = served(SessionLoss(OWNER, when=NOW))
    assert owners(trace) == [OWNER, OWNER]
    assert len(moments(trace, "topic.ended", OWNER)) == 1


@pytest.mark.parametrize(
    "fault",
    [Pause(OWNER, 30_000, NOW), Partition((OWNER,), (), "both", 30_000, NOW)],
    ids=["paused", "cut off"],
)
def test_owner_that_does_not_know_that_it_was_replaced_is_fenced(fault: Fault) -> None:
    trace = served(fault)
    assert owners(trace)[:2] == [OWNER, OTHER]
    (taken,) = moments(trace, "topic.opened", OTHER)[:1]
    assert all(lost > taken for lost in moments(trace, "bundle.lost", OWNER))


@pytest.mark.promise(
    "Ownership is not a lock: a replaced owner stores nothing, although it believes that it "
    "owns the topic"
)
def test_owner_without_metadata_store_goes_on_until_it_is_fenced() -> None:
    """Both brokers serve the topic, but only one can store anything, because ownership is not a
    lock.
    """
    long_ledgers = replace(BROKER.managed_ledger, max_entries_per_ledger=100)
    cluster = replace(CLUSTER, broker=replace(BROKER, managed_ledger=long_ledgers))
    both = (
        Publish(every_ms=40, messages=40, client="p"),
        Publish(client="q", when=On("session.lost", node=OWNER)),
    )
    away = Partition((OWNER,), ("zk",), "both", 3000, NOW)
    trace = run_safely(replace(CALM, cluster=cluster, workload=both).with_fault(away))
    (taken,) = moments(trace, "topic.opened", OTHER)[:1]
    (cut,) = moments(trace, "link.cut", OWNER)
    assert [at for at in moments(trace, "batch.stored", OWNER) if cut < at < taken]
    assert [at for at in moments(trace, "add.pushed", OWNER) if at > taken]
    assert not [at for at in moments(trace, "batch.stored", OWNER) if at > taken]


def test_owner_that_loses_a_topic_while_it_opens_it_never_serves_it() -> None:
    """The slow recovery finishes only after another broker has taken over and opened the topic."""
    small = replace(BROKER.managed_ledger, write_quorum=2, max_entries_per_ledger=10)
    broker = replace(BROKER, broker_deduplication_enabled=True, managed_ledger=small)
    cluster = Cluster(session_timeout_ms=200, brokers=2, broker=broker)
    both = (
        Publish(messages=3, every_ms=10),
        Publish(messages=1, client="q", when=On("session.lost", nth=2)),
    )
    recovering = On("recovery.started")
    faults = (
        Crash(OWNER, down_ms=1, when=On("batch.stored")),
        Delay(OWNER, "b0", extra_ms=200, when=recovering),
        Delay(target="b1", extra_ms=100, when=recovering),
        Partition((OWNER,), ("zk",), for_ms=300, when=On("fence.answered")),
    )
    slow = {f"delay {OTHER}>q 1": 100.0}
    trace = run_safely(Scenario(cluster, both, faults, decisions=slow))
    assert owners(trace) == [OWNER, OTHER]
    (ended,) = moments(trace, "topic.ended", OWNER)
    assert ended > moments(trace, "topic.opened", OTHER)[0]


def test_receipts_that_a_broken_connection_swallows_come_again_as_duplicates() -> None:
    trace = served(Reset(OWNER, "p", when=On("batch.stored", nth=9)))
    places = [event.ledger for event in trace.events if event.kind == "message.acked"]
    assert len(places) == 20
    assert -1 in places


def test_without_deduplication_what_is_sent_again_stands_twice() -> None:
    without = replace(
        CALM,
        cluster=replace(CLUSTER, broker=replace(BROKER, broker_deduplication_enabled=False)),
    )
    trace = run_safely(without.with_fault(Reset(OWNER, "p", when=On("batch.stored", nth=9))))
    assert len(found(trace)) > len(set(found(trace))) == 20


def test_a_fork_of_a_run_with_brokers_strikes_at_once() -> None:
    trace = run(CALM)
    first, last = fork_range(CALM, trace.events)
    for seq in (0, first, (first + last) // 2, last):
        fork = trace.fork(seq, "kill", "b0")
        killed = next(event for event in fork.events if event.kind == "node.killed")
        after = max(seq, first)
        assert fork.events[: after + 1] == trace.events[: after + 1]
        assert killed.time_us == trace.events[after].time_us


@pytest.mark.slow
@pytest.mark.parametrize("first", repeated(range(0, 100, 20)))
def test_owners_come_and_go_and_no_promise_breaks(first: int) -> None:
    for seed in range(first, first + 20):
        run_safely(random_topic_scenario(seed))
