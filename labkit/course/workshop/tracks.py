"""Defines the steps of a track, each with a contract, the part to write, a first test that fails at
the beginning, trials, and cost limits.

The learner builds a track in one file. Each step adds a part, and after each step the parts
written so far run inside labkit, with labkit's own parts for the later steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from labkit.course.workshop.learner import Learner
from labkit.system.model.errors import LabkitError

Trial = Callable[[Learner], str]
"""Tests the learner's parts; returns one sentence that says what was tested, or raises
`Refused`.
"""
Measure = Callable[[Learner | None], float]
"""Returns the cost with the learner's parts or, given None, with labkit's own."""
TRACK_FILES = {"bookie": "mybookie.py", "client": "myclient.py"}
"""By track: the name of the learner's file."""
TRACKS = tuple(TRACK_FILES)


class NoSuchStepError(LabkitError):
    """Raised if a track or step does not exist; the message lists the existing ones."""


@dataclass(frozen=True, slots=True)
class FirstTest:
    """The first test of a step, which is short enough for a learner to type.

    The test fails until the learner has written something: `run` raises NotImplementedError, or
    `Refused` if the part returns a wrong result.
    """

    words: str
    run: Callable[[Learner], None]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a part and its limit. If possible, the cost is determined by counting rather than
    by timing.

    The limit is relative to labkit's cost.
    """

    name: str
    at_most: float
    measure: Measure


@dataclass(frozen=True, slots=True)
class ContractLine:
    """One line of a step's contract.

    broken_by: names of promises of `labkit.system.check` and of crash-map verdicts; if any of these
        fails in this step, the step violates this line
    """

    words: str
    broken_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Milestone:
    """A named test of one portion of a long step; the learner passes a step's milestones in
    order.
    """

    name: str
    trial: Trial


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a track.

    parts: the names that the learner's file must define, in the form that the skeleton shows
    contract: what must always be true; the card of a refused step quotes the line that was broken
    write: what to write, and roughly how long the code is
    hints: three hints, from a nudge to almost the solution
    milestones: tests to pass first in a long step, starting with the easiest
    generated: quick tests with generated cases; a failing case breaks exactly one line, so if the
        first test or a milestone fails, these tests show which line is broken
    trials: quick tests, during which the instructions of the learner's code are counted
    slow_trials: tests that take seconds; the first one that fails ends the check
    challenges: open-ended tasks that are not checked
    stand_ins: parts that later parts call; until the learner has written them, the solution's are
        used
    has_storms: whether one of the trials runs the simulated cluster with many seeds
    is_live: whether the trials start processes, which have their own time limits
    """

    number: int
    name: str
    parts: tuple[str, ...]
    contract: tuple[ContractLine, ...]
    write: str
    hints: tuple[str, str, str]
    first_test: FirstTest
    trials: tuple[Trial, ...]
    slow_trials: tuple[Trial, ...]
    costs: tuple[Cost, ...]
    challenges: tuple[str, ...]
    milestones: tuple[Milestone, ...] = ()
    generated: tuple[Trial, ...] = ()
    stand_ins: tuple[str, ...] = ()
    has_storms: bool = True
    is_live: bool = False

    @property
    def quick_trials(self) -> tuple[Trial, ...]:
        """The quick tests after the first one, in order."""
        milestones = [milestone.trial for milestone in self.milestones]
        return (*milestones, *self.generated, *self.trials)

    def lines_in(self, message: str) -> list[str]:
        """Return the lines of the contract that the message quotes."""
        return [line.words for line in self.contract if line.words in message]

    def line_broken_by(self, promise: str) -> ContractLine | None:
        return next((line for line in self.contract if promise in line.broken_by), None)


@dataclass(frozen=True, slots=True)
class Track:
    name: str
    title: str
    steps: tuple[Step, ...]

    @property
    def file_name(self) -> str:
        """The name of the learner's file."""
        return TRACK_FILES[self.name]

    @property
    def skeleton(self) -> Path:
        """The initial contents of the learner's file."""
        return Path(__file__).parent / self.name / "skeleton.py"

    @property
    def solution(self) -> Path:
        """A file that passes every step."""
        return Path(__file__).parent / self.name / "solution.py"

    def step(self, number: int) -> Step:
        """Return the step with this number. If it does not exist, raises `NoSuchStepError`, which
        lists all steps.
        """
        for step in self.steps:
            if step.number == number:
                return step
        names = ", ".join(f"{step.number} {step.name}" for step in self.steps)
        raise NoSuchStepError(f"there is no step {number!r}; the steps of this track are {names}")


def track(name: str) -> Track:
    """Return the track with this name. Raises `NoSuchStepError` if it does not exist."""
    if name not in TRACKS:
        raise NoSuchStepError(f"there is no track {name!r}; the tracks are {' and '.join(TRACKS)}")
    found: Track = import_module(f"labkit.course.workshop.{name}.track").TRACK
    return found
