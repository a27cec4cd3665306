"""Mishaps: the crashes of bookies and the lost messages that every order is tried with.

Each is a decision, `crash b1 5` or `lose w>b0 2`, and depends on one node alone: on how many
messages the bookie has received, or the sender has sent.  So a mishap adds no step to order:
other nodes cannot tell whether they act before or after it.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from labkit.system.model.errors import BKIncorrectParameterException

Mishaps = tuple[str, ...]
_KINDS = ("crash", "lose")


def node_of(mishap: str) -> str:
    """The node whose state the mishap belongs to: the crashing bookie, or the message's sender."""
    return mishap.split()[1].partition(">")[0]


class PossibleMishaps:
    """Lists all combinations of up to `crashes` crashes and `losses` losses, beginning with none.

    The possible mishaps are discovered while runs go on: a bookie can crash before and after each
    message that it got in any run, and any message that was sent in any run can be lost.
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
        """Note mishaps that a run with `so_far` has shown to be possible."""
        for each in seen:
            kind = each.split()[0]
            count = sum(1 for other in so_far if other.startswith(kind))
            more = tuple(sorted({*so_far, each}))
            if count < self._most[kind] and more not in self._known:
                self._known[more] = None
                self._left.append(more)
