"""Every order in which the messages of a small scenario can arrive, instead of a sample.

    every_order(Scenario(workload=(Write(entries=1), Recover(when=On("add.pushed")))))

The real code runs, but not once for each order: there are millions.  What a node does depends only
on its state and the message that it gets, so the real code runs once for each such pair
(`directed_world`), and the search walks through the states of the world by the table of the results
(`transition_table`):

    1  depth first from the first choice, each state of the world once; a message whose effect is
       not known yet is tried in a run of the real code; the table takes everything that this run
       shows, and all checks judge it
    2  for each state in which no message is in flight, one order that leads there is run to its
       end, epilogue included, and judged
    3  again from the start, until the table does not change

Two orders that differ only in which of two nodes got its message first are the same to every node,
so only one of them is tried (`TransitionTable.choices`).

So everything that a node may do with a message, and every state that the world may reach, has been
judged.  With `crashes` and `losses` all this is repeated for each combination of up to that number
(`injected_failures`).

What this leaves out: disk operations take no time; a crashed bookie is back at once; no timeout
fires; and a promise that compares moments on two nodes is judged in only one of the orders that are
the same to both.
"""

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from labkit.system.check import CHECKS, Check, broken, check_all
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.explore.orders.directed_world import DirectedWorld, EnoughLearned
from labkit.worlds.sim.explore.orders.injected_failures import Mishaps, PossibleMishaps
from labkit.worlds.sim.explore.orders.transition_table import Arrival, TransitionTable, WorldState
from labkit.worlds.sim.explore.progress import ProgressLine
from labkit.worlds.sim.explore.search import Finding
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.run import live, outside_event_loops, run, trace_of
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The result of all orders, or of those that were tried in time (not `complete`).

    mishaps: the number of combinations of crashes and losses, including none. states: of the world;
    ends: those without a message in flight. orders: the number of paths through the states, if
    known (else 0); each stands for all orders that are the same to every node. outcomes: pairs of a
    node's state and a message, with what the node does; runs: of the real code. findings: one for
    each promise that breaks, with as few decisions as possible; broken_ends: the number of ends
    that break one.
    """

    mishaps: int
    states: int
    ends: int
    orders: int
    outcomes: int
    runs: int
    complete: bool
    findings: tuple[Finding, ...]
    broken_ends: int
    seconds: float = field(compare=False)

    def __repr__(self) -> str:
        how = "all" if self.complete else "not all"
        how = f"with {self.mishaps:,} combinations of mishaps, {how}" if self.mishaps > 1 else how
        head = (
            f"{how} orders: {self.orders:,} through {self.states:,} states to {self.ends:,} ends,"
            f" {self.broken_ends:,} of which break a promise"
            f" ({self.outcomes:,} outcomes learnt; {self.runs:,} runs, {self.seconds:.1f} s)"
        )
        return "\n".join((head, *map(repr, self.findings)))


OnProgress = Callable[[int, int], None]


def every_order(
    scenario: Scenario,
    *,
    crashes: int = 0,
    losses: int = 0,
    checks: Sequence[type[Check]] = CHECKS,
    patience_s: float = 60.0,
    stop_at: int = 0,
    on_progress: OnProgress | None = None,
) -> Enumeration:
    """Try all orders of the scenario's messages, for at most `patience_s`, or until `stop_at`
    promises broke (0: all).

    At most `crashes` times, a bookie loses power between two messages that it gets, with all
    unsynced data, and restarts.  At most `losses` messages between clients and bookies are lost,
    and the connection does not notice.

    Steps may depend on each other only through messages: all but the first wait for an event (`On`)
    of one node.  `on_progress` is called repeatedly with the number of states visited and of
    promises found broken. Raises `BKIncorrectParameterException` for a scenario with faults or a
    seed, and `SimulationError` for one whose nodes depend on something besides messages.
    """
    is_ordered = any(name.startswith("next ") for name in scenario.decisions)
    if scenario.faults or scenario.seed is not None or is_ordered:
        raise BKIncorrectParameterException(
            "every order is tried without faults, without a seed and without decisions about the"
            " order (next 0, ...): take them out of the scenario"
        )
    possible = PossibleMishaps(crashes, losses)
    in_turn = replace(scenario, in_turn=True)
    search = _Search(in_turn, possible, checks, patience_s, stop_at, on_progress)
    return outside_event_loops(search.run)


class _Search:
    def __init__(
        self,
        scenario: Scenario,
        possible: PossibleMishaps,
        checks: Sequence[type[Check]],
        patience_s: float,
        stop_at: int,
        on_progress: OnProgress | None,
    ) -> None:
        self._scenario = scenario
        self._possible = possible
        self._checks = checks
        self._began = time.monotonic()
        self._until = self._began + patience_s
        self._stop_at = stop_at
        self._tell = on_progress or ProgressLine(what="states")
        self._table = TransitionTable(scenario)
        self._mishaps: Mishaps = ()
        """The mishaps that are tried now."""
        self._mishap_count = self._state_count = self._end_count = self._order_count = 0
        self._broken_end_count = 0
        """The sum over the mishaps that were tried before."""
        self._run_count = 0
        self._orders: dict[WorldState, int] = {}
        self._ends: list[WorldState] = []
        self._is_broken: dict[WorldState, bool] = {}
        self._found: dict[str, Finding] = {}

    def run(self) -> Enumeration:
        with without_garbage_collection():
            is_complete = all(map(self._go_through, self._possible))
            found = tuple(self._smaller(self._found[name]) for name in sorted(self._found))
        return Enumeration(
            self._mishap_count,
            self._state_count,
            self._end_count,
            self._order_count if is_complete else 0,
            self._table.outcome_count,
            self._run_count,
            is_complete,
            found,
            self._broken_end_count,
            time.monotonic() - self._began,
        )

    @property
    def _must_stop(self) -> bool:
        has_enough = self._stop_at and len(self._found) >= self._stop_at
        return bool(has_enough) or time.monotonic() > self._until

    def _go_through(self, mishaps: Mishaps) -> bool:
        """Try all orders with the mishaps; False when the search must stop."""
        self._mishaps = mishaps
        is_complete = self._search_until_nothing_is_new(self._learn(()))
        self._mishap_count += 1
        self._state_count += len(self._orders)
        self._end_count += len(self._ends)
        # The first state is left last, with the orders of all others added up.
        self._order_count += next(reversed(self._orders.values()), 0)
        self._broken_end_count += sum(self._is_broken[moment] for moment in self._ends)
        return is_complete

    def _search_until_nothing_is_new(self, first: WorldState) -> bool:
        count = -1
        while count != self._table.outcome_count:
            count = self._table.outcome_count
            self._orders.clear()
            self._ends.clear()
            if not self._search(first):
                return False
        return True

    def _search(self, first: WorldState) -> bool:
        """Walk through all states, depth first; False when the search must stop."""
        stack = [_Visit(first, self._table.choices(first))]
        while stack:
            visit = stack[-1]
            if visit.next == len(visit.steps):
                stack.pop()
                self._orders[visit.moment] = visit.orders
                if stack:
                    stack[-1].orders += visit.orders
                continue
            if self._must_stop:
                return False
            step = visit.steps[visit.next]
            visit.next += 1
            moment = self._after(visit.moment, step, stack)
            orders = self._orders.get(moment)
            if orders is not None:
                visit.orders += orders
                continue
            self._tell(self._state_count + len(self._orders), len(self._found))
            if not moment.channels:
                self._end(moment, _path(stack))
                visit.orders += 1
            else:
                stack.append(_Visit(moment, self._table.choices(moment)))
        return True

    def _end(self, moment: WorldState, path: tuple[int, ...]) -> None:
        self._orders[moment] = 1
        self._ends.append(moment)
        if moment not in self._is_broken:
            world = self._world(path, stops=False)
            self._is_broken[moment] = self._judge(live(world))
            self._possible.add(self._mishaps, world.possible_mishaps)

    def _after(self, moment: WorldState, step: Arrival, stack: "Sequence[_Visit]") -> WorldState:
        try:
            return self._table.after(moment, step)
        except KeyError:
            self._learn(_path(stack))
            return self._table.after(moment, step)

    def _learn(self, path: tuple[int, ...]) -> WorldState:
        """Run the real code along the path, and on until no message is in flight."""
        world = self._world(path, stops=True)
        with suppress(EnoughLearned):
            world.loop.run(world.live())
        self._judge(trace_of(world))
        self._possible.add(self._mishaps, world.possible_mishaps)
        assert world.first is not None
        return world.first

    def _world(self, path: tuple[int, ...], *, stops: bool) -> DirectedWorld:
        # Collection is off while worlds run; what the last one left is young, so this is quick.
        gc.collect(0)
        self._run_count += 1
        return DirectedWorld(
            self._scenario, SimLoop(), self._table, path, self._mishaps, stops=stops
        )

    def _judge(self, trace: Trace) -> bool:
        """Keep the smallest finding for each promise; returns whether one broke."""
        verdicts = broken(check_all(trace, self._checks))
        for verdict in verdicts:
            known = self._found.get(verdict.name)
            if known is None or len(trace.decisions) < len(known.scenario.decisions):
                self._found[verdict.name] = Finding(trace.explicit(), verdict.name, verdict.reason)
        return bool(verdicts)

    def _smaller(self, finding: Finding) -> Finding:
        """The same promise broken with fewer decisions: each decision is dropped if possible."""
        checks = [check for check in self._checks if check.__name__ == finding.promise]
        for name in reversed(list(finding.scenario.decisions)):
            if name in self._scenario.decisions:
                continue
            left = {key: to for key, to in finding.scenario.decisions.items() if key != name}
            scenario = replace(finding.scenario, decisions=left)
            self._run_count += 1
            for verdict in broken(check_all(run(scenario), checks)):
                finding = Finding(scenario, verdict.name, verdict.reason)
        return finding


@dataclass(slots=True)
class _Visit:
    """A state on the path, and which of its choices were taken."""

    moment: WorldState
    steps: list[Arrival]
    next: int = 0
    orders: int = 0


def _path(stack: "Iterable[_Visit]") -> tuple[int, ...]:
    return tuple(visit.steps[visit.next - 1][0] for visit in stack)
