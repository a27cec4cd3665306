"""The input of the timeline: a run with its verdicts, and the faults that can happen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.system.trace.events import Event


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """A broken promise, the `seq` of the event at which it broke, and those of the events that led
    there.
    """

    name: str
    promise: str
    reason: str
    seq: int
    lineage: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """A run, for the timeline.

    title: a few words.  words: the verdict on its promises, in one sentence.  code: the Python code
    that repeats the run.  bookies: those that exist whether or not an event names them. messages:
    `seq` of an event -> the message that it sent or that led to it.  first, last: the `seq` range
    in which faults can happen.  source: the object that `fork` needs.
    """

    events: Sequence[Event]
    title: str = "This run"
    words: str = ""
    code: str = ""
    broken: Sequence[BrokenPromise] = ()
    bookies: Sequence[str] = ()
    messages: Mapping[int, str] = field(default_factory=dict)
    first: int = 0
    last: int = -1
    source: Any = None


@dataclass(frozen=True, slots=True)
class Palette:
    """The faults that can happen at an event.

    faults: name, label and the fields to fill in, in order: `node`, `target`, `disk`, `direction`,
    `extra_ms`, `for_ms`; `message` means that the event must have a message.
    nodes: the names to choose from, the bookies first.
    fork: makes the other future of a run, from the `seq` of an event and the fault's name and
    fields.  Raises `LabkitError` if the fault cannot happen there.
    """

    faults: Sequence[tuple[str, str, Sequence[str]]]
    nodes: Sequence[str]
    fork: Callable[[PlayedRun, int, Mapping[str, Any]], PlayedRun]
