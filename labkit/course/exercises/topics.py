"""Lesson 11: the order of MessageIDs, what a cursor has acknowledged, and which ledgers may go."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from labkit.course.checking.cases import Cases
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import topics as drawn
from labkit.course.runs.cluster_trial import Guest, in_place_of
from labkit.course.runs.cursor_cases import MESSAGES, SCRIPTS, CursorCase, after
from labkit.course.runs.retention_cases import UNREAD, TrimmedTopic, trim_all
from labkit.course.runs.topic_world import in_a_cluster
from labkit.system.model.message_id import MessageId
from labkit.system.topic.chain.acknowledged import CursorState, Range
from labkit.system.topic.chain.chain import LedgerInfo, Position
from labkit.system.topic.chain.retention import ledgers_to_delete
from labkit.system.topic.config import UNLIMITED, ManagedLedgerConfig
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from labkit.worlds.sim.nodes.nodes import ClientNode

# Order


def comes_before(a: MessageId, b: MessageId) -> bool | None:
    """Whether `a` was stored before `b`; None if their ids do not tell."""
    if a.partition != b.partition:
        return None
    return (a.ledger_id, a.entry_id, a.batch_index) < (b.ledger_id, b.entry_id, b.batch_index)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two messages of one topic, in the order in which they were sent."""

    first: MessageId
    second: MessageId
    asked: str
    answer: bool | None

    def __str__(self) -> str:
        return f"{self.first} was sent before {self.second};\n{self.asked} returned {self.answer}"


@cache
def sent_messages() -> tuple[MessageId, ...]:
    """Ids in the order of sending: two partitions, ledgers of two entries, batched and single."""
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
        "Which of the four numbers says something of the others? What does an entry id mean without"
        " its ledger?",
        "Two partitions are two topics: each has its own chain, and the one that asks first gets"
        " the next ledger id.",
        "None for two partitions. Else compare the tuples (ledger_id, entry_id, batch_index), as"
        " numbers.",
    ),
    like=comes_before,
    cases=Cases(
        drawn.two_messages, comes_before, lambda case, answer: _order_rule(*(*case, answer))
    ),
)
def order(learner: Callable[[MessageId, MessageId], bool | None]) -> str:
    """The order of ids is the order of storing, partition by partition."""
    ids = sent_messages()
    count = 0
    for first, second in _pairs(ids):
        for a, b in ((first, second), (second, first), (first, first)):
            count += 1
            answer = learner(a, b)
            if answer is not comes_before(a, b):
                asked = f"comes_before({a}, {b})"
                raise Refused(_order_rule(a, b, answer), Pair(first, second, asked, answer))
    return f"Right for {count:,} questions about {len(ids)} messages of two partitions."


def _pairs(ids: Sequence[MessageId]) -> Iterator[tuple[MessageId, MessageId]]:
    """Those of one partition first, near ones before far ones."""
    places = sorted(
        ((i, j) for j in range(len(ids)) for i in range(j)), key=lambda pair: pair[1] - pair[0]
    )
    for same in (True, False):
        for i, j in places:
            if (ids[i].partition == ids[j].partition) is same:
                yield ids[i], ids[j]


def _order_rule(a: MessageId, b: MessageId, answer: bool | None) -> str:
    if a.partition != b.partition:
        return (
            "Ids of two partitions do not tell which was first: all partitions get their ledger ids"
            " from one counter, whenever they need the next ledger."
        )
    if answer is None:
        return "Two messages of one partition always have an order: one chain holds both."
    if a == b:
        return "No message comes before itself."
    if a.ledger_id != b.ledger_id:
        return (
            "The ledger id decides first, and as a number: entry ids begin again at 0 in every"
            " ledger, and ledger 10 comes after ledger 9."
        )
    if a.entry_id != b.entry_id:
        return "Within a ledger the entry id decides, as a number."
    return "Messages of one batch share ledger and entry: their batch index decides."


# Acknowledgements

Ranges = Sequence[tuple[Position, Position]]
IsAcknowledged = Callable[[Position, int, Position, Ranges, int | None], bool]


def is_acknowledged(
    position: Position, batch_index: int, mark_delete: Position, ranges: Ranges, left: int | None
) -> bool:
    """Whether a message is acknowledged by what a cursor has stored."""
    if position <= mark_delete or any(lower < position <= upper for lower, upper in ranges):
        return True
    return left is not None and not left >> batch_index & 1


