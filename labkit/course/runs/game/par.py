"""Finds and proves par by a breadth-first search of all plays, ordered by the number of moves.

`levels` stores the results of this search, and a test repeats the search.

The search uses the same states as `every_order`, and runs the real code only for reactions that are
not known yet (`labkit.worlds.sim.explore.orders`). Unlike `every_order`, however, the search tries
every message in flight in every state, because two orders that no node can tell apart may differ in
their number of moves.

The search covers at least all plays with fewer moves than par. Messages to and from the metadata
server cost no moves and arrive before all other messages, in any order. A failure costs one move.
Before the run ends, whether a level's promise is kept depends only on what the clients do. The
promise is therefore checked for each message that a client receives, in each combination of the
clients' states. In states in which no message is in flight, the run is ended, and the promise is
checked then.
"""

import gc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from labkit.system.check import CHECKS, broken, check_all
from labkit.worlds.sim.explore.orders.directed_world import DirectedWorld, EnoughLearned
from labkit.worlds.sim.explore.orders.injected_failures import Failures, PossibleFailures
from labkit.worlds.sim.explore.orders.transition_table import Arrival, TransitionTable, WorldState
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection
from labkit.worlds.sim.machine.links import Parcel
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.run import outside_event_loops, trace_of
from labkit.worlds.sim.scenario.scenario import Scenario

_Path = tuple["_Path", int] | None
"""The channels of all deliveries, as a pair of the path before the last delivery and the channel of
the last delivery.
"""


@dataclass(frozen=True, slots=True)
class Shorter:
    """The result of a search.

    plays       scenarios that break the promise in fewer moves than par
    unfinished  the number of states without messages in flight in which a timer would send some;
                a play could continue from there, but the search does not
    states      the number of states
    """

    plays: tuple[Scenario, ...]
    unfinished: int
    states: int


def shorter_plays(
    scenario: Scenario, promise: str, *, crashes: int, losses: int, par: int
) -> Shorter:
    """Search for plays that break the promise, given as the name of a check, in fewer than `par`
    moves.
    """
    search = _Search(replace(scenario, in_turn=True), promise, par)
    return outside_event_loops(partial(search.run, PossibleFailures(crashes, losses)))


class _StoppedWorld(DirectedWorld):
    """A world that stops after the last delivery of the given path."""

    def choose(self, possible: list[Parcel]) -> int:  # type: ignore[override]
        if len(self.choices) == len(self.path):
            raise EnoughLearned
        return super().choose(possible)


class _Search:
    def __init__(self, scenario: Scenario, promise: str, par: int) -> None:
        self._scenario, self._par = scenario, par
        self._checks = [each for each in CHECKS if each.__name__ == promise]
        self._table = TransitionTable(scenario)
        self._clients = [self._table.nodes.index(name) for name in scenario.clients]
        self._failures: Failures = ()
        self._judged: dict[object, None] = {}
        self._plays: list[Scenario] = []
        self._unfinished = self._state_count = 0

    def run(self, possible: PossibleFailures) -> Shorter:
        self._possible = possible
        with without_garbage_collection():
            for self._failures in possible:
                self._search(self._par - 1 - len(self._failures))
        return Shorter(tuple(self._plays), self._unfinished, self._state_count)

    def _search(self, most: int) -> None:
        """Search all states that can be reached with at most this many deliveries."""
        first = self._run(DirectedWorld, ()).first
        assert first is not None
        frontier = dict(self._settled(first, None))
        seen = dict.fromkeys(frontier)
        for moves in range(most + 1):
            following = dict[WorldState, _Path]()
            for state, path in frontier.items():
                if not state.channels:
                    self._judge_end(state, path)
                for step in _heads(state) if moves < most else ():
                    for after, its_path in self._settled(*self._after(state, step, path)):
                        if after not in seen:
                            seen[after] = None
                            following[after] = its_path
            frontier = following
        self._state_count += len(seen)

    def _settled(self, state: WorldState, path: _Path) -> Iterator[tuple[WorldState, _Path]]:
        """Deliver all messages to and from the metadata server, in every possible order; yield the
        resulting states.
        """
        steps = [step for step in _heads(state) if self._table.is_metadata[step[0]]]
        if not steps:
            yield state, path
        for step in steps:
            yield from self._settled(*self._after(state, step, path))

    def _after(self, state: WorldState, step: Arrival, path: _Path) -> tuple[WorldState, _Path]:
        its_path = path, step[0]
        try:
            after = self._table.after(state, step)
        except KeyError:
            self._run(DirectedWorld, _channels(its_path))
            after = self._table.after(state, step)
        clients = tuple(state.nodes[index] for index in self._clients)
        is_new = (clients, step) not in self._judged
        if is_new and self._table.node_of[step[0]] in self._clients:
            self._judged[clients, step] = None
            channels = _channels(its_path)
            self._judge(self._run(_StoppedWorld, channels), channels)
        return after, its_path

    def _judge_end(self, state: WorldState, path: _Path) -> None:
        if state not in self._judged:
            self._judged[state] = None
            channels = _channels(path)
            world = self._run(DirectedWorld, channels, stops=False)
            self._judge(world, channels)
            self._unfinished += len(world.choices) > len(channels)

    def _judge(self, world: DirectedWorld, path: tuple[int, ...]) -> None:
        trace = trace_of(world)
        if broken(check_all(trace, self._checks)):
            order = {f"next {number}": 0.0 for number in range(len(path))}
            self._plays.append(replace(trace.explicit(), decisions=order | trace.decisions))

    def _run(
        self, kind: type[DirectedWorld], path: tuple[int, ...], *, stops: bool = True
    ) -> DirectedWorld:
        # Garbage collection is disabled while worlds run. The previous world left only young
        # objects behind, so collecting them is fast.
        gc.collect(0)
        world = kind(self._scenario, SimLoop(), self._table, path, self._failures, stops=stops)
        with suppress(EnoughLearned):
            world.loop.run(world.run())
        self._possible.add(self._failures, world.possible_failures)
        return world


def _heads(state: WorldState) -> list[Arrival]:
    return [(channel, messages[0]) for channel, messages in state.channels]


def _channels(path: _Path) -> tuple[int, ...]:
    found = []
    while path is not None:
        path, channel = path
        found.append(channel)
    return tuple(reversed(found))
