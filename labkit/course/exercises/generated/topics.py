"""Questions to the exercises about topics and streams: ids, acknowledgements, retention, gaps."""

from labkit.course.checking.draw import Draw
from labkit.system.model.message_id import MessageId

Arrival = tuple[str, int, int, int, int]
"""Topic, partition, ledger, entry and batch index."""
Sender = tuple[str, int]
"""Producer and sequence id."""
Place = tuple[int, int]
"""Ledger and entry."""
BATCH = 40
"""Messages of a batch: more than 32 bits hold."""


def _place(draw: Draw, ledgers: list[int]) -> Place:
    return draw.one_of(ledgers), draw.id()


def _message(draw: Draw, ledgers: list[int]) -> MessageId:
    """Every other ledger holds batches only, the others messages by themselves."""
    ledger, entry = _place(draw, ledgers)
    batch_index = draw.one_of((0, 1, 2, 9, 10, 11)) if ledgers.index(ledger) % 2 else -1
    return MessageId(ledger, entry, ledgers.index(ledger) // 2 % 2, batch_index)


def two_messages(draw: Draw) -> tuple[MessageId, MessageId]:
    """Ids of two partitions, whose ledgers alternate, and neighbours in one of them."""
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
) -> tuple[Place, int, Place, list[tuple[Place, Place]], int | None]:
    """A message, and what its cursor has stored: mark-delete, ranges, the rest of its batch."""
    ledgers = draw.ids(3) or [5]
    places = sorted({_place(draw, ledgers) for _ in range(draw.number(2, 9))})
    mark = draw.number(0, len(places) - 1)
    ranges, lower = [], mark + 1
    while lower + 1 < len(places) and draw.number(0, 2):
        upper = draw.number(lower + 1, len(places) - 1)
        ranges.append((places[lower], places[upper]))
        lower = upper + 1
    position = draw.one_of(places)
    if position <= places[mark] or any(a < position <= b for a, b in ranges):
        return position, draw.number(-1, BATCH - 1), places[mark], ranges, None
    if not draw.number(0, 1):
        return position, -1, places[mark], ranges, None
    gone = draw.some(range(BATCH)) if draw.number(0, 1) else [draw.number(0, BATCH - 1)]
    left = (1 << BATCH) - 1 & ~sum(1 << index for index in gone)
    return position, draw.number(0, BATCH - 1), places[mark], ranges, left or 1


def oldest_ledger(draw: Draw) -> tuple[bool, int, int, int, int]:
    """Whether it is consumed, its age, the bytes behind it, and the two limits of retention."""
    time, size = draw.one_of((0, -1, 1, 10_000)), draw.one_of((0, -1, 1, 500))
    age = max(0, draw.one_of((0, time - 1, time, time + 1, 15_000)))
    left = max(0, draw.one_of((0, size - 1, size, size + 1, 800, 2**31)))
    return not draw.chance(30), age, left, time, size


def arriving_entries(draw: Draw) -> tuple[list[Place]]:
    """Entries of a stream: ledgers one after the other, some entries missing, some again."""
    arrived: list[Place] = []
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
    """Messages of a topic as a reader may get them.

    Ledgers of its partitions alternate; some entries are batches; some are missing, come twice, or
    early, even before the ledger in front of theirs; some were sent again under another id.
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
