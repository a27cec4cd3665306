"""Consumers in random scenarios reveal bugs in dispatching, cursors and retention."""

from collections.abc import Callable, Iterable, Sequence

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
from labkit.system.check import CHECKS
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
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.consume import Consume
from tests.worlds.sim.runs import checks_of

Plant = Callable[[pytest.MonkeyPatch], None]


def take_one_for_all_before_it(patch: pytest.MonkeyPatch) -> None:
    def acknowledge(self: ManagedCursor, positions: Iterable[Position]) -> None:
        for position in positions:
            self.acknowledge_up_to(position)

    patch.setattr(ManagedCursor, "acknowledge", acknowledge)


def forget_what_a_consumer_had_that_left(patch: pytest.MonkeyPatch) -> None:
    remove = MultipleConsumersDispatcher.remove

    def forget(self: MultipleConsumersDispatcher, consumer: Consumer) -> None:
        consumer.pending_acks.clear()
        remove(self, consumer)

    patch.setattr(MultipleConsumersDispatcher, "remove", forget)


def go_on_with_the_next_consumer(patch: pytest.MonkeyPatch) -> None:
    remove = SingleActiveDispatcher.remove

    def remove_only(self: SingleActiveDispatcher, consumer: Consumer) -> None:
        position = self.next_position
        remove(self, consumer)
        self.next_position = position

    patch.setattr(SingleActiveDispatcher, "remove", remove_only)


def deliver_what_is_acknowledged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ManagedCursor, "is_acknowledged", lambda *_: False)


def skip_what_cannot_be_read(patch: pytest.MonkeyPatch) -> None:
    read = Dispatcher.read_entries

    async def read_or_skip(
        self: Dispatcher, start: Position, max_messages: int
    ) -> list[MessageEntry]:
        try:
            return await read(self, start, max_messages)
        except LabkitError:
            self.next_position = after(start)
            raise

    patch.setattr(Dispatcher, "read_entries", read_or_skip)


def deliver_what_is_acknowledged_of_a_batch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ManagedCursor, "unacknowledged_in_batch", lambda *_: None)


def lose_what_is_given_back(patch: pytest.MonkeyPatch) -> None:
    def lose(
        _: MultipleConsumersDispatcher,
        consumer: Consumer,
        positions: Sequence[Position],
        epoch: int,
    ) -> None:
        for position in positions:
            consumer.pending_acks.pop(position, None)

    patch.setattr(MultipleConsumersDispatcher, "redeliver", lose)


def go_on_when_all_is_given_back(patch: pytest.MonkeyPatch) -> None:
    def only_note(_: SingleActiveDispatcher, consumer: Consumer, __: object, epoch: int) -> None:
        consumer.epoch = epoch

    patch.setattr(SingleActiveDispatcher, "redeliver", only_note)


def keep_single_acknowledgements_at_a_seek(patch: pytest.MonkeyPatch) -> None:
    def move(self: Acknowledged, mark_delete: Position) -> None:
        self.mark_delete = mark_delete

    patch.setattr(Acknowledged, "reset", move)


def keep_the_cursor_of_a_deleted_subscription(patch: pytest.MonkeyPatch) -> None:
    async def keep(*_: object) -> None:
        pass

    patch.setattr(ManagedLedger, "delete_cursor", keep)


def begin_readers_an_entry_late(patch: pytest.MonkeyPatch) -> None:
    def late(ledger: ManagedLedger, position: Position) -> Position:
        if position in (EARLIEST, LATEST):
            return first_or_next_free(ledger, position)
        return first_or_next_free(ledger, (position[0], position[1] + 2))

    patch.setattr(topic_subscriptions, "first_or_next_free", late)


def trim_what_some_have_not_acknowledged(patch: pytest.MonkeyPatch) -> None:
    def trim_all(
        links: Sequence[LedgerInfo], _: object, now_ms: int, config: ManagedLedgerConfig
    ) -> list[int]:
        return ledgers_to_delete(links, None, now_ms, config)

    patch.setattr(chain_store, "ledgers_to_delete", trim_all)


