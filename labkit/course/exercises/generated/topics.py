"""Generates test cases about topics and streams: ids, acknowledgements, retention and gaps."""

from labkit.course.checking.generated_cases import Draw
from labkit.system.model.message_id import MessageId

Arrival = tuple[str, int, int, int, int]
"""A stored message: its topic, partition, ledger, entry and batch index."""
Sender = tuple[str, int]
"""The producer of a message, and its sequence id."""
Position = tuple[int, int]
"""A ledger id and an entry id."""
BATCH = 40
"""The number of messages in a batch; their bit set does not fit in 32 bits."""


def _position(draw: Draw, ledgers: list[int]) -> Position:
    return draw.one_of(ledgers), draw.id()


def _message(draw: Draw, ledgers: list[int]) -> MessageId:
    """Return a message id; ledgers that contain only batches alternate with ledgers that contain
    only single messages.
    """
    ledger, entry = _position(draw, ledgers)
    batch_index = draw.one_of((0, 1, 2, 9, 10, 11)) if ledgers.index(ledger) % 2 else -1
    return MessageId(ledger, entry, ledgers.index(ledger) // 2 % 2, batch_index)


def two_messages(draw: Draw) -> tuple[MessageId, MessageId]:
    """Return two message ids, which are either adjacent ids in one partition or arbitrary ids in
    two partitions whose ledgers are interleaved.
    """
    ledgers = draw.ids(6) or [5]
    one = _message(draw, ledgers)
    if draw.number(0, 1):
        return one, _message(draw, ledgers)
    if one.batch_index < 0 or draw.number(0, 1):
        near = MessageId(one.ledger_id, one.entry_id + 1, one.partition, one.batch_index)
    else:
        near = MessageId(one.ledger_id, one.entry_id, one.partition, one.batch_index + 1)
    return (one, near) if draw.number(0, 1) else (near, one)


def stored_acknowledgements(
    draw: Draw,
) -> tuple[Position, int, Position, list[tuple[Position, Position]], int | None]:
    """Return the position and batch index of a message, and the state of a cursor, which consists
    of the mark-delete position, the acknowledged ranges, and the set of unacknowledged messages in
    the same batch.
    """
    ledgers = draw.ids(3) or [5]
    positions = sorted({_position(draw, ledgers) for _ in range(draw.number(2, 9))})
    mark = draw.number(0, len(positions) - 1)
    ranges, lower = [], mark + 1
    while lower + 1 < len(positions) and draw.number(0, 2):
        upper = draw.number(lower + 1, len(positions) - 1)
        ranges.append((positions[lower], positions[upper]))
        lower = upper + 1
    position = draw.one_of(positions)
    if position <= positions[mark] or any(a < position <= b for a, b in ranges):
        return position, draw.number(-1, BATCH - 1), positions[mark], ranges, None
    if not draw.number(0, 1):
        return position, -1, positions[mark], ranges, None
    acked = draw.some(range(BATCH)) if draw.number(0, 1) else [draw.number(0, BATCH - 1)]
    left = (1 << BATCH) - 1 & ~sum(1 << index for index in acked)
    return position, draw.number(0, BATCH - 1), positions[mark], ranges, left or 1


def oldest_ledger(draw: Draw) -> tuple[bool, int, int, int, int]:
    """Return whether a ledger has been consumed, its age, the number of bytes stored after it, and
    the two retention limits.
    """
    time, size = draw.one_of((0, -1, 1, 10_000)), draw.one_of((0, -1, 1, 500))
    age = max(0, draw.one_of((0, time - 1, time, time + 1, 15_000)))
    left = max(0, draw.one_of((0, size - 1, size, size + 1, 800, 2**31)))
    return not draw.chance(30), age, left, time, size


def arriving_entries(draw: Draw) -> tuple[list[Position]]:
    """Return the entries of a stream, ledger by ledger. Some entries are missing, and some arrive
    twice.
    """
    arrived: list[Position] = []
    for ledger in draw.ids(4) or [5]:
        entry = draw.number(0, 2) if not draw.chance(20) else draw.id()
        for _ in range(draw.number(1, 4)):
            arrived.append((ledger, entry))
            if draw.chance(20):
                again = draw.number(0, len(arrived) - 1)
                arrived += arrived[again:]
            entry += draw.one_of((1, 1, 2, 9))
    return (arrived,)


def arriving_messages(draw: Draw, topic: str) -> list[tuple[Arrival, Sender]]:
    """Return the messages of a topic as a reader may receive them.

    The partitions' ledgers are interleaved, and some entries are batches. Some messages are
    missing, arrive twice, or arrive early, even before messages of the previous ledger. Some
    messages were sent twice, so they are also stored under a second id.
    """
    arrived: list[tuple[Arrival, Sender]] = []
    ledgers = draw.ids(4) or [5]
    for number, ledger in enumerate(ledgers):
        partition, entry = number % draw.number(1, 2), draw.number(0, 2)
        for _ in range(draw.number(1, 5)):
            sender = draw.one_of(("p", "q")), draw.number(0, 3) + 12 * number
            indexes = range(draw.number(2, 3)) if ledger % 2 else (-1,)
            arrived += [((topic, partition, ledger, entry, index), sender) for index in indexes]
            entry += draw.one_of((1, 1, 1, 2, 11))
    for _ in range(draw.number(0, 2)):
        arrived.insert(draw.number(0, len(arrived)), draw.one_of(arrived))
    for _ in range(draw.number(0, 2)):
        early = arrived.pop(draw.number(0, len(arrived) - 1))
        arrived.insert(draw.number(0, len(arrived)), early)
    if draw.number(0, 1):
        (_, partition, ledger, entry, index), sender = draw.one_of(arrived)
        stored_again = (topic, partition, ledger, entry + 40, index)
        arrived.append((stored_again, sender))
    return arrived
