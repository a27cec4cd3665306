"""A world that makes the given moves and then stops, while all other messages are still in flight.

With `is_quick`, messages to and from the metadata server arrive by themselves, so a player chooses
only among the messages that clients and bookies exchange.

If the move is a power cut, the bookie loses power immediately after the last message that it
received before this move, even if other nodes have received messages since then. No node can tell
the difference, because nodes influence each other only through messages.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.chosen_order import ChosenOrderWorld, is_metadata
from labkit.worlds.sim.machine.links import Parcel, Purpose
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.play.late_syncs import LateSyncWorld
from labkit.worlds.sim.play.message_words import words_of
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.steps import Step

DELIVER = "deliver"
COPY_MS = 1.0
"""The value of a decision to copy a message.

In a chosen order, any positive value has the same effect.
"""

WAIT_MS = 6000.0
"""The duration of a wait, which is long enough for a request to time out."""

FAILURES = {
    "lose": "a message of the connection {} is lost",
    "copy": "a message of the connection {} is delivered twice",
    "crash": "{} loses power",
    "wait": "requests time out",
}


class ImpossibleMoveError(BKIncorrectParameterException):
    """A move cannot be made, for example because its message is not in flight or must wait for
    another message.
    """


class MovesMade(Exception):
    """Raised to end a run after its last move."""


class InFlight(NamedTuple):
    """A message in flight.

    name: the link and the number of the message, such as `w>b0 2` for the third message from w to
        b0.
    behind: a description of the message that must arrive first, because a connection delivers its
        messages in order, or "" if this message can arrive now.
    is_void: whether the message will be dropped because its receiver has lost the connection.
    can_fail: whether the message can be lost or copied. This is false for messages that contain
        metadata, and for messages that open or close a connection.
    """

    name: str
    source: str
    target: str
    words: str
    behind: str
    is_void: bool
    can_fail: bool


class MadeMove(NamedTuple):
    """A move that was made.

    name: the name of the move, such as `crash b1 2`.
    event_count: the number of events before the move took effect. A power cut can take effect
        before earlier moves (see the module's docstring).
    is_void: whether the move delivered a message that was dropped.
    """

    name: str
    words: str
    event_count: int
    is_void: bool = False


Rest = Callable[[Sequence[Parcel]], int]
"""Chooses among the messages that can arrive next when there are no moves left."""


def stop(possible: Sequence[Parcel]) -> int:
    raise MovesMade


class PlayedWorld(LateSyncWorld):
    """Makes the moves, and then lets `rest` choose each message."""

    def __init__(
        self,
        scenario: Scenario,
        loop: SimLoop,
        moves: Sequence[str],
        *,
        is_quick: bool,
        rest: Rest = stop,
    ) -> None:
        failures = {move: value_of(move) for move in moves if not is_delivery(move)}
        decisions = {**scenario.decisions, **failures}
        self._steps: dict[Callable[[], None], str] = {}
        """Steps that wait for a message from their client to itself, by the function that begins
        the step.
        """
        self._took_effect: dict[str, int] = {}
        """Maps each power cut or wait that was possible, as a move, to the number of events before
        it.
        """
        super().__init__(replace(scenario, decisions=decisions), loop)
        self.decided = dict(scenario.decisions)
        """The decisions so far: the scenario's decisions, and one for each move and each
        delivery.
        """
        self.made: list[MadeMove] = []
        """The moves so far, including those made after the given moves."""
        self._waiting = list(reversed(moves))
        self._is_quick = is_quick
        self._rest = rest

    def let_begin(self, step: Step, begin: Callable[[], None]) -> None:
        self._steps[begin] = str(step)
        super().let_begin(step, begin)

    def deliver_next(self) -> bool:
        if self.network.transit.choose is not None:
            for move in (*self._crashes(), f"wait {len(self.choices)}"):
                self._took_effect.setdefault(move, len(self.rows))
        return super().deliver_next()

    def choose(self, possible: Sequence[Parcel]) -> int:
        index = self._next_index(possible)
        number = len(self.choices)
        self.decided[f"next {number}"] = float(index)
        if index:
            self.decisions.record(f"next {number}", float(index))
        self.choices.append(len(possible))
        self.arrives(possible[index])
        return index

    def _next_index(self, possible: Sequence[Parcel]) -> int:
        if self._is_quick:
            for index, parcel in enumerate(possible):
                if is_metadata(parcel):
                    return index
        self._make_failures()
        if self._waiting:
            move = self._waiting.pop()
            names = [f"{DELIVER} {parcel}" for parcel in possible]
            if move not in names:
                raise ImpossibleMoveError(f"cannot {move}; possible: {', '.join(names)}")
            index = names.index(move)
        else:
            index = self._rest(possible)
        parcel = possible[index]
        source, target = parcel.link.source, parcel.link.target
        words = f"“{self._words(parcel)}” from {source} to {target}"
        if source == target:
            words = f"{source} begins to {self._words(parcel)}"
        self.made.append(MadeMove(f"{DELIVER} {parcel}", words, len(self.rows), _is_void(parcel)))
        return index

    def _make_failures(self) -> None:
        while self._waiting and not is_delivery(self._waiting[-1]):
            move = self._waiting.pop()
            self.decided[move] = value_of(move)
            kind, what, *_ = move.split()
            count = self._took_effect.get(move, len(self.rows))
            self.made.append(MadeMove(move, FAILURES[kind].format(what), count))

    def finish_moves(self) -> None:
        """Add the failures that follow the last delivery to the moves that were made.

        Raises `ImpossibleMoveError` if there is still a message to deliver.
        """
        self._make_failures()
        if self._waiting:
            raise ImpossibleMoveError(f"cannot {self._waiting[-1]}: the run has ended")

    def in_flight(self) -> tuple[InFlight, ...]:
        found, first = list[InFlight](), dict[int, str]()
        for parcel in self.network.transit.under_way:
            words = self._words(parcel)
            found.append(
                InFlight(
                    str(parcel),
                    parcel.link.source,
                    parcel.link.target,
                    words,
                    first.get(parcel.queue, ""),
                    _is_void(parcel),
                    parcel.purpose is Purpose.FRAMES and not is_metadata(parcel),
                )
            )
            first.setdefault(parcel.queue, words)
        return tuple(found)

    def _words(self, parcel: Parcel) -> str:
        if parcel.action is not None and parcel.purpose is Purpose.BEGIN_STEP:
            return self._steps[parcel.action]
        return words_of(parcel, to_server=parcel.link.target not in self.clients)

    def possible_crashes(self) -> tuple[str, ...]:
        """Return the power cuts that are possible now as a list of moves, with at most one per
        bookie.
        """
        return tuple(move for move in self._crashes() if move not in self.decided)

    def _crashes(self) -> Iterator[str]:
        return (f"crash {name} {count}" for name, count in self.received.items())

    def possible_wait(self) -> str:
        """Return the move that lets time pass now, or "" if that is not possible."""
        move = f"wait {len(self.choices)}"
        return "" if move in self.decided else move


class NamedOrderWorld(ChosenOrderWorld):
    """Runs a scenario in which decisions choose the first `count` messages, and lists the names of
    these messages.
    """

    def __init__(self, scenario: Scenario, loop: SimLoop, count: int) -> None:
        super().__init__(scenario, loop)
        self.named: list[str] = []
        self.metadata: dict[str, None] = {}
        """The messages in `named` that the metadata server sent or received."""
        self._count = count

    def choose(self, possible: Sequence[Parcel]) -> int:
        if len(self.named) == self._count:
            raise MovesMade
        parcel = possible[index := super().choose(possible)]
        self.named.append(f"{DELIVER} {parcel}")
        if is_metadata(parcel):
            self.metadata[self.named[-1]] = None
        return index


def _is_void(parcel: Parcel) -> bool:
    return parcel.receiver is not None and not parcel.receiver.is_open


def is_delivery(move: str) -> bool:
    return move.startswith(f"{DELIVER} ")


def value_of(move: str) -> float:
    return {"copy": COPY_MS, "wait": WAIT_MS}.get(move.split(maxsplit=1)[0], 1.0)
