"""The timeline as a scene: a run, or two beside each other, and below them the current events."""

from collections.abc import Sequence

from labkit.system.trace.events import Event
from labkit.views.widgets.run import DisplayedRun, Places
from labkit.views.widgets.scene import Mark, PartCache, picture
from labkit.views.widgets.timeline.panel import Panel
from labkit.views.widgets.timeline.runs import PlayedRun
from labkit.views.widgets.timeline.steps import FIRST, OTHER, MergedStep
from labkit.views.widgets.timeline.story import HEIGHT, Story

WIDTH, MARGIN, BETWEEN = 860, 8, 20
MOST_BESIDE = 12
"""With more bookies two runs stand one below the other."""


class TimelinePicture:
    """Takes the steps of one run or two; an event's `seq` is the number of its step."""

    def __init__(
        self,
        runs: Sequence[PlayedRun],
        steps: Sequence[MergedStep],
        clock: DisplayedRun,
        ledger: int | None,
        acts: tuple[str, ...],
    ) -> None:
        self.runs, self.steps = runs, steps
        positions = clock.pace.positions
        self.story = Story(runs, steps, positions)
        most = max(len(run.bookies) for run in runs)
        self._beside = len(runs) if most <= MOST_BESIDE else 1
        width = (WIDTH - 2 * MARGIN - BETWEEN * (self._beside - 1)) / self._beside
        self.panels = [
            Panel(run, self._places(which, clock), width, acts, which)
            for which, run in enumerate(runs)
        ]
        sizes = [(panel.rows, panel.lines, panel.clients) for panel in self.panels]
        rows, lines, clients = (max(each) for each in zip(*sizes, strict=True))
        for panel in self.panels:
            panel.begin(ledger, rows, lines, clients)
        self._number = -1
        self._kept = PartCache()

    def _places(self, which: int, clock: DisplayedRun) -> Places:
        places = Places()
        for number, step in enumerate(self.steps):
            if step.which != (OTHER, FIRST)[which]:
                row = (step.of_first, step.of_other)[which]
                first = clock.pace.firsts.get(number, "")
                places.put(self.runs[which].events[row - 1], clock.pace.positions[number], first)
        return places

    @property
    def hush_at(self) -> float | None:
        """The position on the clock at which the words about a first event end."""
        ends = (panel.grid.firsts.hush_at for panel in self.panels)
        return max((end for end in ends if end), default=None)

    def hush(self) -> None:
        """Those words end."""
        for panel in self.panels:
            panel.grid.firsts.hush()

    def take(self, event: Event) -> None:
        """Take the next step."""
        self._number = event.seq
        step = self.steps[event.seq]
        counts = (step.of_first, step.of_other)
        for which, panel in enumerate(self.panels):
            if step.which != (OTHER, FIRST)[which]:
                panel.take(self.runs[which].events[counts[which] - 1])

    def scene(self) -> Mark:
        """The picture now."""
        pitch = self.panels[0].width + BETWEEN
        height = max(panel.height for panel in self.panels) + 4
        panels = [
            panel.marks(MARGIN + pitch * (at % self._beside), height * (at // self._beside))
            for at, panel in enumerate(self.panels)
        ]
        top = height * (len(panels) // self._beside)
        return picture(
            WIDTH,
            top + HEIGHT + 4,
            f"Timeline of {' and '.join(run.title for run in self.runs)}",
            *panels,
            self.story.marks(self._number, top),
        )
