"""Finds a short way to break a promise: plays at random, then leaves out moves.

`levels` stores what this search found, and a test repeats it. The result is the shortest that the
search finds, not necessarily the shortest possible.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random

from labkit.system.check import CHECKS, Check, broken, check_all
from labkit.worlds.sim.machine.links import Parcel
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.play.played import play
from labkit.worlds.sim.play.played_world import (
    ImpossibleMoveError,
    MovesMade,
    PlayedWorld,
    is_delivery,
)
from labkit.worlds.sim.run import outside_event_loops, run_world, trace_of
from labkit.worlds.sim.scenario.scenario import Scenario

_MOST_RECEIVED, _MOST_SENT = 4, 5
"""Power cuts and losses are drawn among the first messages of a bookie and of a link."""


def shortest_play(
    scenario: Scenario, promise: str, *, crashes: int, losses: int, plays: int, seed: int = 0
) -> tuple[str, ...]:
    """Return the shortest of the ways found to break the promise (the name of a check), as moves
    that a player can make one after the other; () if no play broke it.

    crashes, losses: the maximum numbers of power cuts and of lost messages.
    """
    search = _Search(replace(scenario, in_turn=True), promise)
    shortest: tuple[str, ...] = ()
    for number in range(plays):
        moves = search.random_play(Random(f"{seed} {number}"), crashes, losses)
        short = search.playable(search.shortened(moves)) if moves else ()
        if short and (not shortest or len(short) < len(shortest)):
            shortest = short
    return shortest


class _RandomWorld(PlayedWorld):
    random: Random

    def after_the_moves(self, possible: Sequence[Parcel]) -> int:
        return self.random.randrange(len(possible))


class _Search:
    def __init__(self, scenario: Scenario, promise: str) -> None:
        self._scenario = scenario
        self._checks: list[type[Check]] = [each for each in CHECKS if each.__name__ == promise]

    def random_play(self, random: Random, crashes: int, losses: int) -> list[str]:
        """Play at random to the end; return the moves if they break the promise, or []."""
        bookies, clients = self._scenario.cluster.names, self._scenario.clients
        failures = dict[str, None]()
        for _ in range(random.randint(0, crashes)):
            failures[f"crash {random.choice(bookies)} {random.randrange(_MOST_RECEIVED)}"] = None
        for _ in range(random.randint(0, losses)):
            ends = [random.choice(bookies), random.choice(clients)]
            random.shuffle(ends)
            failures[f"lose {'>'.join(ends)} {random.randrange(_MOST_SENT)}"] = None
        world = _RandomWorld(
            self._scenario, SimLoop(), tuple(failures), is_quick=True, to_the_end=True
        )
        world.random = random
        trace = outside_event_loops(partial(run_world, world))
        return [each.name for each in world.made] if broken(check_all(trace, self._checks)) else []

    def shortened(self, moves: Sequence[str]) -> list[str]:
        """Leave out as many moves as possible, half of them, a quarter, ... at a time."""
        kept, before = list(moves), -1
        while before != len(kept):
            before, size = len(kept), len(kept) // 2
            while size:
                for at in range(len(kept) - size, -1, -size):
                    fewer = kept[:at] + kept[at + size :]
                    if self.breaks(fewer):
                        kept = fewer
                size //= 2
        return kept

    def breaks(self, moves: Sequence[str]) -> bool:
        world = PlayedWorld(self._scenario, SimLoop(), moves, is_quick=True)
        try:
            with suppress(MovesMade):
                outside_event_loops(partial(run_world, world))
            world.finish_moves()
        except ImpossibleMoveError:
            return False
        return bool(broken(check_all(trace_of(world), self._checks)))

    def playable(self, moves: Sequence[str]) -> tuple[str, ...]:
        """Make each power cut and each loss as soon as it is possible."""
        deliveries = [move for move in moves if is_delivery(move)]
        failures = [move for move in moves if not is_delivery(move)]
        played = play(self._scenario)
        while deliveries or failures:
            move = next((each for each in failures if each in played.possible), "")
            if move:
                failures.remove(move)
            elif deliveries:
                move = deliveries.pop(0)
            else:
                return ()
            played = played.after(move)
        return played.moves
