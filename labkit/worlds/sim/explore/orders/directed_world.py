"""A world that follows a given order and records how each node reacts to each message.

The state of a node consists of

    for a client                         the contents of its memory (`fingerprint`) and its
                                         decisions (an entry confirmed, a ledger closed, ...)
    for a bookie or the metadata server  all messages received, in order

If a node receives the same message in the same state again, its reaction is compared with the
table. If the two reactions differ, the node depends on something other than its messages and its
memory.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from labkit.system.trace.events import Event
from labkit.worlds.sim.chosen_order import ChosenOrderWorld
from labkit.worlds.sim.explore.orders.fingerprint import fingerprint
from labkit.worlds.sim.explore.orders.injected_failures import Failures, node_of
from labkit.worlds.sim.explore.orders.transition_table import (
    Arrival,
    Reaction,
    TransitionTable,
    WorldState,
)
from labkit.worlds.sim.machine.links import Parcel, Purpose
from labkit.worlds.sim.machine.loop import SimLoop, SimulationError
from labkit.worlds.sim.machine.network import End
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.scenario.scenario import Scenario

_NOT_DECISIONS = {
    *("add.sent", "add.acked", "add.failed", "read.sent", "read.done", "read.failed"),
    *("fence.sent", "fence.answered", "fence.failed"),
}
_FIRST_DETAIL = Event._fields.index("checksum")


class EnoughLearned(Exception):
    """Raised to end a run when nothing more can be learned from it."""


class DirectedWorld(ChosenOrderWorld):
    """Delivers one message from each channel in `path`, in that order. After that, the world
    prefers messages whose effect is unknown.

    Once no message is in flight, nothing more can be learned. With `stops`, the run then ends.
    Otherwise, the clock advances.
    """

    def __init__(
        self,
        scenario: Scenario,
        loop: SimLoop,
        learned: TransitionTable,
        path: Sequence[int],
        failures: Failures,
        *,
        stops: bool,
    ) -> None:
        decisions = {**scenario.decisions, **dict.fromkeys(failures, 1.0)}
        super().__init__(replace(scenario, decisions=decisions), loop)
        self.first: WorldState | None = None
        """The state at the first choice."""
        self.possible_failures: list[str] = []
        """Additional failures that are possible in this run. Each failure is given as the decision
        that causes it.
        """
        self._table = learned
        self._failures = failures
        self.path = path
        self._stops = stops
        self._learns = True
        self._states: list[int] = []
        self._decisions_hash = dict.fromkeys(self.clients, b"")
        self._row_count = 0
        self._delivered: tuple[int, Arrival] | None = None
        self._in_flight_before = 0
        self._actions: dict[str, list[Any]] = {}
        self._steps: dict[int, tuple[Arrival, Parcel]] = {}

    def deliver_next(self) -> bool:
        transit = self.network.transit
        if transit.choose is not None and self._learns:
            self.possible_failures += [f"crash {at} {self.received[at]}" for at in self.may_crash]
            if self.crash_some():
                return True
            self._record_outcome()
            self._learns = bool(transit.under_way)
            if self._stops and not self._learns:
                raise EnoughLearned
        return super().deliver_next()

    def choose(self, possible: Sequence[Parcel]) -> int:
        if not self._learns:
            return super().choose(possible)
        number = len(self.choices)
        steps = [self._step(each) for each in possible]
        if number < len(self.path):
            chosen = [channel for channel, _ in steps].index(self.path[number])
        else:
            chosen = next(
                (index for index, step in enumerate(steps) if not self._is_known(step)), 0
            )
        if chosen:
            self.decisions.record(f"next {number}", float(chosen))
        self.choices.append(len(possible))
        self.arrives(possible[chosen])
        self._delivered = (self._table.node_of[steps[chosen][0]], steps[chosen])
        self._in_flight_before = len(self.network.transit.under_way) - 1
        return chosen

    def _is_known(self, step: Arrival) -> bool:
        state = self._states[self._table.node_of[step[0]]]
        return step in self._table.reactions.get(state, {})

    def _record_outcome(self) -> None:
        sent = [
            self._step(each) for each in self.network.transit.under_way[self._in_flight_before :]
        ]
        rows, self._row_count = self.rows[self._row_count :], len(self.rows)
        if self._delivered is None:
            if self.first is None:
                self._states = [
                    self._table.number("first", at, self._failure_state(at))
                    for at in self._table.nodes
                ]
                self.first = self._table.first(tuple(self._states), sent)
            return
        node_index, step = self._delivered
        self._delivered = None
        self._check_senders(node_index)
        node = self._table.nodes[node_index]
        if node in self._decisions_hash:
            self._decisions_hash[node] = _add_decisions(self._decisions_hash[node], rows)
        state = self._states[node_index]
        known = self._table.reactions.get(state, {}).get(step)
        after = self._next_state(node_index, step) if known is None else known.state
        self._table.learn(state, step, Reaction(after, tuple(sent)))
        self._states[node_index] = after

    def _check_senders(self, node_index: int) -> None:
        node = self._table.nodes[node_index]
        for each in self.network.transit.under_way[self._in_flight_before :]:
            if each.link.source not in (node, each.link.target):
                raise SimulationError(
                    f"{each.link.source} sent a message when {node} received one; trying every"
                    " order requires that nodes influence each other only through messages"
                )

    def _next_state(self, node_index: int, step: Arrival) -> int:
        name = self._table.nodes[node_index]
        if name not in self.clients:
            return self._table.number(self._states[node_index], step)
        node = self.clients[name]
        assert node.process is not None
        memory = fingerprint((node.client, node.process.tasks.unfinished()))
        return self._table.number(
            name, memory, self._decisions_hash[name], self._failure_state(name)
        )

    def _failure_state(self, name: str) -> tuple[tuple[str, bool], ...]:
        """Return the part of the node's state that shows which of its failures have already
        happened.
        """
        own = [each for each in self._failures if node_of(each) == name]
        return tuple((each, each in self.decisions.drawn) for each in own)

    def _step(self, parcel: Parcel) -> Arrival:
        known = self._steps.get(id(parcel))
        if known is None:
            self._record_losable(parcel)
            content = repr((parcel.purpose, parcel.bodies))
            step = self._channel(parcel), self._table.number("message", content)
            # Keep a reference to the parcel, so that no other object can get the parcel's address.
            known = self._steps[id(parcel)] = (step, parcel)
        return known[0]

    def _record_losable(self, parcel: Parcel) -> None:
        """Record that the parcel can be lost, if it contains frames between a bookie and a
        client.
        """
        ends = parcel.link.source, parcel.link.target
        if parcel.purpose is Purpose.FRAMES and METADATA_SERVER not in ends:
            self.possible_failures.append(f"lose {parcel}")

    def _channel(self, parcel: Parcel) -> int:
        """Return a parcel's channel. Each connection, each action, and each message that may be
        overtaken by other messages has its own channel.
        """
        if parcel.is_swapped:
            name = f"{parcel} swapped"
        elif isinstance(parcel.receiver, End):
            name = f"{parcel.link.name} {parcel.receiver.number}"
        else:
            actions = self._actions.setdefault(parcel.link.name, [])
            if parcel.action not in actions:
                actions.append(parcel.action)
            name = f"{parcel.link.name} action {actions.index(parcel.action)}"
        return self._table.channel(name, parcel.link.target)


def _add_decisions(before: bytes, rows: Sequence[Event]) -> bytes:
    for row in rows:
        if row.kind not in _NOT_DECISIONS:
            text = repr((row.kind, row.ledger, row.entry, *row[_FIRST_DETAIL:]))
            before = blake2b(before + text.encode(), digest_size=16).digest()
    return before
