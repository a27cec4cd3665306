"""Recovery progress: who is the auditor, which bookies are lost, which ledgers are marked, who
repairs them, and how their copies come back; drawn only from a trace.

Over the whole run a chart: a column is a step, an event that changed something.  Below it one
moment in full: the ledgers' fragments, and the copies that each bookie has.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

import traitlets

from labkit.trace.events import Event
from labkit.trace.sentence import SENTENCES
from labkit.widgets.recovery_progress_chart import BOOKIES, chart_of
from labkit.widgets.recovery_progress_fold import (
    columns_of,
    first_bookies,
    state_after,
    steps_of,
)
from labkit.widgets.recovery_progress_state import RecoveryState
from labkit.widgets.recovery_progress_svg import LEGEND, recovery_svg, summary
from labkit.widgets.view import View, joined


class HasEvents(Protocol):
    """A trace: of a live cluster, or of a simulated run."""

    @property
    def events(self) -> Sequence[Event]:
        """In the order of their `seq`."""


class RecoveryProgress(View):
    """Shows a run's recovery; a simulated run is shown up to its epilogue.

    source: a run, a log, or a list of events.
    at: the `seq` of the event after which the view stands at first, and which the still picture
    tells in full.  By default the last.
    """

    _esm = joined(
        "elements.js",
        "events.js",
        "player.js",
        "recovery_progress_fold.js",
        "recovery_progress_chart.js",
        "recovery_progress.js",
    )
    _css = joined("view.css", "recovery_progress.css")

    journal = traitlets.Dict().tag(sync=True)
    bookies = traitlets.List(traitlets.Unicode()).tag(sync=True)
    chart = traitlets.Dict().tag(sync=True)
    start = traitlets.Int().tag(sync=True)
    words = traitlets.Dict().tag(sync=True)

    def __init__(self, source: HasEvents | Sequence[Event], at: int | None = None) -> None:
        events = source if isinstance(source, Sequence) else source.events
        self._steps = steps_of(events)
        names = first_bookies(events)
        self._chart = chart_of(self._steps, names)
        seen = [step for step in self._steps if at is None or step.event.seq <= at]
        super().__init__(
            journal={
                "kind": "whole",
                "number": 0,
                "columns": columns_of(self._steps),
                "left_out": 0,
            },
            bookies=names,
            chart=_plain(asdict(self._chart)),
            start=len(seen),
            words={"sentences": SENTENCES, "legend": LEGEND, "bookies": BOOKIES},
        )

    def state(self) -> RecoveryState:
        """The moment that the still picture tells in full."""
        return state_after(self._steps, self.bookies, self.start)

    def svg(self) -> str:
        """The still picture as an SVG document."""
        return recovery_svg(self._chart, self.state())

    def __repr__(self) -> str:
        return summary(self.state())


def _plain(value: Any) -> Any:
    """Tuples as lists: what comes back from the browser is equal then."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
