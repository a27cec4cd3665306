"""Steps as a line: what comes after what, and what lies between two of them.

    Steps([Step("the ledger is closed"), Step("it is deleted", "2 minutes", "the broker's timer")])

A still picture only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.widgets.drawing import FAINT, INK, LOST, STORED, Drawing, bundle

WIDTH = 720
MARGIN = 18
LINE_X = 30
TEXT_X = 52
NOTE_X = 410
STEP_HEIGHT, BETWEEN_HEIGHT = 26, 24


@dataclass(frozen=True, slots=True)
class Step:
    """`before`: what lies between the step before and this one.  `note`: what decides it, or what
    it means.
    """

    name: str
    before: str = ""
    note: str = ""


class Steps:
    """Shows steps from the first, above, to the last."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)

    def __repr__(self) -> str:
        return "\n".join(map(_words, self.steps))

    def svg(self) -> str:
        """The picture as an SVG document that needs nothing from elsewhere."""
        drawing = Drawing()
        between_count = sum(bool(step.before) for step in self.steps)
        height = 2 * MARGIN + STEP_HEIGHT * len(self.steps) + BETWEEN_HEIGHT * between_count
        drawing.begin(WIDTH, height, repr(self))
        drawing.add(
            f"<path d='M{LINE_X} {MARGIN + 13}V{height - MARGIN - 13}' stroke='{STORED}'"
            " stroke-width='2'/>"
        )
        y: float = MARGIN
        for step in self.steps:
            if step.before:
                drawing.text(TEXT_X, y + 16, step.before, fill=LOST)
                drawing.text(NOTE_X, y + 16, step.note, fill=FAINT)
                y += BETWEEN_HEIGHT
            drawing.add(f"<circle cx='{LINE_X}' cy='{y + 13:g}' r='6' fill='{STORED}'/>")
            drawing.text(TEXT_X, y + 17.5, step.name, fill=INK, size=13, bold=True)
            y += STEP_HEIGHT
        return drawing.end()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return bundle(repr(self), self.svg())


def _words(step: Step) -> str:
    between = ", ".join(part for part in (step.before, step.note) if part)
    return f"  {between}\n{step.name}" if between else step.name
