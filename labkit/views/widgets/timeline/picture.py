"""The timeline as a scene: one run, or two side by side, with the current events below."""

from collections.abc import Sequence

from labkit.system.trace.events import Event
from labkit.views.widgets.acts import Acts
from labkit.views.widgets.run import DisplayedRun, EventPositions
from labkit.views.widgets.scene import Mark, PartCache, narrowed, picture
from labkit.views.widgets.timeline.panel import MARGIN, Panel
from labkit.views.widgets.timeline.runs import PlayedRun
from labkit.views.widgets.timeline.steps import FIRST, OTHER, MergedStep
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
        most = max(len(run.bookies) for run in runs)
        self._beside = len(runs) if most <= MAX_BESIDE else 1
        width = (WIDTH - 2 * MARGIN - BETWEEN * (self._beside - 1)) / self._beside
        self.panels = [
            Panel(
                run,
                self._positions(which, merged),
                width,
                acts if which else Acts(acts.offered),
                which,
                len(runs) == 1,
            )
            for which, run in enumerate(runs)
        ]
        sizes = [(panel.rows, panel.lines, panel.clients) for panel in self.panels]
        rows, lines, clients = (max(each) for each in zip(*sizes, strict=True))
        for panel in self.panels:
            panel.begin(ledger, rows, lines, clients)
        self._number = -1
        self._cache = PartCache()

    def _positions(self, which: int, merged: DisplayedRun) -> EventPositions:
        positions = EventPositions()
        for number, step in enumerate(self.steps):
            if step.which != (OTHER, FIRST)[which]:
                row = (step.of_first, step.of_other)[which]
                first = merged.clock.firsts.get(number, "")
                positions.put(
                    self.runs[which].events[row - 1], merged.clock.positions[number], first
                )
        return positions

    @property
    def explained_until(self) -> float | None:
        ends = (panel.grid.firsts.explained_until for panel in self.panels)
        return max((end for end in ends if end), default=None)

    def hide_explanation(self) -> None:
        for panel in self.panels:
            panel.grid.firsts.hide_explanation()

    def take(self, event: Event) -> None:
        self._number = event.seq
        step = self.steps[event.seq]
        counts = (step.of_first, step.of_other)
        for which, panel in enumerate(self.panels):
            if step.which != (OTHER, FIRST)[which]:
                panel.take(self.runs[which].events[counts[which] - 1])

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
        scene = picture(WIDTH, top + HEIGHT + 4, words, *panels, events)
        if self._beside == 1:
            return scene
        width = self.panels[0].width + 2 * MARGIN
        return narrowed(scene, picture(width, narrow_top + 2 * HEIGHT + 4, words))
