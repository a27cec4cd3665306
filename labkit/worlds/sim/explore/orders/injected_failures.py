"""The failures that are combined with every order: crashes of bookies and lost messages.

Each failure is a decision, such as `crash b1 5` or `lose w>b0 2`. The moment of a failure depends
on a single node: either on the number of messages that the crashing bookie has received, or on the
number of messages that the sender of the lost message has sent. Other nodes cannot know whether
they act before or after a failure, so failures do not increase the number of orders.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from labkit.system.model.errors import BKIncorrectParameterException

Failures = tuple[str, ...]
_KINDS = ("crash", "lose")


def node_of(failure: str) -> str:
    """Return the node whose state includes the failure: the crashing bookie, or the sender of the
    lost message.
    """
    return failure.split()[1].partition(">")[0]


class PossibleFailures:
    """Iterates over all combinations of up to `crashes` crashes and `losses` losses.

    The first combination is empty. The possible failures are determined from the runs themselves. A
    bookie can crash before or after any message that it received in some run, and any message that
    was sent in some run can be lost.
    """

    def __init__(self, crashes: int, losses: int) -> None:
        if min(crashes, losses) < 0:
            raise BKIncorrectParameterException(
                f"crashes and losses must not be negative, got {crashes} and {losses}"
            )
        self._limits = dict(zip(_KINDS, (crashes, losses), strict=True))
        self._queue: deque[Failures] = deque([()])
        self._known: dict[Failures, None] = {(): None}

    def __iter__(self) -> Iterator[Failures]:
        while self._queue:
            yield self._queue.popleft()

    def add(self, so_far: Failures, possible: Sequence[str]) -> None:
        for each in possible:
            kind = each.split()[0]
            count = sum(1 for other in so_far if other.startswith(kind))
            more = tuple(sorted({*so_far, each}))
            if count < self._limits[kind] and more not in self._known:
                self._known[more] = None
                self._queue.append(more)
