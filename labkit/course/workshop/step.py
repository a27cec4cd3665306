"""A step of a track: what must hold, what to write, the test that is red, the figure to reach.

A track grows in one file of the learner's.  Each step adds a part to it, and after each step the
parts written so far run inside labkit; labkit's own parts stand in for the steps to come.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from labkit.course.workshop.learner import Learner

Trial = Callable[[Learner], str]
"""Tries the learner's parts; returns one sentence that says what was tried, or raises `Refused`."""
TRACKS = ("bookie", "client")


class NoSuchStepError(LookupError):
    """A track or a step that does not exist; the text names those that do."""


@dataclass(frozen=True, slots=True)
class RedTest:
    """The first thing that a step must do, as a learner can type it.  It fails until the step is
    begun: `run` raises NotImplementedError, and `Refused` where the part does something else.
    """

    words: str
    run: Callable[[Learner], None]


@dataclass(frozen=True, slots=True)
class Figure:
    """What a part costs, counted and not timed, and how much of labkit's own cost it may be.

    measure: the cost with the learner's parts; with None, that of labkit's own.
    """

    name: str
    at_most: float
    measure: Callable[[Learner | None], float]


@dataclass(frozen=True, slots=True)
class Step:
    """One step.

    parts: the names that the learner's file must define, each as the skeleton shows it.
    invariants: what must hold, each a sentence; write: what to write, and how long it gets.
    trials: quick ones, in which the steps of the learner's code are counted; worlds: those that
    take seconds.  The first that refuses ends the check.
    challenges: open ends, which nothing checks.
    is_live: its trials start processes, which have limits of their time themselves.
    """

    number: int
    name: str
    parts: tuple[str, ...]
    invariants: tuple[str, ...]
    write: str
    red: RedTest
    trials: tuple[Trial, ...]
    worlds: tuple[Trial, ...]
    figures: tuple[Figure, ...]
    challenges: tuple[str, ...]
    is_live: bool = False


@dataclass(frozen=True, slots=True)
class Track:
    """A track: its file has `file_name` in the learner's folder and begins as a copy of `skeleton`;
    `solution` passes every step.
    """

    name: str
    title: str
    file_name: str
    skeleton: Path
    solution: Path
    steps: tuple[Step, ...]

    def step(self, number: int) -> Step:
        """The step of that number.  Raises `NoSuchStepError` that names all steps."""
        for step in self.steps:
            if step.number == number:
                return step
        names = ", ".join(f"{step.number} {step.name}" for step in self.steps)
        raise NoSuchStepError(f"there is no step {number!r}; this track has {names}")


def track(name: str) -> Track:
    """The track of that name.  Raises `NoSuchStepError` for a name that no track has."""
    if name not in TRACKS:
        raise NoSuchStepError(f"there is no track {name!r}; there are {' and '.join(TRACKS)}")
    found: Track = import_module(f"labkit.course.workshop.{name}.track").TRACK
    return found
