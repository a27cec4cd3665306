"""Consumers in random scenarios reveal bugs in dispatching, cursors and retention."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import pytest

from labkit.system.broker import topic_subscriptions
from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.dispatcher import Dispatcher, after
from labkit.system.broker.dispatch.entry import MessageEntry
from labkit.system.broker.dispatch.hashes import HASH_COUNT
from labkit.system.broker.dispatch.multiple import MultipleConsumersDispatcher
from labkit.system.broker.dispatch.single_active import SingleActiveDispatcher
from labkit.system.broker.positions import EARLIEST, LATEST, first_or_next_free
from labkit.system.broker.topics import BrokerTopic
from labkit.system.model.errors import LabkitError
from labkit.system.topic.chain import chain_store
from labkit.system.topic.chain.ledger_chain import LedgerInfo, Position
from labkit.system.topic.chain.retention import ledgers_to_delete
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.cursors.acknowledged import Acknowledged
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import random_topic_scenario
from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.workload.consume import Consume
from tests.worlds.sim.runs import Mistake, planted

MISTAKES: list[Any] = []
mistake = partial(planted, MISTAKES)
read_entries = Dispatcher.read_entries
remove_from_multiple = MultipleConsumersDispatcher.remove
remove_from_single = SingleActiveDispatcher.remove
close = BrokerTopic.close


@mistake("NoMessageIsSkipped", 563, Dispatcher, "read_entries")
async def skip_what_cannot_be_read(
    self: Dispatcher, start: Position, max_messages: int
) -> list[MessageEntry]:
    try:
        return await read_entries(self, start, max_messages)
    except LabkitError:
        self.next_position = after(start)
        raise


@mistake("NoMessageIsSkipped", 3, ManagedCursor, "acknowledge")
def take_one_for_all_before_it(self: ManagedCursor, positions: Iterable[Position]) -> None:
    for position in positions:
        self.acknowledge_up_to(position)


@mistake("StepsEnd", 4, MultipleConsumersDispatcher, "remove")
def forget_what_a_consumer_had_that_left(
    self: MultipleConsumersDispatcher, consumer: Consumer
) -> None:
    consumer.pending_acks.clear()
    remove_from_multiple(self, consumer)


@mistake("DeliveriesKeepTheOrder", 60, SingleActiveDispatcher, "remove")
def go_on_with_the_next_consumer(self: SingleActiveDispatcher, consumer: Consumer) -> None:
    position = self.next_position
    remove_from_single(self, consumer)
    self.next_position = position


@mistake("AcknowledgedIsNotDeliveredAgain", 24, ManagedCursor, "is_acknowledged")
def deliver_what_is_acknowledged(*_: object) -> bool:
    return False


@mistake("AcknowledgedIsNotDeliveredAgain", 48, ManagedCursor, "unacknowledged_in_batch")
def deliver_what_is_acknowledged_of_a_batch(*_: object) -> None:
    pass


@mistake("StepsEnd", 104, MultipleConsumersDispatcher, "redeliver")
def lose_what_is_given_back(
    _: MultipleConsumersDispatcher, consumer: Consumer, positions: Sequence[Position], epoch: int
) -> None:
    for position in positions:
        consumer.pending_acks.pop(position, None)


@mistake("StepsEnd", 8, SingleActiveDispatcher, "redeliver")
def go_on_when_all_is_given_back(
    _: SingleActiveDispatcher, consumer: Consumer, __: object, epoch: int
) -> None:
    consumer.epoch = epoch


@mistake("NoMessageIsSkipped", 5, Acknowledged, "reset")
def keep_single_acknowledgements_at_a_seek(self: Acknowledged, mark_delete: Position) -> None:
    self.mark_delete = mark_delete


@mistake("NoMessageIsSkipped", 60, topic_subscriptions, "first_or_next_free")
def begin_readers_an_entry_late(ledger: ManagedLedger, position: Position) -> Position:
    if position in (EARLIEST, LATEST):
        return first_or_next_free(ledger, position)
    return first_or_next_free(ledger, (position[0], position[1] + 2))


@mistake("NoMessageIsSkipped", 6, chain_store, "ledgers_to_delete")
def trim_what_some_have_not_acknowledged(
    links: Sequence[LedgerInfo], _: object, now_ms: int, config: ManagedLedgerConfig
) -> list[int]:
    return ledgers_to_delete(links, None, now_ms, config)


@mistake("NoMessageIsSkipped", 959, chain_store, "ledgers_to_delete")
def trim_a_ledger_whose_last_entry_is_left(
    links: Sequence[LedgerInfo], slowest: Position | None, now_ms: int, config: ManagedLedgerConfig
) -> list[int]:
    seen = slowest and (slowest[0], slowest[1] + 1)
    return ledgers_to_delete(links, seen, now_ms, config)


@mistake("NoMessageIsSkipped", 19, ManagedLedger, "delete_cursor")
async def keep_the_cursor_of_a_deleted_subscription(*_: object) -> None:
    pass


@mistake("KeysKeepTheirOrder", 42, Dispatcher, "read_entries")
async def look_for_waiting_entries_before_the_read(
    self: Dispatcher, start: Position, max_messages: int
) -> list[MessageEntry]:
    if isinstance(self, MultipleConsumersDispatcher):
        waiting = self.waiting
        seen = set(filter(waiting.first_of, range(HASH_COUNT)))

        def waits_behind(position: Position, group: int) -> bool:
            first = waiting.first_of(group) if group in seen else None
            return first is not None and first < position

        self._waits_behind = waits_behind  # type: ignore[method-assign]
    return await read_entries(self, start, max_messages)


@mistake("UnloadedTopicsAreClosed", 15, BrokerTopic, "close")
async def answer_a_second_unload_at_once(self: BrokerTopic) -> None:
    if not self.is_ended:
        await close(self)


@pytest.mark.sampled
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_a_broker_breaks_its_promise_at_its_seed(
    mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = [random_topic_scenario(mistake.where)]
    assert search(scenario, jobs=1).found == ()
    checks = mistake.plant(monkeypatch)
    assert search(scenario, checks=checks, jobs=1).first is not None


def test_half_of_the_scenarios_have_consumers_and_all_types_of_subscriptions() -> None:
    workloads = (random_topic_scenario(seed).workload for seed in range(200))
    steps = [
        [step for step in workload if isinstance(step, Consume) and step.subscription != "keys"]
        for workload in workloads
    ]
    assert 80 < sum(map(bool, steps)) < 120
    assert 4 < sum(step.reader for some in steps for step in some) < 30
    kinds = {step.subscription_type for some in steps for step in some}
    assert kinds == {"Exclusive", "Failover", "Shared", "Key_Shared"}
