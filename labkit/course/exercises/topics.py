"""The exercises of lesson 11: the order of MessageIDs, acknowledged messages, and retention."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from labkit.course.checking.cases import Cases
from labkit.course.checking.exercise import exercise
from labkit.course.checking.refused import Refused
from labkit.course.exercises.generated import topics as generated
from labkit.course.runs.cluster_trial import ClusterTrial, replacing
from labkit.course.runs.topics.cursor_cases import MESSAGES, SCRIPTS, CursorCase, after
from labkit.course.runs.topics.retention_cases import UNREAD, TrimmedTopic, trim_all
from labkit.course.runs.topics.topic_world import in_a_cluster
from labkit.system.model.message_id import MessageId
from labkit.system.topic.chain.ledger_chain import LedgerInfo, Position
from labkit.system.topic.chain.retention import ledgers_to_delete
from labkit.system.topic.config import UNLIMITED, ManagedLedgerConfig
from labkit.system.topic.cursors.acknowledged import CursorState
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from labkit.worlds.sim.nodes.nodes import ClientNode

# Order


def comes_before(a: MessageId, b: MessageId) -> bool | None:
    """Return whether `a` was stored before `b`, or None if the ids do not determine this."""
    if a.partition != b.partition:
        return None
    return (a.ledger_id, a.entry_id, a.batch_index) < (b.ledger_id, b.entry_id, b.batch_index)


@dataclass(frozen=True, slots=True)
class Pair:
    first: MessageId
    second: MessageId
    asked: str
    answer: bool | None

    def __str__(self) -> str:
        return f"{self.first} was sent before {self.second};\n{self.asked} returned {self.answer}"


@cache
def sent_messages() -> tuple[MessageId, ...]:
    """Return message ids in the order in which the messages were sent.

    The topic has two partitions, each ledger has up to two entries, and messages are sent in
    batches or individually.
    """
    return in_a_cluster(_send)


async def _send(node: ClientNode) -> tuple[MessageId, ...]:
    config = ManagedLedgerConfig(max_entries_per_ledger=2)
    topic = await Topic.create(node.client, "orders", partitions=2, config=config)
    ids: list[MessageId] = []
    for batching in (Batching(max_messages=3), None) * 3:
        producer = topic.producer("shop", batching=batching)
        ids += await asyncio.gather(*(producer.send(b"order") for _ in range(12)))
        await producer.close()
    return tuple(ids)


@exercise(
    "topics.order",
    hints=(
        "Which of the four numbers give meaning to the others? What does an entry id mean without"
        " its ledger?",
        "Two partitions are two topics: each has a chain of its own, and whichever needs a ledger"
        " first gets the next ledger id.",
        "Return None for different partitions. Otherwise compare the tuples (ledger_id, entry_id,"
        " batch_index) as numbers.",
    ),
    like=comes_before,
    cases=Cases(
        generated.two_messages, comes_before, lambda case, answer: _order_rule(*(*case, answer))
    ),
)
def order(learner: Callable[[MessageId, MessageId], bool | None]) -> str:
    """Within a partition, the order of the ids is the order in which the messages were stored."""
    ids = sent_messages()
    count = 0
    for first, second in _pairs(ids):
        for a, b in ((first, second), (second, first), (first, first)):
            count += 1
            answer = learner(a, b)
            if answer is not comes_before(a, b):
                asked = f"comes_before({a}, {b})"
                raise Refused(_order_rule(a, b, answer), Pair(first, second, asked, answer))
    return f"Correct for {count:,} pairs of {len(ids)} messages in two partitions."


def _pairs(ids: Sequence[MessageId]) -> Iterator[tuple[MessageId, MessageId]]:
    """Yield all pairs of ids, first the pairs within a partition and then all others. In each
    group, the pairs whose messages were sent closest together come first.
    """
    indices = sorted(
        ((i, j) for j in range(len(ids)) for i in range(j)), key=lambda pair: pair[1] - pair[0]
    )
    for same in (True, False):
        for i, j in indices:
            if (ids[i].partition == ids[j].partition) is same:
                yield ids[i], ids[j]


def _order_rule(a: MessageId, b: MessageId, answer: bool | None) -> str:
    if a.partition != b.partition:
        return (
            "Ids of different partitions do not show which message was stored first: all"
            " partitions get their ledger ids from one counter, whenever they need a new ledger."
        )
    if answer is None:
        return "Two messages of one partition always have an order, because they are in one chain."
    if a == b:
        return "No message comes before itself."
    if a.ledger_id != b.ledger_id:
        return (
            "Compare the ledger ids first, as numbers: entry ids start over at 0 in every ledger,"
            " and ledger 10 comes after ledger 9."
        )
    if a.entry_id != b.entry_id:
        return "Within a ledger, compare the entry ids, as numbers."
    return "Messages of a batch have the same ledger and entry, so compare their batch indexes."


# Acknowledgements

Ranges = Sequence[tuple[Position, Position]]
IsAcknowledged = Callable[[Position, int, Position, Ranges, int | None], bool]


def is_acknowledged(
    position: Position, batch_index: int, mark_delete: Position, ranges: Ranges, left: int | None
) -> bool:
    """Return whether a message has been acknowledged according to the stored state of a cursor."""
    if position <= mark_delete or any(lower < position <= upper for lower, upper in ranges):
        return True
    return left is not None and not left >> batch_index & 1


@exercise(
    "topics.acknowledged",
    hints=(
        "An acknowledgement can be recorded in three ways. A message is acknowledged if any of them"
        " applies.",
        "Positions are tuples and compare as tuples. A range (lower, upper] contains every position"
        " above lower, up to and including upper.",
        "`left` is about this batch only, or None. `left >> batch_index & 1` is 1 if the message is"
        " not acknowledged.",
    ),
    like=is_acknowledged,
    cases=Cases(
        generated.stored_acknowledgements,
        is_acknowledged,
        "A message is acknowledged if its position is at or before mark-delete or in a range, or if"
        " its bit in `left` is 0.",
    ),
)
def acknowledged(learner: IsAcknowledged) -> str:
    """A message is redelivered if and only if it has not been acknowledged."""
    count = 0
    for script in SCRIPTS:
        case = after(script)
        ranges = [(each.lower, each.upper) for each in case.state.ranges]
        left = dict(case.state.batches)
        for position, index in MESSAGES:
            count += 1
            answer = learner(position, index, case.state.mark_delete, ranges, left.get(position))
            if answer != ((position, index) in case.acknowledged):
                found = replace(case, asked=(position, index), answer=answer)
                raise Refused(_acknowledged_rule(position, found), found)
    return f"Correct for {count} messages after {len(SCRIPTS)} ways of acknowledging."


def _acknowledged_rule(position: Position, case: CursorCase) -> str:
    harm = (
        "This message has not been acknowledged, but it would never be delivered again."
        if case.answer
        else "This message has been acknowledged, but it would be redelivered."
    )
    return f"{_position_rule(position, case.state)} {harm}"


def _position_rule(position: Position, state: CursorState) -> str:
    if position in dict(state.batches):
        return (
            "This batch is partly acknowledged: `left` has a 1 for each unacknowledged message,"
            " with message 0 in the lowest bit."
        )
    if position <= state.mark_delete:
        return "Mark-delete covers its own entry, all earlier entries and all earlier ledgers."
    if any(each.lower < position <= each.upper for each in state.ranges):
        return "Above mark-delete, every entry in a range is acknowledged, including its upper end."
    if any(each.lower == position for each in state.ranges):
        return "A range is open at the lower end: it does not contain the entry at its lower end."
    return (
        "This entry is above mark-delete (positions consist of ledger and entry) and in no range."
    )


# Retention

MayGo = Callable[[bool, int, int, int, int], bool]


def may_go(
    consumed: bool, age_ms: int, left_bytes: int, retention_ms: int, retention_bytes: int
) -> bool:
    is_old = retention_ms != UNLIMITED and age_ms > retention_ms
    is_too_much = retention_bytes != UNLIMITED and left_bytes >= retention_bytes
    return consumed and (is_old or is_too_much)


@exercise(
    "topics.retention",
    hints=(
        "Ask two questions, one after the other: does a subscription still need the ledger, and"
        " does retention protect it?",
        "A ledger is kept only if both limits protect it. If either limit is exceeded, it can be"
        " deleted. How do you make sure that -1 is never exceeded?",
        "Combine two conditions with `or`, each of them false if its limit is -1. Neither matters"
        " before the ledger has been consumed.",
    ),
    like=may_go,
    cases=Cases(
        generated.oldest_ledger,
        may_go,
        "A consumed ledger can be deleted if it is older than the time limit, or if the topic keeps"
        " at least the size limit without it; -1 means no limit.",
    ),
)
def retention(learner: MayGo) -> str:
    """A ledger is deleted only if no subscription needs it and no retention limit protects it."""
    trial = ClusterTrial(partial(_ledgers_to_delete, learner))
    expected = _as_it_should_be()
    with replacing(ledgers_to_delete, trial):
        found = in_a_cluster(trim_all)
    if trial.error is not None:
        raise trial.error
    for case, own in zip(found, expected, strict=True):
        if case.gone != own.gone:
            rule = UNREAD if 2 * len(case.gone) > case.trim.acked else case.trim.rule
            raise Refused(rule, replace(own, expected=own.gone, gone=case.gone))
    return f"Your function deleted the right ledgers in all {len(found)} topics."


def _ledgers_to_delete(
    learner: MayGo,
    links: Sequence[LedgerInfo],
    slowest: Position | None,
    now_ms: int,
    config: ManagedLedgerConfig,
) -> list[int]:
    """A replacement for labkit's function that calls the learner's function for the oldest ledgers
    until one of them must be kept.
    """
    left, deletable = sum(link.size_bytes for link in links), []
    for link in links[:-1]:
        left -= link.size_bytes
        consumed = slowest is None or slowest >= (link.ledger_id, link.entry_count - 1)
        limits = config.retention_time_ms, config.retention_size_bytes
        if not learner(consumed, now_ms - link.closed_at_ms, left, *limits):
            break
        deletable.append(link.ledger_id)
    return deletable


@cache
def _as_it_should_be() -> tuple[TrimmedTopic, ...]:
    return in_a_cluster(trim_all)
