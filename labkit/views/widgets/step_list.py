"""Draws an ordered list of steps, with the delay or condition between each step and the next.

    Steps([Step("the ledger is closed"), Step("it is deleted", "2 minutes", "the broker's timer")])

The picture is not interactive.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.views.widgets.drawing.scene import Mark, circle, path, picture, text
from labkit.views.widgets.view import StillPicture

WIDTH, MARGIN = 720, 18
LINE_X, TEXT_X, NOTE_X = 30, 52, 410
STEP_HEIGHT, BETWEEN_HEIGHT = 26, 24


@dataclass(frozen=True, slots=True)
class Step:
    """One step.

    before: the delay or condition between the previous step and this one.
    note: what triggers the step, or what it means.
    """

    name: str
    before: str = ""
    note: str = ""


class Steps(StillPicture):
    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)

    def __repr__(self) -> str:
        return "\n".join(map(_words, self.steps))

    def scene(self) -> Mark:
        between_count = sum(bool(step.before) for step in self.steps)
        height = 2 * MARGIN + STEP_HEIGHT * len(self.steps) + BETWEEN_HEIGHT * between_count
        d = f"M{LINE_X} {MARGIN + 13}V{height - MARGIN - 13}"
        marks, y = [path("line", d, stroke="stored", thick=2)], MARGIN
        for at, step in enumerate(self.steps):
            if step.before:
                marks.append(text(f"before {at}", TEXT_X, y + 16, step.before, fill="lost"))
                marks.append(text(f"note {at}", NOTE_X, y + 16, step.note, fill="faint"))
                y += BETWEEN_HEIGHT
            marks.append(circle(f"dot {at}", LINE_X, y + 13, 6, fill="stored"))
            marks.append(text(f"name {at}", TEXT_X, y + 17.5, step.name, size=13, bold=True))
            y += STEP_HEIGHT
        return picture(WIDTH, height, repr(self), *marks)


def _words(step: Step) -> str:
    between = ", ".join(part for part in (step.before, step.note) if part)
    return f"  {between}\n{step.name}" if between else step.name
