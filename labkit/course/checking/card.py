"""Cards: what a lesson answers with, as text and as HTML for light and dark themes.

A card's text is the same in every run, so that a committed notebook can be compared with a new run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from typing import Protocol, runtime_checkable

from IPython.display import display

from labkit.views.widgets.view import View

# JupyterLab's own variables follow its theme; elsewhere the second colour reads on light and dark.
_BLOCK = (
    "border-left:4px solid {colour};padding:.3em .9em;margin:.3em 0;"
    "color:var(--jp-content-font-color1,inherit)"
)
# JupyterLab breaks what is preformatted inside words.
_WORDS_STYLE = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
_NEUTRAL = "var(--jp-brand-color1,#2b7bba)"


class CardState(StrEnum):
    """How an exercise stands; the value is the sign in front of it, so that colour says nothing
    alone.
    """

    PASSED = "✔"
    REFUSED = "✘"
    OPEN = "○"


_WORDS = {CardState.PASSED: "passed", CardState.REFUSED: "not yet", CardState.OPEN: "open"}
_COLOURS = {
    CardState.PASSED: "var(--jp-success-color1,#2a8a5d)",
    CardState.REFUSED: "var(--jp-error-color1,#d0552b)",
    CardState.OPEN: _NEUTRAL,
}


@runtime_checkable
class Playable(Protocol):
    """A counterexample for which there is a view, such as a run that plays in a timeline."""

    def view(self) -> object:
        """The counterexample, opened where the promise broke; a `View` if it is live."""


@dataclass(frozen=True, slots=True, repr=False)
class Card:
    """What `check` answers.

    message: one sentence; for a refused answer the rule that broke.
    counterexample: the smallest case that shows it, a value with words (`str`) or a picture of its
    own; None if there is none to show.  A view, or one with a `view()`, is live under the card.
    asked: in words a call of the learner's function that led there, None if there is none to tell.
    """

    name: str
    outcome: CardState
    message: str
    counterexample: object = None
    asked: object = None

    @property
    def passed(self) -> bool:
        """Whether the exercise is done."""
        return self.outcome is CardState.PASSED

    def __repr__(self) -> str:
        text = f"{self.outcome} {self.name}: {_WORDS[self.outcome]}. {self.message}"
        parts = (text, self.asked, self.counterexample)
        return "\n".join(str(part) for part in parts if part is not None)

    def _ipython_display_(self) -> None:
        """A view is shown under the card, where it is live and follows the theme."""
        shown = self.counterexample
        view = shown.view() if isinstance(shown, Playable) else shown
        if not isinstance(view, View):
            raise NotImplementedError("the card's HTML shows all of it")
        card = {"text/plain": repr(self), "text/html": self._repr_html_()}
        display(card, raw=True)  # type: ignore[no-untyped-call]
        display(view)  # type: ignore[no-untyped-call]

    def _repr_html_(self) -> str:
        title = f"{self.outcome} {self.name}: {_WORDS[self.outcome]}"
        shown = self.counterexample
        picture = "" if shown is None or isinstance(shown, View) else picture_of(shown)
        asked = "" if self.asked is None else _paragraph(str(self.asked))
        return _block(_COLOURS[self.outcome], title, _paragraph(self.message) + asked + picture)


@dataclass(frozen=True, slots=True, repr=False)
class Note:
    """A hint, or a prediction beside what came: a title and one line for each thing said."""

    title: str
    lines: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join((self.title, *(f"  {line}" for line in self.lines)))

    def _repr_html_(self) -> str:
        return _block(_NEUTRAL, self.title, "".join(map(_paragraph, self.lines)))


def picture_of(value: object) -> str:
    """A value as HTML: its own picture, or its words."""
    html: Callable[[], str] | None = getattr(value, "_repr_html_", None)
    if html is not None:
        return html()
    return f'<pre style="{_WORDS_STYLE}">{escape(str(value))}</pre>'


def _block(colour: str, title: str, inside: str) -> str:
    return f'<div style="{_BLOCK.format(colour=colour)}"><b>{escape(title)}</b>{inside}</div>'


def _paragraph(text: str) -> str:
    return f'<p style="margin:.3em 0;white-space:pre-wrap">{escape(text)}</p>'
