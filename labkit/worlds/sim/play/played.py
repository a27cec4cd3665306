"""A run up to the last move: its events, the messages in flight, and the broken promises.

    played = play(Scenario(workload=(Write(entries=1), Recover(when=On("add.pushed")))))
    played.in_flight                             # the messages that can arrive next
    played = played.after("deliver w>b0 2")      # one more move

A `Played` object is immutable. Each move repeats the run from the start, which takes less than a
tenth of a second. Undoing a move repeats the run without that move. The run ends when no message is
left in flight. All bookies then lose power once, and every entry is read back.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from labkit.system.check import Verdict, broken, check_all
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.machine.links import Parcel
from labkit.worlds.sim.machine.loop import SimLoop, SimulationError
from labkit.worlds.sim.play.late_syncs import LateSyncWorld
from labkit.worlds.sim.play.lost_copies import lost_copy
from labkit.worlds.sim.play.play_curve import PlayCurve, in_effect_order, play_curves
from labkit.worlds.sim.play.played_world import (
    FAILURES,
    InFlight,
    MadeMove,
    MovesMade,
    NamedOrderWorld,
    PlayedWorld,
    Rest,
    is_delivery,
    stop,
)
from labkit.worlds.sim.run import outside_event_loops, run, run_world, trace_of
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Write

STEP_BUDGET = 500_000


@dataclass(frozen=True, slots=True, repr=False)
class Played:
    """A run after some moves.

    start       the scenario before the first move
    made        the moves, in order
    is_quick    whether messages to and from the metadata server arrive by themselves
    scenario    the scenario whose decisions are these moves: `run` repeats them, and then delivers
                the oldest message each time
    trace       the trace of the run so far
    late_syncs  the `seq` of each event that reports a sync too early, with the `seq` of the event
                before which the sync happened, or -1 if it has not happened
    in_flight   the messages in flight
    cuts        the possible power cuts, as moves; once the run has ended, those before its end
    wait        the move that lets requests time out, or ""
    is_over     whether no message was left, so that the run has ended and everything was read back
    broken      the verdicts about the promises that are broken so far
    """

    start: Scenario
    made: tuple[MadeMove, ...]
    is_quick: bool
    scenario: Scenario
    trace: Trace
    late_syncs: Mapping[int, int]
    in_flight: tuple[InFlight, ...]
    cuts: tuple[str, ...]
    wait: str
    is_over: bool
    broken: tuple[Verdict, ...]

    @property
    def moves(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.made)

    @property
    def readers(self) -> tuple[str, ...]:
        """The names of the clients that do not write."""
        writers = [step.client for step in self.start.workload if isinstance(step, Write)]
        return tuple(name for name in self.start.clients if name not in writers)

    @property
    def possible(self) -> tuple[str, ...]:

        moves = [f"deliver {each.name}" for each in self.in_flight if not each.behind]
        for each in self.in_flight:
            # A copy has the same name as its message, so a message cannot be copied twice, and
            # cannot be lost after it has been copied.
            if each.can_fail and f"copy {each.name}" not in self.moves:
                moves += [f"lose {each.name}", f"copy {each.name}"]
        return (*dict.fromkeys(moves), *self.cuts, *([self.wait] if self.wait else []))

    def after(self, *moves: str) -> "Played":
        """Return the run with further moves added. Raises `ImpossibleMoveError`."""
        return play(self.start, (*self.moves, *moves), is_quick=self.is_quick)

    def before(self, count: int = 1) -> "Played":
        """Return the run without its last moves."""
        return play(self.start, self.moves[: len(self.moves) - count], is_quick=self.is_quick)

    def to_the_end(self) -> "Played":
        """Return the run after all remaining messages have arrived, oldest first."""
        return _play(self.start, self.moves, is_quick=self.is_quick, rest=_oldest)

    def future(self, count: int, seed: int) -> "Played":
        """Return a run that consists of the first `count` moves, after which all other messages
        arrive in random order. The moves are counted in the order in which they took effect. Raises
        `SimulationError`.
        """
        moves = [each.name for each in in_effect_order(self.made)[:count]]
        random = Random(seed)
        return _play(
            self.start,
            moves,
            is_quick=self.is_quick,
            rest=lambda possible: random.randrange(len(possible)),
        )

    def loss_curves(self, promise: str) -> Iterator[PlayCurve]:
        """Find out after which move the broken promise became inevitable. After each move that was
        tried, yields the result so far.
        """

        def breaks(count: int, seed: int) -> bool:
            try:
                future = self.future(count, seed)
            except SimulationError:
                return False
            return any(each.name == promise for each in future.broken)

        return play_curves(self.made, self.trace.events, breaks)

    def whole(self) -> Trace:
        """Return the complete run of `scenario`, which does not stop after the last move."""
        return self.trace if self.is_over else run(self.scenario, STEP_BUDGET)

    def whole_late_syncs(self) -> Mapping[int, int]:

        world = LateSyncWorld(self.scenario, SimLoop(STEP_BUDGET))
        outside_event_loops(partial(run_world, world))
        return world.late_syncs

    def __repr__(self) -> str:
        where = "over" if self.is_over else f"{len(self.in_flight)} messages in flight"
        names = ", ".join(each.name for each in self.broken) or "none"
        return f"Played: {len(self.moves)} moves, {where}, broken promises: {names}"


def play(scenario: Scenario, moves: Sequence[str] = (), *, is_quick: bool = True) -> Played:
    """Run a scenario up to the last of these moves.

    The scenario's own decisions about the order of messages become the first moves. Raises
    `ImpossibleMoveError`, and `BKIncorrectParameterException` if the scenario has a seed, because
    its random decisions would then depend on the moves.
    """
    if scenario.seed is not None:
        raise BKIncorrectParameterException(
            "a scenario with a seed cannot be played; use its explicit decisions instead:"
            " run(scenario).explicit()"
        )
    start, own, is_quick = _without_moves(replace(scenario, in_turn=True), is_quick=is_quick)
    return _play(start, (*own, *moves), is_quick=is_quick)


def _oldest(possible: Sequence[Parcel]) -> int:
    return 0


def _play(start: Scenario, moves: Sequence[str], *, is_quick: bool, rest: Rest = stop) -> Played:
    world = PlayedWorld(start, SimLoop(STEP_BUDGET), moves, is_quick=is_quick, rest=rest)
    trace, is_over = outside_event_loops(partial(_run_until_stopped, world))
    world.finish_moves()
    lost = None if is_over else lost_copy(trace.events, world.lost_syncs)
    scenario = replace(start, decisions=dict(world.decided))
    return Played(
        start,
        tuple(world.made),
        is_quick,
        scenario,
        replace(trace, scenario=scenario),
        world.late_syncs,
        () if is_over else world.in_flight(),
        world.possible_crashes(),
        "" if is_over else world.possible_wait(),
        is_over,
        (*broken(check_all(trace, is_complete=True)), *([lost] if lost else [])),
    )


def _run_until_stopped(world: PlayedWorld | NamedOrderWorld) -> tuple[Trace, bool]:
    with suppress(MovesMade):
        return run_world(world), True
    return trace_of(world), False


def _without_moves(scenario: Scenario, *, is_quick: bool) -> tuple[Scenario, list[str], bool]:
    """Split a scenario into the scenario before the first move and the moves that it contains.

    The third value is False if the scenario cannot be played with `is_quick`, because its metadata
    messages arrive in another order.
    """
    order = [int(name.split()[1]) for name in scenario.decisions if name.startswith("next ")]
    if not order:
        return scenario, [], is_quick
    world = NamedOrderWorld(scenario, SimLoop(STEP_BUDGET), max(order) + 1)
    outside_event_loops(partial(_run_until_stopped, world))
    moves, rest, delivered = list[str](), dict[str, float](), 0
    for name, value in scenario.decisions.items():
        kind = name.split()[0]
        if kind == "next":
            upto = int(name.split()[1]) + 1
            moves += world.named[delivered:upto]
            delivered = max(delivered, upto)
        elif kind in FAILURES and value:
            moves.append(name)
        else:
            rest[name] = value
    start = replace(scenario, decisions=rest)
    if is_quick:
        few = [move for move in moves if not (is_delivery(move) and move in world.metadata)]
        quick = _play(start, few, is_quick=True).scenario
        is_same = quick == scenario
        if len(order) <= max(order):  # Decisions with the value 0 are omitted.
            is_same = run(quick, STEP_BUDGET).digest == run(scenario, STEP_BUDGET).digest
        if is_same:
            return start, few, True
    return start, moves, False
