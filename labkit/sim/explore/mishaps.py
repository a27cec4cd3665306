"""Mishaps: which crashes of bookies and which losses of messages every order is tried with.

Each is a decision, `crash b1 5` or `lose w>b0 2`, and depends on one node alone: on how many
messages the bookie has got, or its sender has sent.  So it needs no place of its own among the
orders: whatever other nodes do before or after it is the same to them.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from labkit.model.errors import BKIncorrectParameterException

Mishaps = tuple[str, ...]
_KINDS = ("crash", "lose")


def node_of(mishap: str) -> str:
    """The node whose state it is part of: the bookie that crashes, the sender of what is lost."""
    return mishap.split()[1].partition(">")[0]


class Possible:
    """Goes through all combinations of up to so many crashes and losses, none at first.

    What can go wrong is seen on the way: a bookie can crash before and after each message that it
    got in any run, and what was sent in any run can be lost.
    """

    def __init__(self, crashes: int, losses: int) -> None:
        """Raises `BKIncorrectParameterException`."""
        if min(crashes, losses) < 0:
            raise BKIncorrectParameterException(
                f"crashes is {crashes} and losses {losses}; neither can be less than 0"
            )
        self._most = dict(zip(_KINDS, (crashes, losses), strict=True))
        self._left: deque[Mishaps] = deque([()])
        self._known: dict[Mishaps, None] = {(): None}

    def __iter__(self) -> Iterator[Mishaps]:
        while self._left:
            yield self._left.popleft()

    def add(self, so_far: Mishaps, seen: Sequence[str]) -> None:
        """With those mishaps these were seen to be possible, too."""
        for each in seen:
            kind = each.split()[0]
            count = sum(1 for other in so_far if other.startswith(kind))
            more = tuple(sorted({*so_far, each}))
            if count < self._most[kind] and more not in self._known:
                self._known[more] = None
                self._left.append(more)