@exercise(
    "topics.acknowledged",
    hints=(
        "There are three places in which an acknowledgement can stand. A message is acknowledged if"
        " it stands in any of them.",
        "Positions are tuples and compare as such. A range (lower, upper] holds what is above"
        " lower, and upper itself.",
        "`left` is about this batch alone, or None: `left >> batch_index & 1` is 1 for a message"
        " that is not acknowledged.",
    ),
    like=is_acknowledged,
    cases=Cases(
        drawn.stored_acknowledgements,
        is_acknowledged,
        "Acknowledged is what lies up to mark-delete, above a range's lower end up to its upper,"
        " or has a 0 in what is left of its batch.",
    ),
)
def acknowledged(learner: IsAcknowledged) -> str:
    """A message is delivered again exactly if it is not acknowledged."""
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
    return f"Right for {count} messages after {len(SCRIPTS)} ways to acknowledge."


def _acknowledged_rule(position: Position, case: CursorCase) -> str:
    harm = (
        "This message was not acknowledged, and now it is never delivered again."
        if case.answer
        else "This message was acknowledged, and now it is delivered again."
    )
    return f"{_place_rule(position, case.state)} {harm}"


def _place_rule(position: Position, state: CursorState) -> str:
    if position in dict(state.batches):
        return (
            "Of this batch a part is acknowledged: `left` has a 1 for each message that is not,"
            " message 0 in the lowest bit."
        )
    if position <= state.mark_delete:
        return "Mark-delete stands for all up to it: its own entry, and every earlier ledger."
    if any(_holds(each, position) for each in state.ranges):
        return "Above mark-delete, what lies in a range is acknowledged, its upper end included."
    if any(each.lower == position for each in state.ranges):
        return "A range is open below: the entry at its lower end is not in it."
    return "This entry is behind mark-delete (a position is ledger and entry) and in no range."


def _holds(each: Range, position: Position) -> bool:
    return each.lower < position <= each.upper


# Retention

MayGo = Callable[[bool, int, int, int, int], bool]


def may_go(
    consumed: bool, age_ms: int, left_bytes: int, retention_ms: int, retention_bytes: int
) -> bool:
    """Whether the oldest ledger that is left may be deleted."""
    is_old = retention_ms != UNLIMITED and age_ms > retention_ms
    is_too_much = retention_bytes != UNLIMITED and left_bytes >= retention_bytes
    return consumed and (is_old or is_too_much)


@exercise(
    "topics.retention",
    hints=(
        "Two questions, one after the other: does a subscription still wait for it, and does"
        " retention protect it?",
        "Both limits must protect a ledger to keep it. One that is passed lets it go. How can -1"
        " never be passed?",
        "Two tests joined by `or`, each of them false where its limit is -1; and neither counts"
        " before the ledger is consumed.",
    ),
    like=may_go,
    cases=Cases(
        drawn.oldest_ledger,
        may_go,
        "A consumed ledger goes when it is older than the time, or when the bytes left without it"
        " reach the size; -1 is never passed.",
    ),
)
def retention(learner: MayGo) -> str:
    """What no subscription waits for and retention does not protect goes; nothing else does."""
    guest = Guest(partial(_ledgers_to_delete, learner))
    expected = _as_it_should_be()
    with in_place_of(ledgers_to_delete, guest):
        found = in_a_cluster(trim_all)
    if guest.error is not None:
        raise guest.error
    for case, own in zip(found, expected, strict=True):
        if case.gone != own.gone:
            rule = UNREAD if 2 * len(case.gone) > case.trim.acked else case.trim.rule
            raise Refused(rule, replace(own, expected=own.gone, gone=case.gone))
    return f"{len(found)} topics kept and lost the right ledgers."


def _ledgers_to_delete(
    learner: MayGo,
    links: Sequence[LedgerInfo],
    slowest: Position | None,
    now_ms: int,
    config: ManagedLedgerConfig,
) -> list[int]:
    """In the place of labkit's function: asks for the oldest ledger, until one stays."""
    left, going = sum(link.size_bytes for link in links), []
    for link in links[:-1]:
        left -= link.size_bytes
        consumed = slowest is None or slowest >= (link.ledger_id, link.entry_count - 1)
        limits = config.retention_time_ms, config.retention_size_bytes
        if not learner(consumed, now_ms - link.closed_at_ms, left, *limits):
            break
        going.append(link.ledger_id)
    return going


@cache
def _as_it_should_be() -> tuple[TrimmedTopic, ...]:
    return in_a_cluster(trim_all)
