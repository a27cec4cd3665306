"""The timeline as a scene: one run, or two side by side, with the current events below."""

from collections.abc import Sequence

from labkit.system.trace.cluster_state import fold
from labkit.system.trace.events import Event
from labkit.views.widgets.acts import Acts
from labkit.views.widgets.cluster.cells import legend_of
from labkit.views.widgets.drawing.scene import Mark, PartCache, narrowed, picture
from labkit.views.widgets.run import DisplayedRun, EventPositions
from labkit.views.widgets.timeline.panel import MARGIN, Panel, PanelSize, min_width, size_for
from labkit.views.widgets.timeline.runs import PlayedRun
from labkit.views.widgets.timeline.steps import MergedStep
from labkit.views.widgets.timeline.story import HEIGHT, EventList

WIDTH, BETWEEN = 860, 20
MAX_BESIDE = 12
"""If there are more bookies than this, two runs are drawn one below another instead of side by
side.
"""


class TimelinePicture:
    """Draws one or two runs. Each event passed to `take` is a step whose number is in `seq`."""

    def __init__(
        self,
        runs: Sequence[PlayedRun],
        names: tuple[str, str],
        steps: Sequence[MergedStep],
        merged: DisplayedRun,
        ledger: int | None,
        acts: Acts,
    ) -> None:
        self.runs, self.steps = runs, steps
        positions = merged.clock.positions
        self.event_list = EventList(runs, names, steps, positions)
        ends = [fold(run.events, bookies=run.bookies) for run in runs]
        most = max(len(end.bookies) for end in ends)
        self._beside = len(runs) if most <= MAX_BESIDE else 1
        width = (WIDTH - 2 * MARGIN - BETWEEN * (self._beside - 1)) / self._beside
        if self._beside == 1:
            width = max(width, min_width(most))
        self._width = max(WIDTH, width + 2 * MARGIN)
        sizes = [size_for(run, end, width) for run, end in zip(runs, ends, strict=True)]
        self.panels = [
            Panel(
                run,
                self._positions(which, merged),
                width,
                PanelSize(*map(max, zip(*sizes, strict=True))),  # Adjacent panels have equal sizes.
                ledger=ledger,
                bookies=tuple(ends[which].bookies),
                acts=acts if which else Acts(acts.offered),
                which=which,
                is_alone=len(runs) == 1,
            )
            for which, run in enumerate(runs)
        ]
        self.explainers = [panel.grid.explainer for panel in self.panels]
        self._number = -1
        self._cache = PartCache()

    def _positions(self, which: int, merged: DisplayedRun) -> EventPositions:
        positions = EventPositions()
        clock = merged.clock
        for number, step in enumerate(self.steps):
            if (at := step.index_in(which)) is not None:
                event, first = self.runs[which].events[at], clock.firsts.get(number, "")
                positions.put(event, clock.positions[number], first)
        return positions

    def take(self, event: Event) -> None:
        self._number = event.seq
        for which, panel in enumerate(self.panels):
            if (at := self.steps[event.seq].index_in(which)) is not None:
                panel.take(self.runs[which].events[at])

    def legend(self) -> Mark | None:
        return legend_of(frozenset().union(*(panel.grid.symbols for panel in self.panels)))

    def scene(self) -> Mark:
        pitch = self.panels[0].width + BETWEEN
        height = max(panel.height for panel in self.panels) + 4
        panels = [
            panel.marks(
                MARGIN + pitch * (at % self._beside), height * (at // self._beside), height * at
            )
            for at, panel in enumerate(self.panels)
        ]
        top, narrow_top = height * (len(panels) // self._beside), height * len(panels)
        words = f"Timeline of {' and '.join(run.title for run in self.runs)}"
        events = self.event_list.marks(self._number, top, narrow_top)
        scene = picture(self._width, top + HEIGHT + 4, words, *panels, events)
        if self._beside == 1:
            return scene
        width = self.panels[0].width + 2 * MARGIN
        return narrowed(scene, picture(width, narrow_top + 2 * HEIGHT + 4, words))
