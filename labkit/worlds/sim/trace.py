"""A run as an immutable object, which contains its events and everything that is needed to repeat
the run.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import takewhile
from math import isnan
from typing import Any

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.trace.answers import Answer
from labkit.system.trace.cluster_state import ClusterState, fold
from labkit.system.trace.events import Event, lineage
from labkit.worlds.sim.futures import Inevitability, inevitability_so_far
from labkit.worlds.sim.machine.disk_work import DiskCall
from labkit.worlds.sim.run_link import Selection, link_to
from labkit.worlds.sim.scenario.faults import Fault
from labkit.worlds.sim.scenario.rerun_with_fault import forked
from labkit.worlds.sim.scenario.scenario import Scenario

FUTURES = 16
"""The number of futures to try at each moment. This number is sufficient to show a jump, and takes
only a fraction of a second.
"""


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """The run of a scenario.

    decisions       all decisions whose value is not 0, by name
    decided_at_us   the virtual time at which each decision was made
    struck          the faults that occurred, each with its virtual time (µs)
    parcels         the messages that were not lost: link, number, and the times (µs) at which they
                    were sent and due; messages that arrived together can be listed as one
    choices         for a scenario that runs `in_turn`: the number of candidates for each choice
    disk_calls      the calls made by the bookies' disk workers, bookie by bookie
    answers         the return values of the workload's calls
    step_count      number of steps that the event loop ran, for all nodes
    ended_at_s      virtual time at the end of the run
    rerun           the function that ran the scenario; it also runs forks of the run
    run_future      the function that runs a future of the scenario, like `run_future`
    """

    scenario: Scenario
    events: tuple[Event, ...]
    decisions: dict[str, float]
    decided_at_us: dict[str, int]
    struck: tuple[tuple[int, Fault], ...]
    parcels: tuple[tuple[str, int, int, int], ...]
    choices: tuple[int, ...]
    disk_calls: tuple[DiskCall, ...]
    answers: tuple[Answer, ...]
    step_count: int
    ended_at_s: float
    rerun: Callable[[Scenario], "Trace"] = field(compare=False)
    run_future: Callable[[Scenario, int, int], "Trace"] = field(compare=False)

    @property
    def digest(self) -> str:
        """A digest that is equal for two runs if they have the same events, decisions, messages and
        numbers of candidates, in the same order and at the same times.
        """
        found = blake2b(digest_size=16)
        for event in self.events:
            found.update(repr(event).encode())
        found.update(repr((self.decisions, self.parcels, self.choices)).encode())
        return found.hexdigest()

    def at(self, seq: int | None = None, *, time_ms: float | None = None) -> ClusterState:
        """Return the state of the cluster after event `seq`, or after `time_ms` milliseconds.

        A `seq` of -1 refers to the state before the first event. By default, return the state at
        the end of the run. Raises `BKIncorrectParameterException` if the event does not exist, if
        the time is not a number, or if both are given.
        """
        upto = len(self.events)
        if seq is not None and time_ms is not None:
            raise BKIncorrectParameterException(
                "specify either an event (seq) or a time (time_ms), not both"
            )
        if time_ms is not None and isnan(time_ms):
            raise BKIncorrectParameterException("time_ms must be a number, got nan")
        if seq is not None:
            upto = self._number(seq, first=-1) + 1
        elif time_ms is not None:
            until_us = time_ms * 1000
            upto = sum(1 for _ in takewhile(lambda event: event.time_us <= until_us, self.events))
        return fold(self.events, upto, self.scenario.cluster.names)

    def lineage(self, seq: int) -> list[Event]:
        """Return the event and all of its direct and indirect causes, earliest first."""
        return lineage({event.seq: event for event in self.events}, self._number(seq))

    def fork(self, seq: int, fault: str, node: str) -> "Trace":
        """Run the scenario again, with a fault just after that event.

        The fault kills the node (`kill`), pauses it (`pause`), or disconnects it from all others
        (`cut`). Raises `CannotForkError` if the event belongs to the epilogue, and
        `BKIncorrectParameterException` if the event or the fault does not exist, or if the fault
        cannot affect that node.
        """
        return self.rerun(forked(self.scenario, self.events, self._number(seq), fault, node))

    def future(self, moment_us: int, seed: int) -> "Trace":
        """Run the scenario again, but after this moment, draw all decisions from `seed` and inject
        no more faults.

        With the scenario's own seed, the decisions remain the same.
        """
        return self.run_future(self.scenario, moment_us, seed)

    def loss_curves(self, promise: str) -> Iterator[Inevitability]:
        """Find out when the broken promise became inevitable, by trying `FUTURES` futures at each
        of several moments. After each moment, yields the result so far.
        """
        return inevitability_so_far(self, promise, FUTURES)

    def explicit(self) -> Scenario:
        """Return a scenario for the same run that lists every decision and has no seed."""
        return replace(self.scenario, seed=None, decisions=dict(self.decisions))

    def link(
        self,
        view: str = "TimelineView",
        selection: Mapping[str, Any] | None = None,
        *,
        fork: "Trace | None" = None,
        code: str = "",
        at: int = -1,
    ) -> str:
        """Return a link that opens this run in a view, after event `at` (-1: before the first
        event). Return "" if a link cannot describe the run's scenario. `labkit open` and `open_run`
        open such links.

        view, selection: the name of the view, and the fields of a `Selection`.
        fork: a fork of this run to show next to it.
        code: the learner's code that ran, if the link should include it as text. Even then, the
            link runs the scenario with labkit's own code.
        """
        other = None if fork is None else fork.scenario
        chosen, digest = Selection(**(selection or {})), (fork or self).digest
        return link_to(
            self.scenario, other, code, digest=digest, view=view, selection=chosen, at=at
        )

    def _number(self, seq: int, first: int = 0) -> int:
        if seq not in range(first, len(self.events)):
            raise BKIncorrectParameterException(
                f"event {seq!r} does not exist; the events of this run are numbered from 0 to"
                f" {len(self.events) - 1}"
            )
        return seq

    def __repr__(self) -> str:
        return (
            f"Trace: {len(self.events)} events in {self.ended_at_s:.3g} s of virtual time,"
            f" {len(self.decisions)} decisions, digest {self.digest[:8]}"
        )
