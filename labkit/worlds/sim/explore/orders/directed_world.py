"""A world that follows a given order, and records what each node does with each message.

A node's state is

    of a client                        what it has in memory (`fingerprint`), and its decisions
                                       (an entry confirmed, a ledger closed, ...)
    of a bookie, the metadata server   all messages that it got, in order

A reaction that is seen again is compared with the table, so a node that depends on more than its
messages and its memory is detected.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from labkit.system.trace.recorder import Row
from labkit.worlds.sim.chosen_order import ChosenOrderWorld
from labkit.worlds.sim.explore.orders.fingerprint import fingerprint
from labkit.worlds.sim.explore.orders.injected_failures import Mishaps, node_of
from labkit.worlds.sim.explore.orders.transition_table import (
    Arrival,
    Reaction,
    TransitionTable,
    WorldState,
)
from labkit.worlds.sim.machine.links import Parcel
from labkit.worlds.sim.machine.loop import SimLoop, SimulationError
from labkit.worlds.sim.machine.network import End
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.scenario.scenario import Scenario

_LEADS_TO_A_DECISION = {
    *("add.sent", "add.acked", "add.failed", "read.sent", "read.done", "read.failed"),
    *("fence.sent", "fence.answered", "fence.failed"),
}


class EnoughLearned(Exception):
    """Ends a run that has nothing more to teach."""


class DirectedWorld(ChosenOrderWorld):
    """Delivers messages of the channels in `path`, then those whose effect is not known yet.

    When no message is in flight there is nothing more to learn: time goes on, or with `stops` the
    run ends.
    """

    def __init__(
        self,
        scenario: Scenario,
        loop: SimLoop,
        learned: TransitionTable,
        path: Sequence[int],
        mishaps: Mishaps,
        *,
        stops: bool,
    ) -> None:
        decisions = {**scenario.decisions, **dict.fromkeys(mishaps, 1.0)}
        super().__init__(replace(scenario, decisions=decisions), loop)
        self.first: WorldState | None = None
        """The moment of the first choice."""
        self.possible_mishaps: list[str] = []
        """Further mishaps that are possible in this run, each as the decision that causes it."""
        self._table = learned
        self._mishaps = mishaps
        self._path = path
        self._stops = stops
        self._learns = True
        self._states: list[int] = []
        self._decided = dict.fromkeys(self.clients, b"")
        self._row_count = 0
        self._arriving: tuple[int, Arrival] | None = None
        self._seen = 0
        self._actions: dict[str, list[Any]] = {}
        self._steps: dict[int, tuple[Arrival, Parcel]] = {}

    def deliver_next(self) -> bool:
        transit = self.network.transit
        if transit.choose is not None and self._learns:
            self.possible_mishaps += [f"crash {at} {self.received[at]}" for at in self.may_crash]
            if self.crash_some():
                return True
            self._look()
            self._learns = bool(transit.under_way)
            if self._stops and not self._learns:
                raise EnoughLearned
        return super().deliver_next()

    def choose(self, possible: Sequence[Parcel]) -> int:
        if not self._learns:
            return super().choose(possible)
        number = len(self.choices)
        steps = [self._step(each) for each in possible]
        if number < len(self._path):
            chosen = [channel for channel, _ in steps].index(self._path[number])
        else:
            chosen = next((at for at, step in enumerate(steps) if not self._is_known(step)), 0)
        if chosen:
            self.decisions.drawn[f"next {number}"] = float(chosen)
        self.choices.append(len(possible))
        self.arrives(possible[chosen])
        self._arriving = (self._table.node_of[steps[chosen][0]], steps[chosen])
        self._seen = len(self.network.transit.under_way) - 1
        return chosen

    def _is_known(self, step: Arrival) -> bool:
        state = self._states[self._table.node_of[step[0]]]
        return step in self._table.known.get(state, {})

    def _look(self) -> None:
        """Record the outcome of the message that arrived last."""
        sent = [self._step(each) for each in self.network.transit.under_way[self._seen :]]
        rows, self._row_count = self.rows[self._row_count :], len(self.rows)
        if self._arriving is None:
            if self.first is None:
                self._states = [
                    self._table.number("first", at, self._mishap(at)) for at in self._table.nodes
                ]
                self.first = self._table.first(tuple(self._states), sent)
            return
        place, step = self._arriving
        self._arriving = None
        self._check(place)
        node = self._table.nodes[place]
        if node in self._decided:
            self._decided[node] = _and_decided(self._decided[node], rows)
        state = self._states[place]
        known = self._table.known.get(state, {}).get(step)
        after = self._state(place, step) if known is None else known.state
        self._table.learn(state, step, Reaction(after, tuple(sent)))
        self._states[place] = after

    def _check(self, place: int) -> None:
        """Only the node that got a message may have sent some."""
        node = self._table.nodes[place]
        for each in self.network.transit.under_way[self._seen :]:
            if each.link.source not in (node, each.link.target):
                raise SimulationError(
                    f"{each.link.source} sent something when {node} got a message: every order can"
                    " be tried only if nodes hear of each other by messages alone"
                )

    def _state(self, place: int, step: Arrival) -> int:
        name = self._table.nodes[place]
        if name not in self.clients:
            return self._table.number(self._states[place], step)
        node = self.clients[name]
        assert node.process is not None
        memory = fingerprint((node.client, node.process.tasks.take()))
        return self._table.number(name, memory, self._decided[name], self._mishap(name))

    def _mishap(self, name: str) -> tuple[tuple[str, bool], ...]:
        """The mishap of the node, and whether it has happened yet: part of the node's state."""
        mine = [each for each in self._mishaps if node_of(each) == name]
        return tuple((each, each in self.decisions.drawn) for each in mine)

    def _step(self, parcel: Parcel) -> Arrival:
        noted = self._steps.get(id(parcel))
        if noted is None:
            self._note_losable(parcel)
            what = parcel.bodies if parcel.action is None else parcel.action.__qualname__
            step = self._channel(parcel), self._table.number("message", repr(what))
            # The parcel is kept, so that no other object gets its address.
            noted = self._steps[id(parcel)] = (step, parcel)
        return noted[0]

    def _note_losable(self, parcel: Parcel) -> None:
        """Messages between clients and bookies can be lost; those that open a connection cannot."""
        ends = parcel.link.source, parcel.link.target
        if parcel.action is None and METADATA_SERVER not in ends:
            self.possible_mishaps.append(f"lose {parcel}")

    def _channel(self, parcel: Parcel) -> int:
        """The channel of a parcel: one for each connection, and for each action of a link."""
        if isinstance(parcel.receiver, End):
            name = f"{parcel.link.name} {parcel.receiver.number}"
        else:
            actions = self._actions.setdefault(parcel.link.name, [])
            if parcel.action not in actions:
                actions.append(parcel.action)
            name = f"{parcel.link.name} action {actions.index(parcel.action)}"
        return self._table.channel(name, parcel.link.target)


def _and_decided(before: bytes, rows: Sequence[Row]) -> bytes:
    """A hash of all decisions so far."""
    for row in rows:
        if row.kind not in _LEADS_TO_A_DECISION:
            what = repr((row.kind, row.ledger, row.entry, row.note))
            before = blake2b(before + what.encode(), digest_size=16).digest()
    return before
