"""Random scenarios also contain topic owners without brokers, and operators who disable
autorecovery.
"""

from functools import partial
from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.client.lac_reads import LacReads
from labkit.system.client.reader import LedgerReader
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.topic.consumer import Consumer
from labkit.system.topic.messages import Message
from labkit.system.trace.answers import MessageReceived
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.produce import Produce
from labkit.worlds.sim.workload.steps import DisableAutorecovery, Read, Write
from tests.worlds.sim.runs import Mistake, ends, of, planted, run_safely

PRODUCE = Produce(messages=7, batch_size=2, entries_per_ledger=2, receive=True)
WAIT = Read(polls=2, poll_ms=10_000)
AUTORECOVERY = AutoRecoveryConfig(lost_bookie_recovery_delay_s=0)


def received(trace: Trace, consumer: str) -> list[tuple[str, int]]:
    """Return the producer and sequence id of each message that the consumer received, in order."""
    got = (each for each in trace.answers if isinstance(each, MessageReceived))
    return [
        (each.message.producer, each.message.sequence_id)
        for each in got
        if each.consumer == consumer
    ]


def test_owners_and_operators_are_drawn_into_some_scenarios() -> None:
    workloads = [random_scenario(seed).workload for seed in range(300)]
    owned = [each for each in workloads if any(isinstance(step, Produce) for step in each)]
    assert 0 < len(owned) < len(workloads) / 10
    assert any(isinstance(step, DisableAutorecovery) for each in workloads for step in each)


def test_a_consumer_in_the_owners_process_receives_every_message_in_order() -> None:
    trace = run_safely(Scenario(workload=(PRODUCE,)))
    assert [sequence_id for _, sequence_id in received(trace, "p")] == [*range(PRODUCE.messages)]


def test_the_next_owners_consumer_begins_with_the_first_owners_messages() -> None:
    taking_over = Produce(client="q", messages=2, when=On("step.ended"), receive=True)
    trace = run_safely(Scenario(workload=(PRODUCE, taking_over)))
    assert [producer for producer, _ in received(trace, "q")] == ["p"] * 7 + ["q"] * 2


def test_no_ledger_is_marked_or_repaired_while_autorecovery_is_disabled() -> None:
    disabled = DisableAutorecovery(for_ms=5000)
    crash = Crash("b0", when=At(1000))
    cluster = Cluster(4, session_timeout_ms=500, autorecovery=AUTORECOVERY)
    trace = run_safely(Scenario(cluster, (Write(entries=3), disabled, WAIT), (crash,)))
    [enabled] = of(trace, "step.ended", node="operator")
    assert of(trace, "ledger.underreplicated")[0].time_us > enabled.time_us
    assert of(trace, "replication.done")
    assert set(ends(trace)) == {"done"}


MISTAKES: list[Any] = []
mistake = partial(planted, MISTAKES)
highest, receive = LacReads.highest, Consumer.receive


@mistake("NothingBeyondLacIsRead", 100, LedgerReader, "try_read_last_add_confirmed")
async def take_the_newest_entry_for_confirmed(self: LedgerReader) -> int:
    ensemble = self.metadata.segments[-1].ensemble
    _, reply = await self.bookie_reads.ask_all(ensemble, NO_ENTRY_ID).get()
    if isinstance(reply, Entry):
        self.last_add_confirmed = reply.entry_id
    return self.last_add_confirmed


@mistake("NothingBeyondLacIsRead", 253, LacReads, "highest")
async def believe_that_one_more_is_confirmed(self: LacReads, metadata: LedgerMetadata) -> int:
    return await highest(self, metadata) + 1


@mistake("OwnersConsumersGetAllInOrder", 22, Consumer, "receive")
async def lose_the_first_of_each_receive(self: Consumer, max_messages: int = 1000) -> list[Message]:
    return (await receive(self, max_messages))[1:]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_a_reader_or_an_owner_breaks_its_promise_at_its_seed(
    mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert search([mistake.where], jobs=1).found == ()
    checks = mistake.plant(monkeypatch)
    assert search([mistake.where], checks=checks, jobs=1).first is not None
