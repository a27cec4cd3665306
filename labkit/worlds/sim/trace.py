"""A run as a value: its events, and everything that it takes to repeat it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import takewhile
from math import isnan

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.trace.answers import Answer
from labkit.system.trace.events import Event, lineage
from labkit.system.trace.fold import ClusterState, fold
from labkit.worlds.sim.machine.disk_work import DiskCall
from labkit.worlds.sim.scenario.rerun_with_fault import forked
from labkit.worlds.sim.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """The run of a scenario.

    `decisions` are all that were not harmless, by name; `parcels` all messages: link, number, and
    when they were sent and due, in microseconds.  `choices` tells, for a scenario that runs
    `in_turn`, among how many messages each `next` was chosen.  `disk_calls` are those of the
    bookies' disk workers, bookie by bookie.  `answers` are what the workload's calls returned.
    `step_count` counts the steps of all nodes, and `ended_at_s` is the virtual time at the end.
    `again` ran the scenario, and runs its forks.
    """

    scenario: Scenario
    events: tuple[Event, ...]
    decisions: dict[str, float]
    parcels: tuple[tuple[str, int, int, int], ...]
    choices: tuple[int, ...]
    disk_calls: tuple[DiskCall, ...]
    answers: tuple[Answer, ...]
    step_count: int
    ended_at_s: float
    again: Callable[[Scenario], "Trace"] = field(compare=False)

    @property
    def digest(self) -> str:
        """A digest, equal for two runs with the same events in the same order at the same times."""
        found = blake2b(digest_size=16)
        for event in self.events:
            found.update(repr(event).encode())
        found.update(repr((self.decisions, self.parcels, self.choices)).encode())
        return found.hexdigest()

    def at(self, seq: int | None = None, *, time_ms: float | None = None) -> ClusterState:
        """The cluster just after that event (-1: before the first), or at that time of the run; by
        default at its end.

        Raises `BKIncorrectParameterException` for an event that the run does not have, for a time
        that is not a number, and for both at once.
        """
        upto = len(self.events)
        if seq is not None and time_ms is not None:
            raise BKIncorrectParameterException("name an event or a time of the run, not both")
        if time_ms is not None and isnan(time_ms):
            raise BKIncorrectParameterException("the time is not a number (nan)")
        if seq is not None:
            upto = self._number(seq, first=-1) + 1
        elif time_ms is not None:
            until_us = time_ms * 1000
            upto = sum(1 for _ in takewhile(lambda event: event.time_us <= until_us, self.events))
        return fold(self.events, upto, self.scenario.cluster.names)

    def lineage(self, seq: int) -> list[Event]:
        """The event and its causes, first cause first.

        Raises `BKIncorrectParameterException` for an event that the run does not have.
        """
        return lineage(self.events, self._number(seq))

    def fork(self, seq: int, fault: str, node: str) -> "Trace":
        """What happens if, just after that event, the node is killed (`kill`), stops (`pause`), or
        nothing reaches it and nothing leaves it (`cut`).

        Raises `CannotForkError` after the epilogue began, and `BKIncorrectParameterException` for
        an event that the run does not have, for another fault, and for a node that it cannot
        strike.
        """
        return self.again(forked(self.scenario, self.events, self._number(seq), fault, node))

    def explicit(self) -> Scenario:
        """The scenario that gives the same run without a seed: every decision is named in it."""
        return replace(self.scenario, seed=None, decisions=dict(self.decisions))

    def _number(self, seq: int, first: int = 0) -> int:
        if seq not in range(first, len(self.events)):
            raise BKIncorrectParameterException(
                f"the run has no event {seq!r}; its events are numbered from 0 to"
                f" {len(self.events) - 1}"
            )
        return seq

    def __repr__(self) -> str:
        return (
            f"Trace: {len(self.events)} events in {self.ended_at_s:.3g} s of virtual time,"
            f" {len(self.decisions)} decisions, digest {self.digest[:8]}"
        )
