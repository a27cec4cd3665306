"""What the timeline is given: a run with its verdicts, and what can go wrong at an event."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.trace.events import Event


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that did not hold, the `seq` of the event where it broke, and those of the events
    that led there.
    """

    name: str
    promise: str
    reason: str
    seq: int
    lineage: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """A run as the timeline shows it.

    title: in a few words.  words: how its promises fared, in one sentence.  code: what makes it
    happen again, as Python.  bookies: those that exist whether or not an event names them.
    messages: `seq` of an event -> the message that it sent or that led to it.  first, last: `seq`
    between which faults can strike.  source: whatever `fork` needs.
    """

    events: Sequence[Event]
    title: str = "This run"
    words: str = ""
    code: str = ""
    broken: Sequence[Broken] = ()
    bookies: Sequence[str] = ()
    messages: Mapping[int, str] = field(default_factory=dict)
    first: int = 0
    last: int = -1
    source: Any = None


@dataclass(frozen=True, slots=True)
class Palette:
    """What can go wrong at an event.

    faults: name, label and the fields to fill in, in order: `node`, `target`, `disk`, `direction`,
    `extra_ms`, `for_ms`; `message` says that the event must have one.
    nodes: the names to choose from, the bookies first.
    fork: makes the other future of a run, given the `seq` of an event and the fault's name and
    fields.  Raises `LabkitError` where the fault cannot strike.
    """

    faults: Sequence[tuple[str, str, Sequence[str]]]
    nodes: Sequence[str]
    fork: Callable[[PlayedRun, int, Mapping[str, Any]], PlayedRun]