def trim_a_ledger_whose_last_entry_is_left(patch: pytest.MonkeyPatch) -> None:
    def trim_early(
        links: Sequence[LedgerInfo],
        slowest: Position | None,
        now_ms: int,
        config: ManagedLedgerConfig,
    ) -> list[int]:
        seen = slowest and (slowest[0], slowest[1] + 1)
        return ledgers_to_delete(links, seen, now_ms, config)

    patch.setattr(chain_store, "ledgers_to_delete", trim_early)


def _consumers(scenario: Scenario) -> list[Consume]:
    return [step for step in scenario.workload if isinstance(step, Consume)]


def look_for_waiting_entries_before_the_read(patch: pytest.MonkeyPatch) -> None:
    read = Dispatcher.read_entries
    seen: dict[Dispatcher, set[int]] = {}

    async def note_and_read(
        self: Dispatcher, start: Position, max_entries: int
    ) -> list[MessageEntry]:
        if isinstance(self, MultipleConsumersDispatcher):
            seen[self] = set(filter(self.waiting.first_of, range(HASH_COUNT)))
        return await read(self, start, max_entries)

    def waits_behind(self: MultipleConsumersDispatcher, position: Position, key_hash: int) -> bool:
        first = self.waiting.first_of(key_hash) if key_hash in seen[self] else None
        return first is not None and first < position

    patch.setattr(Dispatcher, "read_entries", note_and_read)
    patch.setattr(MultipleConsumersDispatcher, "_waits_behind", waits_behind)


def answer_a_second_unload_at_once(patch: pytest.MonkeyPatch) -> None:
    close = BrokerTopic.close

    async def close_once(self: BrokerTopic) -> None:
        if not self.is_ended:
            await close(self)

    patch.setattr(BrokerTopic, "close", close_once)


MISTAKES = [
    ("NoMessageIsSkipped", skip_what_cannot_be_read, 563),
    ("NoMessageIsSkipped", take_one_for_all_before_it, 3),
    ("StepsEnd", forget_what_a_consumer_had_that_left, 4),
    ("DeliveriesKeepTheOrder", go_on_with_the_next_consumer, 60),
    ("AcknowledgedIsNotDeliveredAgain", deliver_what_is_acknowledged, 24),
    ("AcknowledgedIsNotDeliveredAgain", deliver_what_is_acknowledged_of_a_batch, 48),
    ("StepsEnd", lose_what_is_given_back, 104),
    ("StepsEnd", go_on_when_all_is_given_back, 8),
    ("NoMessageIsSkipped", keep_single_acknowledgements_at_a_seek, 5),
    ("NoMessageIsSkipped", begin_readers_an_entry_late, 60),
    ("NoMessageIsSkipped", trim_what_some_have_not_acknowledged, 6),
    ("NoMessageIsSkipped", trim_a_ledger_whose_last_entry_is_left, 959),
    ("NoMessageIsSkipped", keep_the_cursor_of_a_deleted_subscription, 19),
    ("KeysKeepTheirOrder", look_for_waiting_entries_before_the_read, 42),
    ("UnloadedTopicsAreClosed", answer_a_second_unload_at_once, 15),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("promise", "plant", "seed"), MISTAKES)
def test_a_mistake_of_a_broker_breaks_its_promise_at_its_seed(
    promise: str, plant: Plant, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = [random_topic_scenario(seed)]
    assert search(scenario, checks=CHECKS, jobs=1).found == ()
    plant(monkeypatch)
    assert search(scenario, checks=checks_of(promise), jobs=1).first is not None


def test_half_of_the_scenarios_have_consumers_and_all_types_of_subscriptions() -> None:
    steps = [_consumers(random_topic_scenario(seed)) for seed in range(200)]
    steps = [[step for step in some if step.subscription != "keys"] for some in steps]
    assert 80 < sum(map(bool, steps)) < 120
    assert 4 < sum(step.reader for some in steps for step in some) < 30
    kinds = {step.subscription_type for some in steps for step in some}
    assert kinds == {"Exclusive", "Failover", "Shared", "Key_Shared"}
