"""Tries every order in which the messages of a small scenario can arrive, not just a sample.

    every_order(Scenario(workload=(Write(entries=1), Recover(when=On("add.pushed")))))

Running the real code once for each of the millions of orders would take too long. But a node's
reaction depends only on its state and the message that it receives, so the real code runs only once
for each such pair (`directed_world`). The search then explores the states of the world with the
help of a table of these reactions (`transition_table`):

    1  Explore depth first from the first choice, visiting each state of the world once. If the
       effect of a message is not known yet, run the real code, add everything learned from this
       run to the table, and apply all checks to the run.
    2  For each state without messages in flight, pick one order that leads to it, run it to the
       end (including the epilogue), and apply all checks.
    3  Repeat both steps until the table no longer changes.

If two orders differ only in which of two nodes receives its message first, no node can distinguish
them, so only one of the two orders is tried (`TransitionTable.choices`).

As a result, the search checks every possible reaction of a node to a message and every reachable
state of the world. With `crashes` and `losses`, the whole search is repeated for each combination
of up to that many failures (`injected_failures`).

This search has limitations. Disk operations take no time, a crashed bookie restarts immediately,
and no timeout fires. If no node can distinguish several orders, only one of them is checked, even
for a promise that compares times on two nodes.
"""

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from labkit.system.check import CHECKS, Check, broken, check_all
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.explore.orders.directed_world import DirectedWorld, EnoughLearned
from labkit.worlds.sim.explore.orders.injected_failures import Failures, PossibleFailures
from labkit.worlds.sim.explore.orders.transition_table import Arrival, TransitionTable, WorldState
from labkit.worlds.sim.explore.progress import ProgressLine
from labkit.worlds.sim.explore.search import Finding
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.run import outside_event_loops, run, run_world, trace_of
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The result for all orders or, if the search is not `complete`, for the orders that were tried
    before it stopped.

    failure_combinations  number of combinations of crashes and losses, including none
    states                number of states of the world
    ends                  number of states without messages in flight
    orders                number of paths through the states, or 0 if unknown; each path stands
                          for all orders that look the same to every node
    outcomes              number of pairs of node state and message with a known reaction
    runs                  number of runs of the real code
    findings              one finding for each broken promise, with as few decisions as possible
    broken_ends           number of ends that break a promise
    """

    failure_combinations: int
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
        scope = "all" if self.complete else "not all"
        if self.failure_combinations > 1:
            scope = f"with {self.failure_combinations:,} combinations of failures, {scope}"
        head = (
            f"{scope} orders: {self.orders:,} through {self.states:,} states to {self.ends:,} ends,"
            f" {self.broken_ends:,} of which break a promise"
            f" ({self.outcomes:,} outcomes learned; {self.runs:,} runs, {self.seconds:.1f} s)"
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
    """Try all orders of the scenario's messages for at most `patience_s` seconds, or until
    `stop_at` promises have been broken (0: no limit).

    Up to `crashes` times, a bookie loses power and all unsynced data between two messages, and
    restarts. Up to `losses` messages between clients and bookies are lost, although their
    connection stays open.

    Steps may depend on each other only through messages, so every step except the first must wait
    for an event (`On`) of a single node. `on_progress` is called repeatedly with the number of
    states visited and the number of broken promises found. Raises `BKIncorrectParameterException`
    if the scenario has faults or a seed, and `SimulationError` if its nodes depend on anything
    other than messages.
    """
    is_ordered = any(name.startswith(("next ", "wait ")) for name in scenario.decisions)
    if scenario.faults or scenario.seed is not None or is_ordered:
        raise BKIncorrectParameterException(
            "every_order requires a scenario without faults, seed and decisions about the order"
            " (next 0, ...); remove them from the scenario"
        )
    possible = PossibleFailures(crashes, losses)
    in_turn = replace(scenario, in_turn=True)
    search = _Search(in_turn, possible, checks, patience_s, stop_at, on_progress)
    return outside_event_loops(search.run)


class _Search:
    def __init__(
        self,
        scenario: Scenario,
        possible: PossibleFailures,
        checks: Sequence[type[Check]],
        patience_s: float,
        stop_at: int,
        on_progress: OnProgress | None,
    ) -> None:
        self._scenario = scenario
        self._possible = possible
        self._checks = checks
        self._started_at = time.monotonic()
        self._deadline = self._started_at + patience_s
        self._stop_at = stop_at
        self._report = on_progress or ProgressLine(what="states")
        self._table = TransitionTable(scenario)
        self._failures: Failures = ()
        """The failures that are currently injected."""
        self._combination_count = self._state_count = self._end_count = self._order_count = 0
        self._broken_end_count = 0
        """The totals over all combinations of failures that have already been tried."""
        self._run_count = 0
        self._orders: dict[WorldState, int] = {}
        self._ends: list[WorldState] = []
        self._is_broken: dict[WorldState, bool] = {}
        self._found: dict[str, Finding] = {}

    def run(self) -> Enumeration:
        with without_garbage_collection():
            is_complete = all(map(self._try_with_failures, self._possible))
            found = tuple(self._smaller(self._found[name]) for name in sorted(self._found))
        return Enumeration(
            self._combination_count,
            self._state_count,
            self._end_count,
            self._order_count if is_complete else 0,
            self._table.outcome_count,
            self._run_count,
            is_complete,
            found,
            self._broken_end_count,
            time.monotonic() - self._started_at,
        )

    @property
    def _must_stop(self) -> bool:
        has_enough = self._stop_at and len(self._found) >= self._stop_at
        return bool(has_enough) or time.monotonic() > self._deadline

    def _try_with_failures(self, failures: Failures) -> bool:
        self._failures = failures
        is_complete = self._search_until_complete(self._learn(()))
        self._combination_count += 1
        self._state_count += len(self._orders)
        self._end_count += len(self._ends)
        # States are recorded in post-order, so the last entry belongs to the root and holds the
        # total.
        self._order_count += next(reversed(self._orders.values()), 0)
        self._broken_end_count += sum(self._is_broken[world_state] for world_state in self._ends)
        return is_complete

    def _search_until_complete(self, first: WorldState) -> bool:
        count = -1
        while count != self._table.outcome_count:
            count = self._table.outcome_count
            self._orders.clear()
            self._ends.clear()
            if not self._search(first):
                return False
        return True

    def _search(self, first: WorldState) -> bool:
        """Visit all states depth first. Return False if the search must stop."""
        stack = [_Visit(first, self._table.choices(first))]
        while stack:
            visit = stack[-1]
            if visit.next == len(visit.steps):
                stack.pop()
                self._orders[visit.world_state] = visit.orders
                if stack:
                    stack[-1].orders += visit.orders
                continue
            if self._must_stop:
                return False
            step = visit.steps[visit.next]
            visit.next += 1
            world_state = self._after(visit.world_state, step, stack)
            orders = self._orders.get(world_state)
            if orders is not None:
                visit.orders += orders
                continue
            self._report(self._state_count + len(self._orders), len(self._found))
            if not world_state.channels:
                self._end(world_state, _path(stack))
                visit.orders += 1
            else:
                stack.append(_Visit(world_state, self._table.choices(world_state)))
        return True

    def _end(self, world_state: WorldState, path: tuple[int, ...]) -> None:
        self._orders[world_state] = 1
        self._ends.append(world_state)
        if world_state not in self._is_broken:
            world = self._world(path, stops=False)
            self._is_broken[world_state] = self._judge(run_world(world))
            self._possible.add(self._failures, world.possible_failures)

    def _after(
        self, world_state: WorldState, step: Arrival, stack: "Sequence[_Visit]"
    ) -> WorldState:
        try:
            return self._table.after(world_state, step)
        except KeyError:
            self._learn(_path(stack))
            return self._table.after(world_state, step)

    def _learn(self, path: tuple[int, ...]) -> WorldState:
        world = self._world(path, stops=True)
        with suppress(EnoughLearned):
            world.loop.run(world.run())
        self._judge(trace_of(world))
        self._possible.add(self._failures, world.possible_failures)
        assert world.first is not None
        return world.first

    def _world(self, path: tuple[int, ...], *, stops: bool) -> DirectedWorld:
        # Garbage collection is disabled while worlds run, so free the previous world here. All its
        # objects are young, so this is fast.
        gc.collect(0)
        self._run_count += 1
        return DirectedWorld(
            self._scenario, SimLoop(), self._table, path, self._failures, stops=stops
        )

    def _judge(self, trace: Trace) -> bool:
        """Keep the smallest finding for each promise. Return whether the run broke any promise."""
        verdicts = broken(check_all(trace, self._checks))
        for verdict in verdicts:
            known = self._found.get(verdict.name)
            if known is None or len(trace.decisions) < len(known.scenario.decisions):
                self._found[verdict.name] = Finding(trace.explicit(), verdict.name, verdict.reason)
        return bool(verdicts)

    def _smaller(self, finding: Finding) -> Finding:
        """Return a finding that breaks the same promise, but contains no unnecessary decisions."""
        checks = [check for check in self._checks if check.__name__ == finding.promise]
        for name in reversed(list(finding.scenario.decisions)):
            if name in self._scenario.decisions:
                continue
            remaining = {
                key: value for key, value in finding.scenario.decisions.items() if key != name
            }
            scenario = replace(finding.scenario, decisions=remaining)
            self._run_count += 1
            for verdict in broken(check_all(run(scenario), checks)):
                finding = Finding(scenario, verdict.name, verdict.reason)
        return finding


@dataclass(slots=True)
class _Visit:
    """A state on the current path, and the number of choices that have already been tried in this
    state.
    """

    world_state: WorldState
    steps: list[Arrival]
    next: int = 0
    orders: int = 0


def _path(stack: "Iterable[_Visit]") -> tuple[int, ...]:
    return tuple(visit.steps[visit.next - 1][0] for visit in stack)
