"""Tests for waiting entries: their order, and that their number does not affect the cost of a
message.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.broker import dispatch
from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.dispatcher import MAX_READ_ENTRIES
from labkit.system.broker.dispatch.hashes import hash_of_key
from labkit.system.broker.dispatch.key_shared import AutoSplitRanges, KeySharedSelector
from labkit.system.broker.dispatch.multiple import MultipleConsumersDispatcher
from labkit.system.broker.dispatch.shared import SharedSelector
from labkit.system.broker.dispatch.waiting import Receiver, Receivers, WaitingEntries
from labkit.system.topic.chain.ledger_chain import Position
from tests.system.broker.in_memory import (
    Client,
    MemoryLedger,
    key_of,
    message,
    settle,
    surroundings,
)

DISPATCH = str(Path(next(iter(dispatch.__path__))))
FEW, MANY = 1_000, 100_000


class Operations:
    """Counts executed lines of the dispatch package and comparisons of positions."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        before, comparisons = sys.gettrace(), Counted.comparisons
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)
            self.count += Counted.comparisons - comparisons

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(DISPATCH) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.count += 1
        return self._line


class Counted(tuple[int, int]):
    """A position that counts its comparisons and hash lookups."""

    __slots__ = ()
    comparisons = 0

    def __lt__(self, other: object) -> bool:
        Counted.comparisons += 1
        return tuple.__lt__(self, other)  # type: ignore[operator]

    def __hash__(self) -> int:
        Counted.comparisons += 1
        return tuple.__hash__(self)

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, other)


class Waited:
    """A Key_Shared subscription with a slow consumer that has no permits left."""

    def __init__(self, waiting: int, hashes: int) -> None:
        ranges = AutoSplitRanges()
        self.client = Client()
        self.slow, self.fast = Client().consumer(permits=0), self.client.consumer(permits=0)
        # Find a key with a separate instance, which assigns the same ranges as the dispatcher's.
        ranges.add(self.slow)
        ranges.add(self.fast)
        self.key = key_of(ranges, self.fast)
        theirs = [each for each in range(65_536) if ranges.owner_of(each) is self.slow][:hashes]
        stored = [message("theirs")] * waiting + [message(self.key)] * 100
        self.ledger = MemoryLedger(stored)
        choice = KeySharedSelector(AutoSplitRanges(), keeps_order=True)
        self.dispatcher = MultipleConsumersDispatcher(
            self.ledger, self.ledger.cursor(), choice, surroundings()
        )
        self.dispatcher.add(self.slow)
        self.dispatcher.add(self.fast)
        for number in range(waiting):
            self.dispatcher.waiting.add(Counted((10, number)), theirs[number % len(theirs)])
        self.dispatcher.next_position = (10, waiting)

    async def cost(self, messages: int) -> float:
        """Return the operations needed per message to send it to the fast consumer and to process
        its acknowledgement.
        """
        operations = Operations()
        with operations.counted():
            for _ in range(messages):
                self.fast.permits += 1
                self.dispatcher.retry()
                await settle()
                done = self.client.positions[-1:]
                self.dispatcher.cursor.acknowledge(done)
                self.dispatcher.entries_acknowledged(self.fast, done)
        assert len(self.client.positions) == messages
        self.dispatcher.stop()
        return operations.count / messages


@pytest.mark.promise(
    "A message costs the same however many entries are waiting, and entries returned by a "
    "consumer are read in batches"
)
@pytest.mark.parametrize("hashes", [1, 10_000])
async def test_a_message_costs_the_same_however_many_entries_are_waiting(hashes: int) -> None:
    few, many = Waited(FEW, hashes), Waited(MANY, hashes)
    assert await many.cost(10) <= 1.1 * await few.cost(10)


