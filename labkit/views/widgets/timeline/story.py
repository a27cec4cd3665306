"""Draws the events around the current moment of the timeline, and their causes."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

from labkit.system.trace.events import Event, lineage
from labkit.views.widgets.drawing.kin import entry_kin, node_kin
from labkit.views.widgets.drawing.scene import Mark, PartCache, group, narrowed, path, rect, text
from labkit.views.widgets.drawing.text_metrics import fitted, lines_of
from labkit.views.widgets.run import time_words
from labkit.views.widgets.timeline.runs import RUN_COLOURS, PlayedRun
from labkit.views.widgets.timeline.steps import BOTH, FIRST, OTHER, MergedStep

ROW, ROWS, BEFORE = 24, 5, 2
LIST_WIDTH, SIDE_X, SIDE_WIDTH = 540, 564, 280
TIME_X = 100
HEIGHT = 22 + ROW * ROWS + 6
MAX_CAUSES = 3
"""The maximum number of causes that are shown."""


class EventList:
    """Draws a list of the steps in `listed`, and the causes of the current step.

    names: the names of the two runs in sentences.
    positions: the positions of the steps on the clock.
    """

    def __init__(
        self,
        runs: Sequence[PlayedRun],
        names: tuple[str, str],
        steps: Sequence[MergedStep],
        positions: Sequence[float],
    ) -> None:
        self.runs, self.steps, self.positions = runs, steps, positions
        self._names = {FIRST: names[0], OTHER: names[1]}
        self.listed: Sequence[int] = range(len(steps))
        self._by_seq = [{event.seq: event for event in run.events} for run in runs]
        self._step_of = [
            {
                run.events[at].seq: number
                for number, step in enumerate(steps)
                if (at := step.index_in(which)) is not None
            }
            for which, run in enumerate(runs)
        ]
        self._broken = [{each.seq for each in run.broken} for run in runs]
        self._cache = PartCache()

    def event(self, number: int) -> tuple[int, Event]:
        which, at = self.steps[number].place
        return which, self.runs[which].events[at]

    def only_in(self, number: int) -> str:
        """Return the name of the only run that has this step, or "" if it is in every run."""
        return self._names.get(self.steps[number].which, "")

    def step_of(self, which: int, seq: int) -> int:
        """Return the number of the step in which an event of a run happens, or -1."""
        return self._step_of[which].get(seq, -1)

    def lineage(self, number: int) -> list[int]:
        """Return the step, its causes and, if the step broke a promise, the steps that led to the
        violation.
        """
        which, event = self.event(number)
        seq = event.seq
        broke = next((each for each in self.runs[which].broken if each.seq == seq), None)
        found = {self.step_of(which, each) for each in broke.lineage} if broke else set()
        found.update(self.step_of(which, each.seq) for each in lineage(self._by_seq[which], seq))
        return sorted(found - {-1})

    def marks(self, number: int, y: float, narrow_y: float) -> Mark:
        """Return the picture after step `number`, or before the first step if it is -1. On narrow
        pages, it is at `narrow_y`, and the causes are below the events.
        """
        led = self.lineage(number) if number >= 0 else []
        place = bisect_left(self.listed, number + 1) - 1
        first = min(max(place - BEFORE, 0), max(len(self.listed) - ROWS, 0))
        sight = self.listed[first : first + ROWS]
        rows = [
            self._cache.part(
                n,
                self._row,
                *(n, at, "now" if n == number else "later" if n > number else "past", n in led),
            )
            for at, n in enumerate(sight, start=first)
        ]
        story = group(
            "story",
            _frame(),
            self._cache.group("rows", *rows, y=22 - ROW * first),
            self._cache.part("causes", self._causes, number, *led[-MAX_CAUSES:]),
            y=y,
        )
        return narrowed(story, group("", y=narrow_y))

    def _row(self, number: int, at: int, when: str, led: bool) -> Mark:
        which, event = self.event(number)
        words, time = self.runs[which].sentence(event), time_words(event.time_us)
        name = self.only_in(number)
        whose = f"{name}: " if name else ""
        is_broken = event.seq in self._broken[which]
        which_runs = self.steps[number].which if len(self.runs) > 1 else None
        glyph = "✘" if is_broken else "▶" if when == "now" else "•" if led else ""
        ink = "lost" if is_broken else "faint" if when == "later" else "ink"
        shown = fitted(words, LIST_WIDTH - TIME_X - 16, bold=when == "now")
        box = rect("box", 0, 0, LIST_WIDTH, ROW, rx=3, fill="tint" if when == "now" else "page")
        kin = [entry_kin(event.ledger, event.entry)] if event.entry >= 0 else []
        return group(
            str(number),
            box,
            *(
                rect(f"run {run}", 20 + 7 * run, 2, 4, ROW - 4, rx=2, fill=colour)
                for run, colour in enumerate(RUN_COLOURS)
                if which_runs in (BOTH, (FIRST, OTHER)[run])
            ),
            text("glyph", 10, 16, glyph, fill="lost" if is_broken else "stored", anchor="middle"),
            text("time", TIME_X - 4, 16, time, fill="faint", anchor="end"),
            text("words", TIME_X + 6, 16, shown, fill=ink, bold=when == "now"),
            y=ROW * at,
            title=f"{time}: {whose}{words}",
            kin=" ".join([*kin, node_kin(event.node)]),
            act="seek",
            on=str(round(self.positions[number], 1)),
        )

    def _causes(self, number: int, *led: int) -> Mark:
        parts, y = list[Mark](), 18.0
        for n in led:
            which, event = self.event(n)
            words = f"{time_words(event.time_us)}  {self.runs[which].sentence(event)}"
            is_now = n == number
            lines = lines_of(words, SIDE_WIDTH - 12, bold=is_now)
            rest = fitted(" ".join(lines[1:]), SIDE_WIDTH - 12, bold=is_now)
            shown = (*lines[:1], rest) if rest else lines
            box = rect("box", 0, 0, SIDE_WIDTH, 34, rx=3, fill="box" if is_now else "page")
            label = [
                text(f"line {i}", 6, 14 + 15 * i, line, bold=is_now) for i, line in enumerate(shown)
            ]
            at = str(round(self.positions[n], 1))
            parts.append(group(str(n), box, *label, y=y, title=words, act="seek", on=at))
            y += 35
        which, now = self.event(number) if number >= 0 else (0, None)
        if now and (message := self.runs[which].messages.get(now.seq)):
            words = f"message: {message.replace('>', ' → ')}"
            parts.append(text("message", 6, HEIGHT - 6, fitted(words, SIDE_WIDTH), fill="faint"))
        return narrowed(group("causes", *parts, x=SIDE_X), group("", y=HEIGHT))


@lru_cache(8)
def _frame() -> Mark:
    return group(
        "frame",
        path("rule", "M0 0H844", stroke="line"),
        text("events", 0, 15, "Events", bold=True),
        narrowed(
            text("causes", SIDE_X, 15, "What led to this event", bold=True),
            text("", 0, HEIGHT + 15, "", bold=True),
        ),
    )
