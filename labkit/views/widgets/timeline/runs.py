"""The input of the timeline: a run with its verdicts, and the faults that can be injected."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.views.widgets.late_syncs import late_sync_words

RUN_COLOURS = ("stored", "hue4")
"""The colours of the original run and of the fork, used for the bars next to their titles and
events. The bars of the two runs also differ in position.
"""


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """A broken promise, with the `seq` of the event at which it was broken. `lineage` contains the
    `seq` of each event that led to this event.

    moment, explanation: when and how the promise was broken, such as "At 14.50 ms" and "b0 ...".
    """

    name: str
    promise: str
    moment: str
    explanation: str
    seq: int
    lineage: Sequence[int] = ()

    @property
    def reason(self) -> str:
        return f"{self.moment}: {self.explanation}" if self.moment else self.explanation


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """A run to be shown in the timeline.

    title: the title, a few words long.
    words: the verdict on its promises, in one sentence.
    details: the tooltip of the verdict.
    code: Python code that reproduces the run.
    bookies: bookies that exist even if no event mentions them.
    messages: for the `seq` of an event, the message that the event sent or that caused it.
    late_syncs: see `labkit.views.widgets.late_syncs`.
    source: the object that `Palette.fork` needs to repeat the run.
    """

    events: Sequence[Event]
    title: str = "This run"
    words: str = ""
    details: str = ""
    code: str = ""
    broken: Sequence[BrokenPromise] = ()
    bookies: Sequence[str] = ()
    messages: Mapping[int, str] = field(default_factory=dict)
    late_syncs: Mapping[int, int] = field(default_factory=dict)
    source: Any = None

    def sentence(self, event: Event) -> str:
        return late_sync_words(event) if event.seq in self.late_syncs else describe(event)


@dataclass(frozen=True, slots=True)
class Palette:
    """The faults that can be injected after an event.

    faults: the name, label and fields of each fault. The fields are in this order: `node`,
        `target`, `disk`, `direction`, `extra_ms`, `for_ms`. The field `message` means that the
        event must have a message.
    nodes: the names of the nodes that the reader can choose, with bookies first.
    fork: a function that returns the alternative future of a run, given the run, the `seq` of an
        event, and the fault's name and fields. It raises `LabkitError` if the fault cannot be
        injected after this event.
    """

    faults: Sequence[tuple[str, str, Sequence[str]]]
    nodes: Sequence[str]
    fork: Callable[[PlayedRun, int, Mapping[str, Any]], PlayedRun]