async def entry_released(waiting: int) -> tuple[int, float]:
    """Let a Shared consumer leave while it holds every second entry of a topic. Return the number
    of reads needed to redeliver these entries, and the number of operations per entry.
    """
    ledger, client, leaving = MemoryLedger([message()] * 2 * waiting), Client(), Client().consumer()
    dispatcher = MultipleConsumersDispatcher(
        ledger, ledger.cursor(), SharedSelector(), surroundings()
    )
    dispatcher.next_position = (10, 2 * waiting)
    dispatcher.add(leaving)
    await settle()
    leaving.pending_acks.update((Counted((10, 2 * number)), -1) for number in range(waiting))
    ledger.reads.clear()
    operations = Operations()
    with operations.counted():
        dispatcher.add(client.consumer(permits=waiting))
        dispatcher.remove(leaving)
        while len(client.commands) < waiting:  # noqa: ASYNC110 - the dispatcher has its turn
            await asyncio.sleep(0)
    assert client.positions == [(10, 2 * number) for number in range(waiting)]
    dispatcher.stop()
    return len(ledger.reads), operations.count / waiting


async def test_what_a_shared_consumer_leaves_behind_is_read_in_batches() -> None:
    few_reads, few = await entry_released(FEW)
    many_reads, many = await entry_released(8 * FEW)
    assert few_reads == 2 * FEW / MAX_READ_ENTRIES
    assert many_reads == 8 * few_reads
    assert many <= 1.1 * few


# The data structure in isolation

CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "discard", "move", "take"]), st.integers(0, 29)), max_size=60
)


@given(CHANGES)
def test_waiting_entries_keep_their_order_for_each_receiver(changes: list[tuple[str, int]]) -> None:
    """The model is a dictionary that is sorted on each call."""
    consumers = [Client().consumer(f"c{number}") for number in range(2)]
    all_receivers: list[Receiver] = [*consumers, *Receivers]
    receivers: dict[int, Receiver] = {}

    def receiver_of(group: int) -> Receiver:
        return receivers.get(group, Receivers.ANY_CONSUMER)

    waiting, model = WaitingEntries(receiver_of), dict[Position, int]()
    room = dict[Receiver, int]({consumers[0]: 2, Receivers.ANY_CONSUMER: 3})
    for change, number in changes:
        position, group = (number // 10, number % 10), number % 5
        if change == "add":
            waiting.add(position, group)
            model[position] = group
        elif change == "discard":
            waiting.discard(position)
            model.pop(position, None)
        elif change == "move":
            receivers[group] = all_receivers[number % len(all_receivers)]
            waiting.update_receiver(group)
        else:
            expected = _expected(model, receiver_of, room, span=8)
            assert waiting.pop_ready(room, 8) == expected
            for taken, _ in expected:
                del model[taken]
        assert sorted(waiting) == sorted(model)
        assert len(waiting) == len(model)
        for each in range(5):
            of_hash = [p for p, h in model.items() if h == each]
            assert waiting.first_of(each) == min(of_hash, default=None)


def _expected(
    model: dict[Position, int], receiver_of: Any, room: dict[Receiver, int], span: int
) -> list[tuple[Position, int]]:
    left, taken = dict(room), list[tuple[Position, int]]()
    for position, group in sorted(model.items()):
        receiver = receiver_of(group)
        if not left.get(receiver):
            continue
        first = taken[0][0] if taken else position
        if position[0] != first[0] or position[1] >= first[1] + span:
            break
        left[receiver] -= 1
        taken.append((position, group))
    return taken


def test_all_hashes_find_their_new_receivers_when_consumers_come_and_go() -> None:
    old, new = Client().consumer("old"), Client().consumer("new")
    owner: list[Consumer] = [old]
    waiting = WaitingEntries(lambda _: owner[0])
    for number in range(3):
        waiting.add((1, number), hash_of_key(b"%d" % number))
    owner[0] = new
    waiting.update_all_receivers()
    assert waiting.pop_ready({old: 9}, 9) == []
    assert [position for position, _ in waiting.pop_ready({new: 2}, 9)] == [(1, 0), (1, 1)]
