"""Finds the move of a played run after which a broken promise became inevitable.

A future of a move is an alternative continuation: a run that repeats the moves up to this one,
after which the remaining messages arrive in a random order. `labkit.worlds.sim.futures` does the
same for runs that are not played.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log2
from operator import attrgetter

from labkit.system.trace.events import Event
from labkit.worlds.sim.futures import FutureShare, largest_changes
from labkit.worlds.sim.play.played_world import MadeMove
from labkit.worlds.sim.trace import FUTURES


@dataclass(frozen=True, slots=True)
class PlayCurve:
    """The share of futures that break a promise, for some of the moves, in the order in which the
    moves took effect.

    move: the number and a description of the move that increased the share most, or None while this
        move is unknown or if no move made a difference.
    before, after: the shares before and after this move.
    remaining: an estimate of how many more moves will be tried.
    """

    shares: tuple[FutureShare, ...]
    move: tuple[int, str] | None
    before: FutureShare
    after: FutureShare
    remaining: int

    @property
    def points(self) -> list[tuple[int, float]]:
        return [(each.seq, each.share) for each in self.shares]

    @property
    def seq(self) -> int:
        """The number of the last event of the move, or -1."""
        return self.after.seq if self.move else -1

    @property
    def words(self) -> str:
        tried = self.after.tried
        if self.move is None and self.before.broken == tried:
            return (
                "Every order breaks the promise, so none of your moves made a difference:"
                f" {tried} random orders of messages were tried from the start."
            )
        if self.move is None:
            return (
                f"None of your moves made a difference: from the start on, {self.before.broken} of"
                f" {tried} futures break this promise. In a future, messages arrive in a random"
                " order."
            )
        number, words = self.move
        return (
            f"Move {number} ({words}): after it, {self.after.broken} of {tried} futures break this"
            f" promise; before it, {self.before.broken} did. In a future, all later messages arrive"
            " in a random order."
        )


def play_curves(
    made: Sequence[MadeMove], events: Sequence[Event], breaks: Callable[[int, int], bool]
) -> Iterator[PlayCurve]:
    """Try some of the moves. After each of them except the first, yield the result so far.

    `breaks` returns whether a future breaks the promise, given the number of moves that it repeats
    and a seed.
    """
    moves = in_effect_order(made)
    end = next((each.seq for each in events if each.kind == "epilogue.started"), len(events))
    event_counts = [*(move.event_count for move in moves), end]

    def share_at(count: int) -> FutureShare:
        last = events[event_counts[count] - 1]
        broken = sum(breaks(count, seed) for seed in range(FUTURES))
        return FutureShare(last.time_us, last.seq, broken, FUTURES)

    for shares, first, last in largest_changes(len(moves), share_at):
        before, after, move = shares[first], shares[last], moves[last - 1]
        is_found = last - first == 1 and before.broken < after.broken
        yield PlayCurve(
            tuple(shares[count] for count in sorted(shares)),
            (made.index(move) + 1, move.words) if is_found else None,
            before,
            after,
            ceil(log2(last - first)),
        )


def in_effect_order(made: Sequence[MadeMove]) -> list[MadeMove]:
    """Return the moves in the order in which they took effect."""
    return sorted(made, key=attrgetter("event_count"))
